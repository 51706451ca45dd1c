import torch
import torch.nn as nn

batch_size = 128
in_channels = 3
squeezed = 6
expanded1 = 64
expanded3 = 64
image_size = 256


class Model(nn.Module):
    """A pointwise convolution to few channels, and two convolutions from them, side by side."""

    def __init__(self, in_channels, squeezed, expanded1, expanded3):
        super().__init__()
        self.squeeze = nn.Conv2d(in_channels, squeezed, kernel_size=1)
        self.expand1 = nn.Conv2d(squeezed, expanded1, kernel_size=1)
        self.expand3 = nn.Conv2d(squeezed, expanded3, kernel_size=3, padding=1)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.relu(self.squeeze(x))
        return torch.cat([self.relu(self.expand1(x)), self.relu(self.expand3(x))], dim=1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, squeezed, expanded1, expanded3]
