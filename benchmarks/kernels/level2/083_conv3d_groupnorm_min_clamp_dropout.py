import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
out_channels = 16
depth = 16
height = 64
width = 64
kernel_size = 3
num_groups = 8
low = 0.0
high = 1.0
dropout_p = 0.2


class Model(nn.Module):
    """A convolution of volumes, group normalisation, the minimum with a number, a clamp and dropout."""

    def __init__(self, in_channels, out_channels, kernel_size, num_groups, low, high, dropout_p):
        super().__init__()
        self.conv = nn.Conv3d(in_channels, out_channels, kernel_size)
        self.norm = nn.GroupNorm(num_groups, out_channels)
        self.low = low
        self.high = high
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, x):
        x = self.norm(self.conv(x))
        x = torch.min(x, torch.tensor(self.high, device=x.device))
        return self.dropout(torch.clamp(x, min=self.low, max=self.high))


def get_inputs():
    return [torch.rand(batch_size, in_channels, depth, height, width)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, num_groups, low, high, dropout_p]
