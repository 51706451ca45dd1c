import torch
import torch.nn as nn

batch_size = 64
in_channels = 3
image_size = 512
base = 16
num_classes = 1000


class Fire(nn.Module):
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


class Model(nn.Module):
    """SqueezeNet; its first squeeze has `base` channels and the others are in proportion."""

    def __init__(self, in_channels, base, num_classes):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 6 * base, kernel_size=7, stride=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(6 * base, base, 4 * base, 4 * base),
            Fire(8 * base, base, 4 * base, 4 * base),
            Fire(8 * base, 2 * base, 8 * base, 8 * base),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(16 * base, 2 * base, 8 * base, 8 * base),
            Fire(16 * base, 3 * base, 12 * base, 12 * base),
            Fire(24 * base, 3 * base, 12 * base, 12 * base),
            Fire(24 * base, 4 * base, 16 * base, 16 * base),
            nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True),
            Fire(32 * base, 4 * base, 16 * base, 16 * base),
        )
        self.classifier = nn.Sequential(
            nn.Dropout(0.0),
            nn.Conv2d(32 * base, num_classes, kernel_size=1),
            nn.ReLU(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        )

    def forward(self, x):
        return torch.flatten(self.classifier(self.features(x)), 1)


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, base, num_classes]
