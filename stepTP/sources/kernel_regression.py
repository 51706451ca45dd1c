"""Pairwise distances, radial kernels and regressions weighted by them."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "distance": ["return torch.sqrt(squared + 1e-6)"],
    "radial": ["return torch.exp(-0.5 * squared)"],
    "rational": ["return 1.0 / (1.0 + squared)"],
    "regression": ["weights = torch.softmax(-squared, dim=-1)", "return torch.matmul(weights, values)"],
    "nearest": ["return squared.amin(dim=-1)"],
}


def write(draw: Draw) -> str:
    """All pairs of points by broadcasting, or by the expanded product."""
    queries = draw.choose("queries", (4, 8, 12, 16, 24))
    points = draw.choose("points", (6, 8, 10, 16, 32))
    dimensions = draw.choose("dimensions", (4, 6, 8, 16))
    expanded = draw.choose("expanded", (False, True))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    form = draw.choose("form", tuple(_FORWARD))
    body = "\n        ".join(_FORWARD[form])
    arguments, values = "x, points", ""
    if form == "regression":
        arguments, values = "x, points, values", "\n        torch.randn(points, dimensions, dtype=dtype),"
    squared = (
        ["lengths = (x * x).sum(dim=1, keepdim=True) + (points * points).sum(dim=1)",
         "squared = torch.clamp(lengths - 2.0 * torch.matmul(x, points.t()), min=0.0)"]
        if expanded
        else ["difference = x.unsqueeze(1) - points.unsqueeze(0)", "squared = difference.pow(2).sum(dim=-1)"]
    )  # fmt: skip
    return f'''import torch
import torch.nn as nn

queries = {queries}
points = {points}
dimensions = {dimensions}
dtype = {"torch.float32" if dtype == "f32" else "torch.float64"}


class Model(nn.Module):
    """Compares every query with every point."""

    def forward(self, {arguments}):
        {squared[0]}
        {squared[1]}
        {body}


def get_inputs():
    return [
        torch.randn(queries, dimensions, dtype=dtype),
        torch.randn(points, dimensions, dtype=dtype),{values}
    ]


def get_init_inputs():
    return []
'''


FAMILY = Family("kernel_regression", "pairwise distances and kernels", write)
