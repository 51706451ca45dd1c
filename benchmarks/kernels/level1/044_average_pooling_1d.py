import torch
import torch.nn as nn

batch_size = 64
channels = 128
length = 65536
kernel_size = 8
stride = 1
padding = 4


class Model(nn.Module):
    """Means of windows of a sequence."""

    def __init__(self, kernel_size, stride, padding):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel_size=kernel_size, stride=stride, padding=padding)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, channels, length)]


def get_init_inputs():
    return [kernel_size, stride, padding]
