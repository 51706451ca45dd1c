"""Row statistics and the rescalings built on them.

low = x.amin(dim=1, keepdim=True)
high = x.amax(dim=1, keepdim=True)
return (x - low) / (high - low + 1e-3)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_MEAN = "mean = x.mean(dim=AXIS, keepdim=True)"
_FORMS = {
    "standardise": [_MEAN, "variance = (x - mean).pow(2).mean(dim=AXIS, keepdim=True)",
                    "y = (x - mean) / torch.sqrt(variance + 1e-5)"],
    "two_sums": [_MEAN, "variance = (x * x).mean(dim=AXIS, keepdim=True) - mean * mean",
                 "y = (x - mean) / torch.sqrt(torch.clamp(variance, min=0.0) + 0.1)"],
    "min_max": ["low = x.amin(dim=AXIS, keepdim=True)", "high = x.amax(dim=AXIS, keepdim=True)",
                "y = (x - low) / (high - low + 1e-3)"],
    "mean_max": ["y = torch.cat([x.mean(dim=AXIS), x.amax(dim=AXIS)], dim=0)"],
    "energy": ["y = torch.log((x * x).sum(dim=AXIS) + 1.0)"],
    "deviation": [_MEAN, "y = torch.abs(x - mean).mean(dim=AXIS)"],
    "spread": ["y = (x.amax(dim=AXIS) - x.amin(dim=AXIS)) * 0.5 + x.mean(dim=AXIS)"],
    "third_moment": [_MEAN, "spread = torch.sqrt((x - mean).pow(2).mean(dim=AXIS, keepdim=True) + 1e-2)",
                     "y = ((x - mean) / spread).pow(3).mean(dim=AXIS)"],
    "library_std": ["y = (x - x.mean(dim=AXIS, keepdim=True)) / (x.std(dim=AXIS, keepdim=True) + 1e-2)"],
    "soft_rank": [_MEAN, "y = torch.sigmoid((x - mean) * 2.0)"],
    "weighted": ["weight = torch.softmax(x, dim=1)", "y = (weight * x).sum(dim=AXIS)"],
    "clipped": [_MEAN, "y = torch.minimum(x, mean + 1.0)"],
    "harmonic": ["y = 1.0 / (1.0 / (torch.abs(x) + 0.5)).mean(dim=AXIS)"],
    "geometric": ["y = torch.exp(torch.log(torch.abs(x) + 0.5).mean(dim=AXIS))"],
}  # fmt: skip
_ENDS = ("y", "y", "y * 0.5 + 1.0", "active", "y.mean(dim=0)", "y * y", "y, y * y", "y, x")


def write(draw: Draw) -> str:
    """Reductions over one or two axes, then a rescaling or a summary, and an end."""
    constants = {"batch_size": draw.choose("batch", (4, 8, 12)), "rows": draw.choose("rows", (4, 6, 8, 12))}
    constants["columns"] = draw.choose("columns", (8, 16, 20, 32))
    axis = draw.choose("axis", ("1", "2", "-1", "(1, 2)", "(0, 2)"))
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    form = [line.replace("AXIS", axis) for line in _FORMS[draw.choose("form", tuple(_FORMS))]]
    end = draw.choose("end", [end for end in _ENDS if "," not in axis or "dim=0" not in end])
    return program_text(
        constants,
        f"Statistics over {'axes' if ',' in axis else 'axis'} {axis.strip('()')} of a batch of matrices.",
        forward=[*form, f"return {activation(draw, 'y') if end == 'active' else end}"],
        inputs=["torch.randn(batch_size, rows, columns, dtype=dtype)"],
        dtype=dtype,
    )


FAMILY = Family("statistics", "means, variances, extrema and rescaling by them", write)
