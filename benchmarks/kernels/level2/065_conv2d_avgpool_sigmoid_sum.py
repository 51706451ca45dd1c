import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 384
width = 384
kernel_size = 3
pool_size = 4


class Model(nn.Module):
    """A convolution, average pooling, sigmoid and the sum of each sample."""

    def __init__(self, in_channels, out_channels, kernel_size, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.pool = nn.AvgPool2d(pool_size)

    def forward(self, x):
        x = torch.sigmoid(self.pool(self.conv(x)))
        return torch.sum(x, dim=[1, 2, 3])


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, pool_size]
