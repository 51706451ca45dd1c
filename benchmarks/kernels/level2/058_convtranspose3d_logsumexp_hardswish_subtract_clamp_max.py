import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 32
width = 32
kernel_size = 3
stride = 2
padding = 1


class Model(nn.Module):
    """A transposed convolution, log-sum-exp over the channels, a third of HardSwish, a bias, a clamp and maxima."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding):
        super().__init__()
        self.conv = nn.ConvTranspose3d(in_channels, out_channels, kernel_size, stride, padding)
        self.bias = nn.Parameter(torch.randn(1, 1, 1, 1))

    def forward(self, x):
        x = torch.logsumexp(self.conv(x), dim=1, keepdim=True)
        x = x * torch.sigmoid(x + 3) / 6 - self.bias
        x = torch.clamp(x, min=-1, max=1)
        return torch.max(x, dim=1, keepdim=True)[0]


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, padding]
