import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
image_size = 224
growth_rate = 32
num_classes = 10


class DenseBlock(nn.Module):
    """Layers that each see the results of all before them."""

    def __init__(self, num_layers, in_channels, growth_rate):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(in_channels + number * growth_rate),
                nn.ReLU(inplace=True),
                nn.Conv2d(in_channels + number * growth_rate, growth_rate, kernel_size=3, padding=1, bias=False),
                nn.Dropout(0.0),
            )
            for number in range(num_layers)
        )

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(x))
            x = torch.cat(features, dim=1)
        return x


class Transition(nn.Module):
    """Half of the channels and half of the pixels."""

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


class Model(nn.Module):
    """DenseNet-201."""

    def __init__(self, growth_rate, num_classes):
        super().__init__()
        channels = 2 * growth_rate
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, kernel_size=7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2, padding=1),
        )
        counts = (6, 12, 48, 32)
        stages = []
        for number, count in enumerate(counts):
            stages.append(DenseBlock(count, channels, growth_rate))
            channels += count * growth_rate
            if number < len(counts) - 1:
                stages.append(Transition(channels, channels // 2))
                channels //= 2
        self.stages = nn.Sequential(*stages)
        self.norm = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, num_classes)

    def forward(self, x):
        x = F.relu(self.norm(self.stages(self.stem(x))))
        x = F.adaptive_avg_pool2d(x, (1, 1)).flatten(1)
        return self.classifier(x)


def get_inputs():
    return [torch.rand(batch_size, 3, image_size, image_size)]


def get_init_inputs():
    return [growth_rate, num_classes]
