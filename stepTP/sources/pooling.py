"""Pooling pyramids and sharpening by pooled neighbourhoods."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "contrast": ["return x - self.average(x)"],
    "edges": ["return self.maximum(x) + self.maximum(-x)"],
    "blend": ["return torch.sigmoid(self.maximum(x)) * self.average(x)"],
    "two_scales": [
        "fine = self.average(x)",
        "return F.avg_pool2d(fine, kernel_size=2) + F.max_pool2d(x, kernel_size=2)",
    ],
    "normalised": ["deviation = x - self.average(x)", "return deviation / (self.average(deviation * deviation) + 0.1)"],
}


def write(draw: Draw) -> str:
    """Average and maximum pooling of one size, stride 1, combined element by element."""
    batch = draw.choose("batch", (1, 2, 4))
    channels = draw.choose("channels", (2, 4, 8))
    height = draw.choose("height", (8, 12, 16, 20))
    width = draw.choose("width", (8, 10, 16))
    window = draw.choose("window", (3, 3, 5))
    counted = draw.choose("count_include_pad", (True, False))
    body = "\n        ".join(_FORWARD[draw.choose("forward", tuple(_FORWARD))])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

batch_size = {batch}
channels = {channels}
height = {height}
width = {width}
window = {window}


class Model(nn.Module):
    """Combines an image with its pooled neighbourhoods."""

    def __init__(self, window):
        super().__init__()
        self.average = nn.AvgPool2d(window, stride=1, padding=window // 2, count_include_pad={counted})
        self.maximum = nn.MaxPool2d(window, stride=1, padding=window // 2)

    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(batch_size, channels, height, width)]


def get_init_inputs():
    return [window]
'''


FAMILY = Family("pooling", "average and maximum pooling of neighbourhoods", write)
