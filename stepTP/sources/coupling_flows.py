"""Affine couplings of a normalising flow: scales as exponentials, and their log-determinants.

s = torch.tanh(s)
y = x * torch.exp(s) * torch.exp(r)
return y + torch.log(torch.exp(s) * torch.exp(r))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_LIMITS = (
    "torch.tanh({})",
    "torch.clamp({}, min=-2.0, max=2.0)",
    "0.5 * torch.tanh({})",
    "2.0 * torch.sigmoid({}) - 1.0",
)
_COUPLINGS = (
    "x * torch.exp(s) + m",
    "(x - m) * torch.exp(-s)",
    "(x - m) / torch.exp(s)",
    "x * torch.exp(s) * torch.exp(r)",
    "x * torch.exp(s + r)",
    "x * torch.exp(s - r) + m",
    "(x * torch.exp(s) + m) * torch.exp(r)",
    "x * torch.exp(r) / torch.exp(s)",
)
_DETERMINANTS = (
    "torch.log(torch.exp(s))",
    "torch.log(torch.exp(s) * torch.exp(r))",
    "torch.log(torch.exp(s)) + torch.log(torch.exp(r))",
    "torch.log(torch.exp(s) + 1.0) + torch.log(torch.exp(r) + 1.0)",
    "torch.log((torch.exp(s) + 1.0) * (torch.exp(r) + 1.0))",
    "torch.log(F.softplus(s) / F.softplus(r))",
    "torch.log(F.softplus(s)) - torch.log(F.softplus(r))",
    "2.0 * torch.log(F.softplus(r) + 0.5)",
    "s + r",
)
_ENDS = ("y + log_det", "y - log_det", "(y + log_det).sum(dim=-1)", "0.5 * y * y - log_det", "y * log_det")


def write(draw: Draw) -> str:
    """Bounded log-scales, a coupling or its inverse, the logarithm of its determinant, and a likelihood of both."""
    limit = draw.choose("limit", _LIMITS)
    coupling, determinant = draw.choose("coupling", _COUPLINGS), draw.choose("determinant", _DETERMINANTS)
    used = [name for name in ("s", "r") if any(f"({name}" in p or f" {name}" in p or f"-{name}" in p or p[0] == name
                                               for p in (coupling, determinant))]  # fmt: skip
    forward = [*(f"{name} = {limit.format(name)}" for name in used), f"y = {coupling}", f"log_det = {determinant}"]
    forward.append(f"return {draw.choose('end', _ENDS)}")
    shapes = {"x": "rows, columns", "s": "rows, columns", "r": "columns", "m": "columns"}
    return elementwise(draw, "An affine coupling with its log-determinant.", forward, shapes)


FAMILY = Family("coupling_flows", "affine couplings and their log-determinants", write)
