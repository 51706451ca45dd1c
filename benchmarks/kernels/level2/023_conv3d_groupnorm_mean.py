import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 24
depth = 24
height = 32
width = 32
kernel_size = 3
num_groups = 8


class Model(nn.Module):
    """A convolution of volumes, group normalisation, and the mean of each sample."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.weight = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        return (self.norm(self.conv(x)) * self.weight).mean(dim=[1, 2, 3, 4])


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
