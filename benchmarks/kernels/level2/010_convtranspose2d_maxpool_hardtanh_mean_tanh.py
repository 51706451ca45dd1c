import torch
import torch.nn as nn

batch_size = 128
in_channels = 64
out_channels = 64
height = 256
width = 256
kernel_size = 3
stride = 1
padding = 1
pool_size = 2
low = -1.0
high = 1.0


class Model(nn.Module):
    """A transposed convolution, pooling, a clamp, means of the images and tanh."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, pool_size, low, high):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding)
        self.pool = nn.MaxPool2d(pool_size)
        self.clamp = nn.Hardtanh(low, high)

    def forward(self, x):
        x = self.clamp(self.pool(self.conv(x)))
        return torch.tanh(torch.mean(x, dim=(2, 3), keepdim=True))


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, pool_size, low, high]
