import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 16
in_channels = 64
out_channels = 128
height = 128
width = 128
kernel_size = 3
stride = 2
padding = 1
output_padding = 1


class Model(nn.Module):
    """A transposed convolution, minima over the channels, sums over the rows, GELU and a bias."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.bias = nn.Parameter(torch.randn(1, 1, 1))

    def forward(self, x):
        x = torch.min(self.conv(x), dim=1, keepdim=True)[0]
        x = torch.sum(x, dim=2, keepdim=True)
        return F.gelu(x) + self.bias


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding]
