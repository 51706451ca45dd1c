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
output_padding = 1
pool_size = 2


class Model(nn.Module):
    """A transposed convolution, pooling, softmax over the channels, a learned vector, Swish and maxima."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.pool = nn.MaxPool3d(pool_size)
        self.subtract = nn.Parameter(torch.randn(out_channels))

    def forward(self, x):
        x = torch.softmax(self.pool(self.conv(x)), dim=1)
        x = x - self.subtract.view(1, -1, 1, 1, 1)
        x = torch.sigmoid(x) * x
        return torch.max(x, dim=1)[0]


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size]
