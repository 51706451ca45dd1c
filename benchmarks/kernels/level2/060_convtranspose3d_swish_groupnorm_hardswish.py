import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
num_groups = 4
eps = 1e-5


class Model(nn.Module):
    """A transposed convolution, Swish, group normalisation and HardSwish."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, num_groups, eps):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.norm = nn.GroupNorm(num_groups, out_channels, eps=eps)

    def forward(self, x):
        x = self.conv(x)
        x = torch.sigmoid(x) * x
        return F.hardswish(self.norm(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, num_groups, eps]
