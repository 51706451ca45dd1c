import torch
import torch.nn as nn

batch_size = 64
in_channels = 128
out_channels = 128
length = 65536
kernel_size = 3


class Model(nn.Module):
    """A transposed convolution of a sequence."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
