"""Rational functions: Pade approximations, saturation curves, resonances.

s = x * x
return x * (27.0 + s) / (27.0 + 9.0 * s)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_CURVES = (
    "x * (27.0 + s) / (27.0 + 9.0 * s)",
    "(27.0 * x + x * s) / (27.0 + 9.0 * s)",
    "x * (15.0 + s) / (15.0 + 6.0 * s)",
    "(a + b) / (1.0 + s)",
    "(a * x + b) / (1.0 + s)",
    "a / (1.0 + s) + b / (1.0 + s)",
    "a / (1.0 + s) + b * x / (1.0 + s)",
    "a * s / (4.0 + s) + b * s / (4.0 + s)",
    "(a + b * s) / (1.0 + 0.5 * s)",
    "(1.0 + a + s) / (1.0 + s)",
    "a * s / (b * b + 1.0 + s)",
    "(s + a * b) / (2.0 + s)",
    "a / (1.0 + (x - b) ** 2)",
    "(a - b) / (1.0 + torch.abs(x))",
    "x * (a + b) / (1.0 + torch.abs(x))",
    "(a * x + b * x) / (1.0 + s)",
)
_LIMITS = ("torch.clamp({}, min=-4.0, max=4.0)", "torch.tanh({})", "2.0 * torch.tanh(0.5 * {})", "torch.sin({})")
_ENDS = ("y", "y", "y + x", "y * x", "y.sum(dim=-1)", "0.5 * x * (1.0 + y)", "y * y")


def write(draw: Draw) -> str:
    """A curve over the square of a limited argument, another added or not, and an end."""
    curve = draw.choose("curve", _CURVES)
    forward = [f"x = {draw.choose('limit', _LIMITS).format('x')}", f"y = {curve}"]
    if draw.choose("two", (False, False, True)):
        other = draw.choose("other", [each for each in _CURVES if each != curve])
        forward += [f"other = {other}", f"y = y {draw.choose('sign', ('+', '-'))} 0.1 * other"]
    if any("s" in line.replace("torch.abs", "").replace("sin", "").split(" = ")[-1] for line in forward[1:]):
        forward.insert(1, "s = x * x")
    forward.append(f"return {draw.choose('end', _ENDS)}")
    return elementwise(draw, "A rational curve.", forward, {"x": "rows, columns", "a": "columns", "b": "columns"})


FAMILY = Family("rational_activations", "Pade approximations, saturation curves and resonances", write)
