import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
depth = 32
height = 32
width = 32
kernel_size = 5
stride = 2
padding = 2


class Model(nn.Module):
    """A transposed convolution, two poolings and a sum over the channels."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.first = nn.MaxPool3d(kernel_size=2)
        self.second = nn.MaxPool3d(kernel_size=3)

    def forward(self, x):
        return torch.sum(self.second(self.first(self.conv(x))), dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
