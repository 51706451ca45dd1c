import torch
import torch.nn as nn

batch_size = 128
in_channels = 64
out_channels = 128
height = 128
width = 128
kernel_size = 3
constant_value = 0.5
scaling_factor = 2.0


class Model(nn.Module):
    """A convolution, the minimum with a number, a bias and a scaling."""

    def __init__(self, in_channels, out_channels, kernel_size, constant_value, scaling_factor):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.constant_value = constant_value
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = torch.min(self.conv(x), torch.tensor(self.constant_value))
        return (x + self.bias) * self.scaling_factor


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, constant_value, scaling_factor]
