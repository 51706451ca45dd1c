import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 32
in_channels = 32
out_channels = 64
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
normalized_shape = (64,)
pool_size = (2, 2, 2)
sum_weight = 1.0


class Model(nn.Module):
    """A transposed convolution, a learned sum, normalisation of the last dimension, average pooling and GELU."""

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        sum_weight,
        normalized_shape,
        pool_size,
    ):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.sum_weight = nn.Parameter(torch.tensor(sum_weight))
        self.norm = nn.LayerNorm(normalized_shape)
        self.pool = nn.AvgPool3d(kernel_size=pool_size)

    def forward(self, x):
        x = self.norm(self.conv(x) + self.sum_weight)
        return F.gelu(self.pool(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        output_padding,
        sum_weight,
        normalized_shape,
        pool_size,
    ]
