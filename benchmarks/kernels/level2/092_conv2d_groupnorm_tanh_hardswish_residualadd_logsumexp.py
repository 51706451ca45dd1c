import torch
import torch.nn as nn

batch_size = 128
in_channels = 8
out_channels = 64
height = 128
width = 128
kernel_size = 3
num_groups = 16


class Model(nn.Module):
    """A convolution, its normalised, activated form added to it, and log-sum-exp over the channels."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.activation = nn.Hardswish()

    def forward(self, x):
        x = self.conv(x)
        x = x + self.activation(torch.tanh(self.norm(x)))
        return torch.logsumexp(x, dim=1, keepdim=True)


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups]
