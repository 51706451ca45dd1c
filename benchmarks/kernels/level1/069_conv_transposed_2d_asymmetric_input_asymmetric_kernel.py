import torch
import torch.nn as nn

batch_size = 64
in_channels = 64
out_channels = 128
height = 128
width = 256
kernel_size = (3, 5)


class Model(nn.Module):
    """A transposed convolution of an image."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
