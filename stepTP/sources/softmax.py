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
        "plain": "",
        "temperature": "self.temperature = 2.0",
        "bias": "self.bias = nn.Parameter(torch.randn(classes))",
        "scaled_bias": "self.bias = nn.Parameter(torch.randn(classes))",
        "mask": 'self.register_buffer("mask", torch.arange(classes) % 4 == 3)',
    }[before]
    setup = f"""
    def __init__(self, classes):
        super().__init__()
        {state}
"""
    shape = ", ".join([*map(str, sizes), "classes"])
    return f'''import torch
import torch.nn as nn
import torch.nn.functional as F

classes = {classes}


class Model(nn.Module):
    """Normalises scores over the last axis."""
{setup if state else ""}
    def forward(self, x):
        return F.{function}({_BEFORE[before]}, dim=-1)


def get_inputs():
    return [torch.randn({shape})]


def get_init_inputs():
    return [{"classes" if state else ""}]
'''


FAMILY = Family("softmax", "softmax and log-softmax over scores", write)
