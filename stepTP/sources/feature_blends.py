"""Blends and modulations of features: interpolation, scale and shift, gates that share an operand.

g = torch.sigmoid(g)
return g * x + (1.0 - g) * y + w * x
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_BLENDS = (
    "g * x + (1.0 - g) * y",
    "g * x + w * x",
    "w * x + x * g + y",
    "x + w * x",
    "x + g * (y - x)",
    "(1.0 + w) * x + g",
    "w * x + w * y",
    "g * x + g * y + w",
    "x * y + g * x + w * x",
    "w * x * y + g * x",
    "0.5 * x + 0.25 * x * g + w",
    "w * x * x + g * x + y",
    "g * x - w * x + y * x",
    "(w + g) * x - w * y",
)
_GATES = ("torch.sigmoid(g)", "torch.tanh(g)", "0.5 * (1.0 + torch.tanh(g))", "torch.clamp(g, min=0.0, max=1.0)")
_BOUNDS = ("x", "torch.sigmoid(x)", "torch.tanh(x)", "F.silu(x)", "F.softplus(x)")
_ENDS = ("z", "z", "z + x", "z * w", "F.relu(z)", "z.sum(dim=-1)", "z * z", "z * x + z * w")


def write(draw: Draw) -> str:
    """Features and a gate, one or two blends of them, and an end."""
    blend, bound = draw.choose("blend", _BLENDS), draw.choose("features", _BOUNDS)
    forward = [f"x = {bound}"] if bound != "x" else []
    lines = [f"z = {blend}"]
    if draw.choose("two", (False, True)):
        other = draw.choose("other", [each for each in _BLENDS if each != blend])
        lines += [f"other = {other}", "z = z + 0.1 * other"]
    if any("g" in line.split(" = ")[-1] for line in lines):
        forward.append(f"g = {draw.choose('gate', _GATES)}")
    forward += [*lines, f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": "rows, columns", "g": "rows, columns", "w": "columns"}
    return elementwise(draw, "A blend of features.", forward, shapes)


FAMILY = Family("feature_blends", "interpolation, scale and shift, and gates that share an operand", write)
