"""Log-sum-exp chains: energies, soft maxima, mixtures of densities.

scores = x * 0.5 + weight
top = scores.amax(dim=-1, keepdim=True)
return torch.log(torch.exp(scores - top).sum(dim=-1, keepdim=True)) + top
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SCORES = {
    "sum": "x + weight",
    "cost": "-x * weight",
    "density": "F.log_softmax(weight, dim=-1) - 0.5 * x * x",
    "scaled": "x * 0.5 + weight",
    "distance": "-(x - weight).pow(2)",
    "log_weight": "x + torch.log(torch.abs(weight) + 0.1)",
    "bounded": "4.0 * torch.tanh(x) + weight",
}
_TOP = "top = scores.amax(dim=-1, keepdim=True)"
_SUMS = {
    "written": [_TOP, "total = torch.log(torch.exp(scores - top).sum(dim=-1, keepdim=True)) + top"],
    "library": ["total = torch.logsumexp(scores, dim=-1, keepdim=True)"],
    "detour": [
        _TOP,
        "total = torch.log(torch.sum(torch.exp(scores - top), dim=-1, keepdim=True))",
        "total = total + top",
    ],
    "mean": [_TOP, "total = torch.log(torch.exp(scores - top).mean(dim=-1, keepdim=True)) + top"],
    "cooled": ["total = 2.0 * torch.logsumexp(scores / 2.0, dim=-1, keepdim=True)"],
}
_ENDS = {
    "total": "total",
    "minus": "-total",
    "log_share": "scores - total",
    "share": "torch.exp(scores - total)",
    "weighed": "torch.exp(scores - total) * x",
    "expected": "(torch.exp(scores - total) * x).sum(dim=-1)",
    "entropy": "-(torch.exp(scores - total) * (scores - total)).sum(dim=-1)",
    "gap": "total - scores.mean(dim=-1, keepdim=True)",
    "peak": "scores.amax(dim=-1, keepdim=True) - total",
    "outer": "torch.logsumexp(total, dim=1)",
}


def write(draw: Draw) -> str:
    """What the scores are, how the sum is written, and what is made of it."""
    constants = {"batch_size": draw.choose("batch", (4, 8, 12, 16)), "rows": draw.choose("rows", (2, 4, 6, 8))}
    constants["components"] = draw.choose("components", (6, 8, 12, 16, 24, 32))
    scores = f"scores = {_SCORES[draw.choose('scores', tuple(_SCORES))]}"
    sums = _SUMS[draw.choose("sum", tuple(_SUMS))]
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    return program_text(
        constants,
        "Sums of exponentials, shifted by their maximum.",
        forward=[scores, *sums, f"return {_ENDS[draw.choose('end', tuple(_ENDS))]}"],
        inputs=["torch.randn(batch_size, rows, components, dtype=dtype)", "torch.randn(rows, components, dtype=dtype)"],
        arguments="x, weight",
        dtype=dtype,
    )


FAMILY = Family("log_sum_exp", "shifted sums of exponentials", write)
