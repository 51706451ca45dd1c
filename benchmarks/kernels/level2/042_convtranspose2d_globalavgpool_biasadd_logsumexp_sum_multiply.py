import torch
import torch.nn as nn

batch_size = 16
in_channels = 64
out_channels = 128
height = 512
width = 512
kernel_size = 3
stride = 1


class Model(nn.Module):
    """A transposed convolution, means of the images, a bias, log-sum-exp, a sum and a scaling."""

    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.conv = nn.ConvTranspose2d(in_channels, out_channels, kernel_size, stride=stride)
        self.bias = nn.Parameter(torch.randn(out_channels, 1, 1))

    def forward(self, x):
        x = torch.mean(self.conv(x), dim=(2, 3), keepdim=True) + self.bias
        x = torch.logsumexp(x, dim=1, keepdim=True)
        return torch.sum(x, dim=(2, 3)) * 10.0


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride]
