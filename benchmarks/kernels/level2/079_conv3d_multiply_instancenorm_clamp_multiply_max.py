import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
low = -1.0
high = 1.0


class Model(nn.Module):
    """A convolution of volumes, a learned factor around normalisation and a clamp, and maxima over the channels."""

    def __init__(self, in_channels, out_channels, kernel_size, low, high):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.norm = nn.InstanceNorm3d(out_channels)
        self.low = low
        self.high = high

    def forward(self, x):
        x = self.norm(self.conv(x) * self.factor)
        x = torch.clamp(x, self.low, self.high) * self.factor
        return torch.max(x, dim=1)[0]


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, low, high]
