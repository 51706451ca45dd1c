import torch
import torch.nn as nn

batch_size = 10
in_channels = 3
image_size = 224
width = 32
num_classes = 1000


class InvertedResidual(nn.Module):
    """A pointwise convolution to more channels, a depthwise one, and a pointwise one back, around a shortcut."""

    def __init__(self, in_channels, out_channels, stride, expansion):
        super().__init__()
        hidden = in_channels * expansion
        self.shortcut = stride == 1 and in_channels == out_channels
        layers = []
        if expansion != 1:
            layers += [nn.Conv2d(in_channels, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True)]
        layers += [
            nn.Conv2d(hidden, hidden, kernel_size=3, stride=stride, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x) if self.shortcut else self.layers(x)


class Model(nn.Module):
    """MobileNetV2; its stem has `width` channels and the others are in proportion."""

    def __init__(self, in_channels, width, num_classes):
        super().__init__()
        layers = [
            nn.Conv2d(in_channels, width, kernel_size=3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU6(inplace=True),
        ]
        channels = width
        settings = (
            (1, 16, 1, 1),
            (6, 24, 2, 2),
            (6, 32, 3, 2),
            (6, 64, 4, 2),
            (6, 96, 3, 1),
            (6, 160, 3, 2),
            (6, 320, 1, 1),
        )
        for expansion, out, count, stride in settings:
            for number in range(count):
                layers.append(InvertedResidual(channels, out * width // 32, stride if number == 0 else 1, expansion))
                channels = out * width // 32
        last = 40 * width
        layers += [
            nn.Conv2d(channels, last, kernel_size=1, bias=False),
            nn.BatchNorm2d(last),
            nn.ReLU6(inplace=True),
            nn.AdaptiveAvgPool2d((1, 1)),
        ]
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(last, num_classes))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, width, num_classes]
