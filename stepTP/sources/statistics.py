"""Row statistics and the rescalings built on them."""

from stepTP.sources import Family
from stepTP.sources.draw import Draw

_FORWARD = {
    "standardise": ["mean = x.mean(dim=AXIS, keepdim=True)",
                    "variance = (x - mean).pow(2).mean(dim=AXIS, keepdim=True)",
                    "return (x - mean) / torch.sqrt(variance + 1e-5)"],
    "min_max": ["low = x.amin(dim=AXIS, keepdim=True)", "high = x.amax(dim=AXIS, keepdim=True)",
                "return (x - low) / (high - low + 1e-3)"],
    "mean_max": ["return torch.cat([x.mean(dim=AXIS), x.amax(dim=AXIS)], dim=0)"],
    "energy": ["energy = (x * x).sum(dim=AXIS)", "return torch.log(energy + 1.0)"],
    "centre_absolute": ["centred = x - x.mean(dim=AXIS, keepdim=True)", "return centred.abs().sum(dim=AXIS)"],
    "spread": ["spread = x.amax(dim=AXIS) - x.amin(dim=AXIS)", "return spread * 0.5 + x.mean(dim=AXIS)"],
}  # fmt: skip


def write(draw: Draw) -> str:
    """Reductions over one or two axes, then a rescaling or a summary."""
    batch = draw.choose("batch", (4, 8, 12, 16))
    rows = draw.choose("rows", (4, 6, 8, 12))
    columns = draw.choose("columns", (8, 16, 20, 32, 48))
    axis = draw.choose("axis", ("1", "2", "-1", "(1, 2)"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    body = "\n        ".join(_FORWARD[draw.choose("forward", tuple(_FORWARD))]).replace("AXIS", "self.axis")
    return f'''import torch
import torch.nn as nn

batch_size = {batch}
rows = {rows}
columns = {columns}
axis = {axis}


class Model(nn.Module):
    """Statistics over an axis of a batch of matrices."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        {body}


def get_inputs():
    return [torch.randn(batch_size, rows, columns, dtype={"torch.float32" if dtype == "f32" else "torch.float64"})]


def get_init_inputs():
    return [axis]
'''


FAMILY = Family("statistics", "means, variances, extrema and rescaling by them", write)
