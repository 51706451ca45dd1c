import torch
import torch.nn as nn

batch_size = 10
in_channels = 112
out_channels = 192
kernel_size = 5
stride = 2
expand_ratio = 6
image_size = 224


class Model(nn.Module):
    """A pointwise convolution to more channels, a depthwise one, and a pointwise one back, around a shortcut."""

    def __init__(self, in_channels, out_channels, kernel_size, stride, expand_ratio):
        super().__init__()
        self.shortcut = stride == 1 and in_channels == out_channels
        hidden = in_channels * expand_ratio
        padding = (kernel_size - 1) // 2
        self.expand = nn.Sequential(
            nn.Conv2d(in_channels, hidden, kernel_size=1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
        )
        self.depthwise = nn.Sequential(
            nn.Conv2d(hidden, hidden, kernel_size, stride=stride, padding=padding, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
        )
        self.project = nn.Sequential(
            nn.Conv2d(hidden, out_channels, kernel_size=1, bias=False),
            nn.BatchNorm2d(out_channels),
        )

    def forward(self, x):
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.shortcut else y


def get_inputs():
    return [torch.rand(batch_size, in_channels, image_size, image_size)]


def get_init_inputs():
    return [in_channels, out_channels, kernel_size, stride, expand_ratio]
