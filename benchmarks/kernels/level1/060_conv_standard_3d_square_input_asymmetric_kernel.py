import torch
import torch.nn as nn

batch_size = 16
in_channels = 3
out_channels = 64
size = 64
kernel_size = (3, 5, 7)


class Model(nn.Module):
    """A convolution of a volume."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, size, size, size)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
