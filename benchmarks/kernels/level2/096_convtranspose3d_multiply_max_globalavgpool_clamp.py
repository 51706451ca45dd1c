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
scale = 0.5
pool_size = 2


class Model(nn.Module):
    """A transposed convolution, a scaling, pooling, means of the volumes and a clamp."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, scale, pool_size):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.scale = scale
        self.pool = nn.MaxPool3d(pool_size)
        self.global_pool = nn.AdaptiveAvgPool3d((1, 1, 1))

    def forward(self, x):
        x = self.global_pool(self.pool(self.conv(x) * self.scale))
        return torch.clamp(x, min=0, max=1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, scale, pool_size]
