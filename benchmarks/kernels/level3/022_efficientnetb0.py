import math

import torch
import torch.nn as nn

batch_size = 10
image_size = 224
base = 32
num_classes = 1000


class MBConv(nn.Module):
    """A pointwise convolution to more channels, a depthwise one, and a pointwise one back, around a shortcut."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio):
        super().__init__()
        self.shortcut = stride == 1 and in_channels == out_channels
        hidden = in_channels * expand_ratio
        layers = []
        if expand_ratio != 1:
            layers += [
                nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
                nn.BatchNorm2d(hidden),
                nn.SiLU(inplace=True),
            ]
        layers += [
            nn.Conv2d(hidden, hidden, kernel_size, stride, padding=kernel_size // 2, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.SiLU(inplace=True),
        ]
        self.expand = nn.Sequential(*layers)
        self.project = nn.Sequential(
            nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x):
        y = self.expand(x)
        y = self.project(y)
        return x + y if self.shortcut else y


class Model(nn.Module):
    """EfficientNet-B0, without excitation; its stem has `base` channels."""

    def __init__(self, base, num_classes):
        super().__init__()

        def widened(channels):
            return max(1, round(channels * 1.0 * base / 32))

        channels = widened(32)
        layers = [
            nn.Conv2d(3, channels, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.SiLU(inplace=True),
        ]
        settings = (
            (1, 16, 1, 1, 3),
            (6, 24, 2, 2, 3),
            (6, 40, 2, 2, 5),
            (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5),
            (6, 192, 4, 2, 5),
            (6, 320, 1, 1, 3),
        )
        for expand_ratio, out, count, stride, kernel_size in settings:
            for number in range(math.ceil(count * 1.0)):
                first = number == 0
                layers.append(MBConv(channels, widened(out), kernel_size, stride if first else 1, expand_ratio))
                channels = widened(out)
        last = widened(1280)
        layers += [
            nn.Conv2d(channels, last, kernel_size=1, bias=False),
            nn.BatchNorm2d(last),
            nn.SiLU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
        ]
        self.features = nn.Sequential(*layers)
        self.fc = nn.Linear(last, num_classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def get_inputs():
    return [torch.rand(batch_size, 3, image_size, image_size)]


def get_init_inputs():
    return [base, num_classes]
