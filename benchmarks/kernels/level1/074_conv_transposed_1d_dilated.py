import torch
import torch.nn as nn

batch_size = 32
in_channels = 32
out_channels = 64
length = 131072
kernel_size = 5
dilation = 3


class Model(nn.Module):
    """A transposed convolution of a sequence, dilated."""

    def __init__(self, in_channels, out_channels, kernel_size, dilation):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, dilation=dilation, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, dilation]
