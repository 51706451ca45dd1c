import torch
import torch.nn as nn

batch_size = 64
in_channels = 3
out_channels = 16
depth = 32
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1


class Model(nn.Module):
    """A transposed convolution, batch normalisation and average pooling twice."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.norm = nn.BatchNorm3d(out_channels)
        self.first = nn.AvgPool3d(kernel_size=2)
        self.second = nn.AvgPool3d(kernel_size=2)

    def forward(self, x):
        return self.second(self.first(self.norm(self.conv(x))))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
