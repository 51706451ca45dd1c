import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
size = 512
kernel_size = 3
stride = 1
padding = 1
dilation = 1


class Model(nn.Module):
    """A depthwise convolution and a pointwise one."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation):
        super().__init__()
        self.depthwise = nn.Conv2d(
            in_channels, in_channels, kernel_size, stride, padding, dilation, groups=in_channels, bias=False
        )
        self.pointwise = nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def get_inputs():
    return [torch.rand(batch_size, in_channels, size, size)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding, dilation]
