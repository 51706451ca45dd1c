import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 128
width = 128
kernel_size = 3
num_groups = 16
pool_size = 4
low = 0.0
high = 1.0


class Model(nn.Module):
    """A convolution, group normalisation, a learned scale, pooling and a clamp."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups, pool_size, low, high):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.scale = nn.Parameter(torch.ones(out_channels, 1, 1))
        self.pool = nn.MaxPool2d(pool_size)
        self.low = low
        self.high = high

    def forward(self, x):
        x = self.pool(self.norm(self.conv(x)) * self.scale)
        return torch.clamp(x, self.low, self.high)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, pool_size, low, high]
