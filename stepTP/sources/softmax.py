"""Softmax and log-softmax, with temperature, bias or mask before them."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_BEFORE = {
    "plain": "x",
    "temperature": "x / self.temperature",
    "bias": "x + self.bias",
    "mask": "torch.where(self.mask, -1e4, x)",
    "scaled_bias": "x * 0.5 + self.bias",
}


def write(draw: Draw) -> str:
    """Two or three dimensions; the last axis is normalised."""
    rank = draw.choose("rank", (2, 3, 3))
    sizes = [draw.choose(f"size{n}", (4, 8, 12, 16, 24)) for n in range(rank - 1)]
    classes = draw.choose("classes", (8, 16, 20, 32, 48, 64))
    function = draw.choose("function", ("softmax", "log_softmax"))
    before = draw.choose("before", tuple(_BEFORE))
    state = {
        "temperature": "self.temperature = 2.0",
        "bias": "self.bias = nn.Parameter(torch.randn(classes))",
        "scaled_bias": "self.bias = nn.Parameter(torch.randn(classes))",
        "mask": 'self.register_buffer("mask", torch.arange(classes) % 4 == 3)',
        "plain": "self.classes = classes",
    }[before]
    shape = ", ".join([*map(str, sizes), "classes"])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

classes = {classes}


class Model(nn.Module):
    """Normalises scores over the last axis."""

    def __init__(self, classes):
        super().__init__()
        {state}

    def forward(self, x):
        x = {_BEFORE[before]}
        return F.{function}(x, dim=-1)


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return [classes]
'''


FAMILY = Family("softmax", "softmax and log-softmax over scores", write)
