import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 8
out_channels = 64
depth = 16
height = 64
width = 64
kernel_size = 3


class Model(nn.Module):
    """A convolution of volumes, LeakyReLU, a learned vector added, a clamp and GELU."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.offset = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        x = F.leaky_relu(self.conv(x), negative_slope=0.2) + self.offset
        return F.gelu(torch.clamp(x, min=-1.0, max=1.0))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
