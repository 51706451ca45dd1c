import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
in_channels = 3
image_size = 224
base = 16
num_classes = 1000


class Inception(nn.Module):
    """Four branches over one image, side by side in the channels."""

    def __init__(self, in_channels, direct, reduced3, out3, reduced5, out5, pooled):
        super().__init__()
        self.direct = nn.Conv2d(in_channels, direct, kernel_size=1)
        self.branch3 = nn.Sequential(
            nn.Conv2d(in_channels, reduced3, kernel_size=1),
            nn.Conv2d(reduced3, out3, kernel_size=3, padding=1),
        )
        self.branch5 = nn.Sequential(
            nn.Conv2d(in_channels, reduced5, kernel_size=1),
            nn.Conv2d(reduced5, out5, kernel_size=5, padding=2),
        )
        self.branch_pool = nn.Sequential(
            nn.MaxPool2d(kernel_size=3, stride=1, padding=1),
            nn.Conv2d(in_channels, pooled, kernel_size=1),
        )

    def forward(self, x):
        return torch.cat([self.direct(x), self.branch3(x), self.branch5(x), self.branch_pool(x)], dim=1)


class Model(nn.Module):
    """GoogLeNet without its auxiliary classifiers; the widths of its branches are multiples of `base` / 16."""

    def __init__(self, in_channels, base, num_classes):
        super().__init__()

        def scaled(*widths):
            return [width * base // 16 for width in widths]

        stem, wide = scaled(64, 192)
        self.conv1 = nn.Conv2d(in_channels, stem, kernel_size=7, stride=2, padding=3)
        self.conv2 = nn.Conv2d(stem, stem, kernel_size=1)
        self.conv3 = nn.Conv2d(stem, wide, kernel_size=3, padding=1)
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        settings = (
            (64, 96, 128, 16, 32, 32),
            (128, 128, 192, 32, 96, 64),
            (192, 96, 208, 16, 48, 64),
            (160, 112, 224, 32, 64, 64),
            (128, 128, 256, 32, 64, 64),
            (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128),
            (256, 160, 320, 32, 128, 128),
            (384, 192, 384, 48, 128, 128),
        )
        blocks = []
        for setting in settings:
            widths = scaled(*setting)
            blocks.append(Inception(wide, *widths))
            wide = widths[0] + widths[2] + widths[4] + widths[5]
        self.inception3 = nn.Sequential(*blocks[:2])
        self.inception4 = nn.Sequential(*blocks[2:7])
        self.inception5 = nn.Sequential(*blocks[7:])
        self.average = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(0.0)
        self.fc = nn.Linear(wide, num_classes)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = F.relu(self.conv2(x))
        x = self.pool(F.relu(self.conv3(x)))
        x = self.pool(self.inception3(x))
        x = self.pool(self.inception4(x))
        x = self.average(self.inception5(x))
        return self.fc(self.dropout(torch.flatten(x, 1)))


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, base, num_classes]
