import torch
import torch.nn as nn

batch_size = 112
channels = 64
num_groups = 8
height = 512
width = 512


class Model(nn.Module):
    """Normalisation of groups of channels."""

    def __init__(self, channels, num_groups):
        super().__init__()
        self.norm = nn.GroupNorm(num_groups=num_groups, num_channels=channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels, num_groups]
