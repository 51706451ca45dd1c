import torch
import torch.nn as nn

batch_size = 32
in_channels = 32
out_channels = 64
depth = 32
height = 64
width = 64
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
pool_size = 2
low = 0.0
high = 1.0


class Model(nn.Module):
    """Pooling, a transposed convolution, a clamp, softmax over each volume and a learned scale."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size, low, high):
        super().__init__()
        self.pool = nn.AvgPool3d(pool_size)
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.low = low
        self.high = high
        self.scale = nn.Parameter(torch.ones(1, out_channels, 1, 1, 1))

    def forward(self, x):
        x = torch.clamp(self.conv(self.pool(x)), self.low, self.high)
        batch, channels, depth, height, width = x.shape
        x = torch.softmax(x.view(batch, channels, -1), dim=2)
        return x.view(batch, channels, depth, height, width) * self.scale


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, pool_size, low, high]
