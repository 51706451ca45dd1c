import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
depth = 24
height = 48
width = 48
kernel_size = 3
stride = 2
padding = 1
low = -1.0
divisor = 2.0


class Model(nn.Module):
    """A transposed convolution, a lower bound and a division."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, low, divisor):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.low = low
        self.divisor = divisor

    def forward(self, x):
        return torch.clamp(self.conv(x), min=self.low) / self.divisor


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, low, divisor]
