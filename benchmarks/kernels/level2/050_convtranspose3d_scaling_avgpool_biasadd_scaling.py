import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
first_scale = 0.5
second_scale = 1.0


class Model(nn.Module):
    """A transposed convolution, a learned number, average pooling, a bias and another learned number."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, first_scale, second_scale):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.first_scale = nn.Parameter(torch.tensor(first_scale))
        self.pool = nn.AvgPool3d(kernel_size=2)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.second_scale = nn.Parameter(torch.tensor(second_scale))

    def forward(self, x):
        x = self.pool(self.conv(x) * self.first_scale)
        return (x + self.bias) * self.second_scale


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, first_scale, second_scale]
