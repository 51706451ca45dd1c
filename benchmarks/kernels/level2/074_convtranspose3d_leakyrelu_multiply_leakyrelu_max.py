import torch
import torch.nn as nn

batch_size = 16
in_channels = 16
out_channels = 32
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1
output_padding = 1


class Model(nn.Module):
    """A transposed convolution, LeakyReLU before and after a learned factor, and pooling."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.factor = nn.Parameter(torch.randn(out_channels, 1, 1, 1))
        self.activation = nn.LeakyReLU(negative_slope=0.2)
        self.pool = nn.MaxPool3d(kernel_size=2)

    def forward(self, x):
        x = self.activation(self.conv(x)) * self.factor
        return self.pool(self.activation(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding]
