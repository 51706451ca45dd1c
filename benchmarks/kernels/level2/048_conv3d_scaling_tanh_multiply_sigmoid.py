import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 64
width = 64
kernel_size = 3


class Model(nn.Module):
    """A convolution of volumes, a learned scale, tanh, a learned factor and sigmoid."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.scale = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        x = torch.tanh(self.conv(x) * self.scale)
        return torch.sigmoid(x * self.factor)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
