import torch
import torch.nn as nn

batch_size = 10
in_channels = 480
height = 224
width = 224
direct = 192
reduced3 = 96
out3 = 208
reduced5 = 16
out5 = 48
pooled = 64


class Model(nn.Module):
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


def get_inputs():
    return [torch.rand(batch_size, in_channels, height, width)]


def get_init_inputs():
    return [in_channels, direct, reduced3, out3, reduced5, out5, pooled]
