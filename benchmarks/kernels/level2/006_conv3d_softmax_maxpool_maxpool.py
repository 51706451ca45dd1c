import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
pool_size = 2


class Model(nn.Module):
    """A convolution of volumes, softmax over the channels and two poolings."""

    def __init__(self, in_channels, out_channels, kernel_size, pool_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.first = nn.MaxPool3d(pool_size)
        self.second = nn.MaxPool3d(pool_size)

    def forward(self, x):
        x = torch.softmax(self.conv(x), dim=1)
        return self.second(self.first(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size]
