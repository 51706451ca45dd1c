import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 16
depth = 16
height = 64
width = 64
kernel_size = 3
divisor = 2.0
pool_size = (2, 2, 2)


class Model(nn.Module):
    """A convolution of volumes, a division, pooling, global pooling, a bias and a sum over the channels."""

    def __init__(self, in_channels, out_channels, kernel_size, divisor, pool_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.divisor = divisor
        self.pool = nn.MaxPool3d(pool_size)
        self.global_pool = nn.AdaptiveAvgPool3d((1, 1, 1))
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        x = self.pool(self.conv(x) / self.divisor)
        x = self.global_pool(x) + self.bias
        return torch.sum(x, dim=1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, divisor, pool_size]
