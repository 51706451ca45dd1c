import torch
import torch.nn as nn

batch_size = 16
channels = 64
height = 2048
width = 2048
kernel_size = 11


class Model(nn.Module):
    """Means of square windows of an image."""

    def __init__(self, kernel_size):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size=kernel_size)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [kernel_size]
