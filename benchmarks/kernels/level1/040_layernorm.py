import torch
import torch.nn as nn

batch_size = 16
channels = 64
height = 256
width = 256


class Model(nn.Module):
    """Normalisation of each image as a whole."""

    def __init__(self, normalized_shape):
        super().__init__()
        self.norm = nn.LayerNorm(normalized_shape=normalized_shape)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(batch_size, channels, height, width)]


def get_init_inputs():
    return [(channels, height, width)]
