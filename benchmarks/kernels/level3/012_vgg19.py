import torch
import torch.nn as nn

batch_size = 10
in_channels = 3
image_size = 224
width = 64
hidden_size = 4096
num_classes = 1000


class Model(nn.Module):
    """VGG with nineteen layers."""

    def __init__(self, in_channels, image_size, width, hidden_size, num_classes, dropout=0.0):
        super().__init__()
        layers = []
        channels = in_channels
        for factor, count in zip((1, 2, 4, 8, 8), (2, 2, 4, 4, 4), strict=True):
            for _ in range(count):
                layers += [nn.Conv2d(channels, width * factor, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
                channels = width * factor
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * (image_size // 32) ** 2, hidden_size),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, hidden_size),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(hidden_size, num_classes),
        )

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, image_size, width, hidden_size, num_classes]
