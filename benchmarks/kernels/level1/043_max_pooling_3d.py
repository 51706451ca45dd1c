import torch
import torch.nn as nn

batch_size = 16
channels = 32
depth = 128
height = 128
width = 128
kernel_size = 3
stride = 2
padding = 1
dilation = 3


class Model(nn.Module):
    """Maxima of cubes of a volume."""

    def __init__(self, kernel_size, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool3d(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, channels, depth, height, width)]


def get_init_inputs():
    return [kernel_size, stride, padding, dilation]
