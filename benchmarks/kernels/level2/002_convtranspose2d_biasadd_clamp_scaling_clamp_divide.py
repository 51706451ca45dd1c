import torch
import torch.nn as nn

batch_size = 128
in_channels = 64
out_channels = 64
height = 128
width = 128
kernel_size = 3
stride = 2
padding = 1
output_padding = 1
scaling_factor = 2.0


class Model(nn.Module):
    """A transposed convolution with a bias, two clamps with a scaling between them, and the scaling undone."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, output_padding, scaling_factor):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride, padding, output_padding)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))
        self.scaling_factor = scaling_factor

    def forward(self, x):
        x = self.conv(x) + self.bias
        x = torch.clamp(x, min=0.0, max=1.0) * self.scaling_factor
        return torch.clamp(x, min=0.0, max=1.0) / self.scaling_factor


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, output_padding, scaling_factor]
