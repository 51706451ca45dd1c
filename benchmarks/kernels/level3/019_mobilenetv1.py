import torch
import torch.nn as nn

batch_size = 10
in_channels = 3
image_size = 224
width = 32
num_classes = 1000


def separable(in_channels, out_channels, stride):
    """A depthwise convolution and a pointwise one, each with batch normalisation and ReLU."""
    return nn.Sequential(
        nn.Conv2d(in_channels, in_channels, 3, stride, padding=1, groups=in_channels, bias=False),
        nn.BatchNorm2d(in_channels),
        nn.ReLU(inplace=True),
        nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(inplace=True),
    )


class Model(nn.Module):
    """MobileNet: a convolution and thirteen depthwise separable ones."""

    def __init__(self, in_channels, width, num_classes):
        super().__init__()
        layers = [
            nn.Conv2d(in_channels, width, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
        ]
        channels = width
        steps = ((2, 1), (4, 2), (4, 1), (8, 2), (8, 1), (16, 2), *((16, 1),) * 5, (32, 2), (32, 1))
        for factor, stride in steps:
            layers.append(separable(channels, factor * width, stride))
            channels = factor * width
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1))
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, width, num_classes]
