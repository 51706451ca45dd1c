import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
depth = 32
height = 32
width = 32
kernel_size = 3
num_groups = 8


class Model(nn.Module):
    """A transposed convolution without bias, ReLU and group normalisation."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, bias=False)
        self.norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        return self.norm(torch.relu(self.conv(x)))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
