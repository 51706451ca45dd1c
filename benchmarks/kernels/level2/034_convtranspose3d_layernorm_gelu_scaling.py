import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
in_channels = 32
out_channels = 64
depth = 16
height = 32
width = 32
kernel_size = 4
stride = 2
padding = 1
eps = 1e-5
scaling_factor = 1.0


class Model(nn.Module):
    """A transposed convolution, normalisation of the last dimension, GELU and a scaling."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, eps, scaling_factor):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.norm = nn.LayerNorm(out_channels, eps=eps)
        self.scaling_factor = scaling_factor

    def forward(self, x):
        return F.gelu(self.norm(self.conv(x))) * self.scaling_factor


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, eps, scaling_factor]
