import torch
import torch.nn as nn

batch_size = 8
in_channels = 64
out_channels = 64
size = 1024
kernel_size = 3


class Model(nn.Module):
    """A transposed convolution of an image."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
