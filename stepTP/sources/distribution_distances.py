"""Distances of two distributions whose probabilities are kept away from zero.

p = torch.sigmoid(x).clamp(min=1e-3)
q = torch.sigmoid(y).clamp(min=1e-3)
return (p * (torch.log(p) - torch.log(q))).sum(dim=-1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_CLIPS = ("1e-3", "1e-2", "1e-4")
_LIKELY = (
    "torch.clamp(torch.sigmoid({0}), {1}, 1.0)",
    "torch.sigmoid({0}).clamp(min={1})",
    "torch.sigmoid(torch.clamp({0}, -6.0, 6.0)) + {1}",
    "torch.sigmoid(torch.clamp({0}, -6.0, 6.0)) / (1.0 + {1})",
)
_DISTANCES = (
    "p * (torch.log(p) - torch.log(q))",
    "p * torch.log(p / q)",
    "torch.sqrt(p) * torch.sqrt(q)",
    "torch.sqrt(p * q)",
    "(torch.sqrt(p) - torch.sqrt(q)) ** 2",
    "(p - q) ** 2 / q",
    "(p - q) ** 2 / (p + q)",
    "(p - q) * (torch.log(p) - torch.log(q))",
    "torch.log(p) - torch.log(q)",
    "torch.log(p / q)",
    "torch.log(torch.sqrt(p * q))",
    "torch.abs(torch.log(p) - torch.log(q))",
    "0.5 * p * torch.log(2.0 * p / (p + q)) + 0.5 * q * torch.log(2.0 * q / (p + q))",
    "q * torch.log(q) - q * torch.log(p)",
    "p * q / (p + q)",
    "torch.sqrt(p / q)",
    "(p + q) / q",
    "-torch.log(p * q)",
    "-torch.log(p) - torch.log(q)",
    "-p * torch.log(p * q)",
)
_ENDS = ("d", "d.sum(dim=-1)", "d.sum(dim=-1)", "d.mean(dim=-1)", "w * d", "1.0 + d", "d * d")


def write(draw: Draw) -> str:
    """Two clipped distributions, one or two of their distances, and a sum over the classes or none."""
    clip, likely = draw.choose("clip", _CLIPS), draw.choose("likely", _LIKELY)
    distance = draw.choose("distance", _DISTANCES)
    forward = [f"p = {likely.format('x', clip)}", f"q = {likely.format('y', clip)}", f"d = {distance}"]
    if draw.choose("second", (False, False, True)):
        other = draw.choose("other", [each for each in _DISTANCES if each != distance])
        forward += [f"other = {other}", "d = d + 0.1 * other"]
    forward.append(f"return {draw.choose('end', _ENDS)}")
    shapes = {"x": "rows, columns", "y": "rows, columns", "w": "columns"}
    return elementwise(draw, "Distances of distributions.", forward, shapes)


FAMILY = Family("distribution_distances", "divergences and distances of clipped distributions", write)
