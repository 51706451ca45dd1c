import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 8
out_channels = 64
height = 256
width = 256
kernel_size = 3
first_value = 0.5
second_value = 0.2


class Model(nn.Module):
    """A convolution, two numbers taken away, and Mish."""

    def __init__(self, in_channels, out_channels, kernel_size, first_value, second_value):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.first_value = first_value
        self.second_value = second_value

    def forward(self, x):
        return F.mish(self.conv(x) - self.first_value - self.second_value)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, first_value, second_value]
