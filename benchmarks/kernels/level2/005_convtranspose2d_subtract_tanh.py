import torch
import torch.nn as nn

batch_size = 32
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 4
stride = 2
padding = 1
output_padding = 1


class Model(nn.Module):
    """A transposed convolution, a bias taken away, and tanh."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        return torch.tanh(self.conv(x) - self.bias)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding]
