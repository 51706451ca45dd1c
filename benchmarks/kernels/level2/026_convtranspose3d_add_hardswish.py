import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 32
out_channels = 64
depth = 16
height = 16
width = 16
kernel_size = 3
stride = 2
padding = 1
output_padding = 1


class Model(nn.Module):
    """A transposed convolution, another tensor added, and a product with its HardSwish."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding)

    def forward(self, x, other):
        x = self.conv(x) + other
        return x * F.hardswish(x)


def get_inputs():
    return [
        torch.rand(batch_size, in_channels, depth, height, width),
        torch.rand(batch_size, out_channels, depth * stride, height * stride, width * stride),
    ]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding]
