import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 256
width = 256
kernel_size = 3
scaling_factor = 2.0
pool_size = 4


class Model(nn.Module):
    """A convolution, tanh, a scaling, a bias and pooling."""

    def __init__(self, in_channels, out_channels, kernel_size, scaling_factor, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.scaling_factor = scaling_factor
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.pool = nn.MaxPool2d(pool_size)

    def forward(self, x):
        x = torch.tanh(self.conv(x)) * self.scaling_factor + self.bias
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, scaling_factor, pool_size]
