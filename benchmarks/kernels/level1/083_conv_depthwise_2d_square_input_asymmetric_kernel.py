import torch
import torch.nn as nn

batch_size = 64
channels = 8
size = 512
kernel_size = (3, 1)


class Model(nn.Module):
    """A depthwise convolution of an image."""

    def __init__(self, channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, channels, size, size)]


def get_init_inputs():
    return [channels, kernel_size]
