import torch
import torch.nn as nn

batch_size = 128
in_channels = 64
out_channels = 128
height = 128
width = 128
kernel_size = 3
first_value = 0.5
second_value = 0.2
pool_size = 2


class Model(nn.Module):
    """A convolution, numbers taken away before and after tanh, and average pooling."""

    def __init__(self, in_channels, out_channels, kernel_size, first_value, second_value, pool_size):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.first_value = first_value
        self.second_value = second_value
        self.pool = nn.AvgPool2d(pool_size)

    def forward(self, x):
        x = torch.tanh(self.conv(x) - self.first_value)
        return self.pool(x - self.second_value)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, first_value, second_value, pool_size]
