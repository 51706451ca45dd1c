import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 64
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 3


class Model(nn.Module):
    """A convolution, a learned factor of each channel, LeakyReLU and GELU."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.activation = nn.LeakyReLU()

    def forward(self, x):
        return F.gelu(self.activation(self.conv(x) * self.factor))


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
