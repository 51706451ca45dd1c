import torch
import torch.nn as nn

batch_size = 128
in_channels = 32
out_channels = 64
image_size = 256


class Model(nn.Module):
    """Batch normalisation, ReLU, a pointwise convolution and pooling, between two dense blocks."""

    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.transition = nn.Sequential(
            nn.BatchNorm2d(in_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
            nn.AvgPool2d(kernel_size=2, stride=2),
        )

    def forward(self, x):
        return self.transition(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, out_channels]
