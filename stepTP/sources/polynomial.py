"""Polynomials and rational functions of tensors, written as people write them."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "quadratic": ["y = a * x * x + b * x + x", "return y * 0.5"],
    "interaction": ["left = a * x + a * b", "right = b * x + b * a", "return left - right + x * b"],
    "pade": ["numerator = x * (27.0 + x * x)", "return numerator / (27.0 + 9.0 * x * x) + a * b"],
    "blend": ["weight = torch.sigmoid(a)", "return weight * x + (1.0 - weight) * b"],
    "moments": [
        "centred = x - x.mean(dim=-1, keepdim=True)",
        "return (centred.pow(3) * a + centred.pow(2) * b).mean(dim=-1)",
    ],
    "energy": ["kinetic = 0.5 * a * x * x", "potential = 0.5 * b * x * x", "return (kinetic + potential).sum(dim=-1)"],
    "power": ["magnitude = torch.abs(x) + 1.0", "return magnitude**1.5 * a + torch.sqrt(magnitude) * b"],
}


def write(draw: Draw) -> str:
    """A few lines of arithmetic over a matrix, a row vector and a column."""
    rows = draw.choose("rows", (4, 8, 12, 16, 24, 32))
    columns = draw.choose("columns", (8, 16, 20, 32, 48, 64))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    body = "\n        ".join(_FORWARD[draw.choose("form", tuple(_FORWARD))])
    return f'''import torch
import torch.nn as nn

rows = {rows}
columns = {columns}
dtype = {"torch.float32" if dtype == "f32" else "torch.float64"}


class Model(nn.Module):
    """Arithmetic on a matrix with one coefficient a row and one a column."""

    def forward(self, x, a, b):
        {body}


def get_inputs():
    return [
        torch.randn(rows, columns, dtype=dtype),
        torch.randn(rows, 1, dtype=dtype),
        torch.randn(columns, dtype=dtype),
    ]


def get_init_inputs():
    return []
'''


FAMILY = Family("polynomial", "polynomials and rational functions", write)
