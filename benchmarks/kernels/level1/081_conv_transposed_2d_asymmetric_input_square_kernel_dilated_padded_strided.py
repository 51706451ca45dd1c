import torch
import torch.nn as nn

batch_size = 16
in_channels = 32
out_channels = 64
height = 64
width = 128
kernel_size = 3
stride = 5
padding = 1
dilation = 2


class Model(nn.Module):
    """A transposed convolution of an image, strided, padded and dilated."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation):
        super().__init__()
        self.conv = nn.ConvTranspose2d(
            in_channels, out_channels, kernel_size, stride=stride, padding=padding, dilation=dilation, bias=False
        )

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
