import torch
import torch.nn as nn

batch_size = 512
in_channels = 64
out_channels = 128
height = 32
width = 32
kernel_size = 5
stride = 1
padding = 1
num_groups = 8
pool_size = 2


class Model(nn.Module):
    """A transposed convolution, batch normalisation, tanh, pooling and group normalisation."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, num_groups, pool_size):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding)
        self.batch_norm = nn.BatchNorm2d(out_channels)
        self.pool = nn.MaxPool2d(pool_size)
        self.group_norm = nn.GroupNorm(num_groups, out_channels)

    def forward(self, x):
        x = torch.tanh(self.batch_norm(self.conv(x)))
        return self.group_norm(self.pool(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, num_groups, pool_size]
