"""Levels and ratios of signal powers in decibels, with the power kept above a floor.

p = x * x + 1e-3
q = y * y + 1e-3
return 10.0 * torch.log10(p / q)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_POWERS = ("{0} * {0} + {1}", "{0}**2 + {1}", "torch.clamp(torch.abs({0}), min={1})", "({0} * {0} + {1}) / 0.25")
_FLOORS = ("1e-3", "1e-2", "0.1")
_LEVELS = (
    "10.0 * torch.log10(p / q)",
    "torch.log(p / q)",
    "torch.log(p) - torch.log(q)",
    "0.5 * torch.log(p) + 0.5 * torch.log(q)",
    "torch.log(torch.sqrt(p)) - torch.log(torch.sqrt(q))",
    "torch.log(torch.sqrt(p * q))",
    "torch.log2(1.0 + p / q)",
    "4.3429 * torch.log(p)",
    "2.0 * torch.log(p) + torch.log(q)",
    "torch.log(p * q)",
    "torch.sqrt(p) * torch.sqrt(q)",
    "torch.log(p) + w * torch.log(q)",
    "torch.log(p * p)",
    "torch.sqrt(p) / torch.sqrt(q)",
    "torch.log((1.0 + p) * (1.0 + q))",
    "torch.log(1.0 / p)",
)
_ENDS = ("level", "level.mean(dim=-1)", "level.sum(dim=-1)", "torch.relu(level)", "level * w", "torch.tanh(level)")


def write(draw: Draw) -> str:
    """Powers above a floor, one or two levels of them, and an end."""
    power, floor, level = draw.choose("power", _POWERS), draw.choose("floor", _FLOORS), draw.choose("level", _LEVELS)
    lines = [f"level = {level}"]
    if draw.choose("two", (False, False, True)):
        other = draw.choose("other", [each for each in _LEVELS if each != level])
        lines += [f"other = {other}", "level = level + 0.1 * other"]
    forward = [f"p = {power.format('x', floor)}"]
    if any("q)" in line or "q" in line.replace("sqrt", "") for line in lines):
        forward.append(f"q = {power.format('y', floor)}")
    forward += [*lines, f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": "rows, columns", "w": "columns"}
    return elementwise(draw, "Levels of signals.", forward, shapes)


FAMILY = Family("signal_levels", "levels and ratios of signal powers", write)
