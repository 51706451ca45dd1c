import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 32
height = 256
width = 256
kernel_size = 3
num_groups = 8


class Model(nn.Module):
    """A convolution, a bias and a scale of each channel, sigmoid and group normalisation."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        x = (self.conv(x) + self.bias) * self.scale
        return self.norm(torch.sigmoid(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
