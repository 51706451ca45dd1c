import torch
import torch.nn as nn

batch_size = 112
channels = 64
height = 512
width = 512


class Model(nn.Module):
    """Normalisation of each channel of each image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.InstanceNorm2d(channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [channels]
