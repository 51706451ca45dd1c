import torch
import torch.nn as nn

batch_size = 64
channels = 128
height = 256
width = 512
kernel_size = 3


class Model(nn.Module):
    """A depthwise convolution of an image."""

    def __init__(self, channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, kernel_size]
