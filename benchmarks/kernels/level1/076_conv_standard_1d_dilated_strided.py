import torch
import torch.nn as nn

batch_size = 64
in_channels = 64
out_channels = 128
length = 524280
kernel_size = 3
stride = 3
dilation = 4


class Model(nn.Module):
    """A convolution of a sequence, strided and dilated."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, dilation):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size, stride=stride, dilation=dilation, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, length)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, dilation]
