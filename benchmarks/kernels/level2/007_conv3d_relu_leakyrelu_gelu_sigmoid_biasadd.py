import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 64
in_channels = 8
out_channels = 32
depth = 32
height = 64
width = 64
kernel_size = 3


class Model(nn.Module):
    """A convolution of volumes, four activations and a bias."""

    def __init__(self, in_channels, out_channels, kernel_size):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1, 1))

    def forward(self, x):
        x = torch.relu(self.conv(x))
        x = F.leaky_relu(x, negative_slope=0.01)
        return torch.sigmoid(F.gelu(x)) + self.bias


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size]
