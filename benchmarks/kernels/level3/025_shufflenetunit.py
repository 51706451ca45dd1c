import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = 10
in_channels = 240
out_channels = 480
groups = 3
image_size = 224


class ChannelShuffle(nn.Module):
    """Channels of all groups in turn."""

    def __init__(self, groups):
        super().__init__()
        self.groups = groups

    def forward(self, x):
        batch, channels, height, width = x.size()
        x = x.view(batch, self.groups, channels // self.groups, height, width)
        return x.transpose(1, 2).contiguous().view(batch, channels, height, width)


class Model(nn.Module):
    """Grouped pointwise convolutions around a shuffle of the channels and a depthwise convolution."""

    def __init__(self, in_channels, out_channels, groups):
        super().__init__()
        middle = out_channels // 4
        self.conv1 = nn.Conv2d(in_channels, middle, kernel_size=1, groups=groups, bias=False)
        self.bn1 = nn.BatchNorm2d(middle)
        self.conv2 = nn.Conv2d(middle, middle, kernel_size=3, padding=1, groups=middle, bias=False)
        self.bn2 = nn.BatchNorm2d(middle)
        self.conv3 = nn.Conv2d(middle, out_channels, kernel_size=1, groups=groups, bias=False)
        self.bn3 = nn.BatchNorm2d(out_channels)
        self.shuffle = ChannelShuffle(groups)
        self.shortcut = nn.Sequential()
        if in_channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_channels, out_channels, kernel_size=1, bias=False),
                nn.BatchNorm2d(out_channels),
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(self.shuffle(y)))
        y = F.relu(self.bn3(self.conv3(y)))
        return y + self.shortcut(x)


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, out_channels, groups]
