import torch
import torch.nn as nn

batch_size = 8
in_channels = 3
image_size = 224
block_widths = [64, 128, 256]
stages = 3
num_classes = 10


class Model(nn.Module):
    """A network of stages, each of two convolutions with batch normalisation, and pooling."""

    def __init__(self, in_channels, stages, block_widths, num_classes):
        super().__init__()
        layers = []
        channels = in_channels
        for width in block_widths[:stages]:
            layers += [
                nn.Conv2d(channels, width, kernel_size=3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, kernel_size=3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.MaxPool2d(kernel_size=2, stride=2),
            ]
            channels = width
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.features(x)
        return self.fc(torch.mean(x, dim=[2, 3]))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, stages, block_widths, num_classes]
