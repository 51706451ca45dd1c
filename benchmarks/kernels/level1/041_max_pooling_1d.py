import torch
import torch.nn as nn

batch_size = 64
channels = 192
length = 65536
kernel_size = 8
stride = 1
padding = 4
dilation = 3


class Model(nn.Module):
    """Maxima of windows of a sequence."""

    def __init__(self, kernel_size, stride, padding, dilation):
        super().__init__()
        self.pool = nn.MaxPool1d(kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        return self.pool(x)


def get_inputs():
    return [torch.rand(batch_size, channels, length)]


def get_init_inputs():
    return [kernel_size, stride, padding, dilation]
