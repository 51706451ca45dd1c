import torch
import torch.nn as nn

batch_size = 4
in_channels = 32
out_channels = 32
depth = 32
height = 64
width = 32
kernel_size = 3
stride = 2
padding = 1
groups = 4


class Model(nn.Module):
    """A transposed convolution of a volume, strided, padded and grouped."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, groups):
        super().__init__()
        self.conv = nn.ConvTranspose3d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, groups=groups, bias=False
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, groups]
