"""Log-densities of values between zero and one: beta, Kumaraswamy, logit-normal.

p = torch.clamp(torch.sigmoid(x), 1e-3, 1.0 - 1e-3)
a = 0.5 + 0.5 * torch.sigmoid(u)
return torch.log(a) + (a - 1.0) * torch.log(p)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise, reads

_CLIPS = ("1e-3", "1e-2", "0.05")
_VALUES = (
    "torch.clamp(torch.sigmoid({0}), {1}, 1.0 - {1})",
    "torch.clamp(0.5 + 0.5 * torch.tanh({0}), {1}, 1.0 - {1})",
    "torch.sigmoid(torch.clamp({0}, -5.0, 1.5))",
    "torch.clamp(torch.exp(-torch.abs({0})), {1}, 0.8)",
)
_SHAPES = ("0.5 + 0.5 * torch.sigmoid({})", "torch.clamp(torch.abs({}), 0.1, 0.9)", "0.7 * torch.sigmoid({}) + 0.05")
_DENSITIES = (
    "(a - 1.0) * torch.log(p) + (b - 1.0) * torch.log(1.0 - p)",
    "torch.log(a) + (a - 1.0) * torch.log(p)",
    "torch.log(a * p)",
    "torch.log(a) + torch.log(b) + (a - 1.0) * torch.log(p)",
    "torch.log(a * b) - torch.log(p)",
    "torch.log(p * (1.0 - p))",
    "-torch.log(p) - torch.log(1.0 - p) - 0.5 * z * z",
    "-torch.log(p * (1.0 - p)) - 0.5 * z * z",
    "torch.log(p**2 * (1.0 - p))",
    "2.0 * torch.log(p) + torch.log(1.0 - p)",
    "0.5 * torch.log(p) + 0.5 * torch.log(1.0 - p)",
    "-torch.log(torch.sqrt(p * (1.0 - p)))",
    "torch.log(p / (1.0 - p))",
    "torch.log(p) - torch.log(1.0 - p)",
    "-torch.log(torch.sqrt(p)) + b * p",
    "a * torch.log(p) - b * torch.log(p)",
)
_ENDS = ("d", "-d", "d.sum(dim=-1)", "-d.mean(dim=-1)", "w * d", "d + 0.1 * w * w", "torch.exp(0.25 * d)")


def write(draw: Draw) -> str:
    """A value within bounds, its shape parameters, a log-density or two, and its weight, mean or density."""
    clip, density = draw.choose("clip", _CLIPS), draw.choose("density", _DENSITIES)
    lines = [f"d = {density}"]
    if draw.choose("second", (False, False, True)):
        other = draw.choose("other", [each for each in _DENSITIES if each != density])
        lines += [f"other = {other}", "d = d + 0.3 * other"]
    forward = [f"p = {draw.choose('value', _VALUES).format('x', clip)}"]
    shape = draw.choose("shape", _SHAPES)
    forward += [f"{name} = {shape.format(of)}" for name, of in (("a", "u"), ("b", "v")) if reads(lines, name)]
    if reads(lines, "z"):
        forward.append("z = torch.clamp(x, -3.0, 3.0)")
    forward += [*lines, f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "u": "columns", "v": "columns", "w": "columns"}
    return elementwise(draw, "Log-densities of values between zero and one.", forward, shapes)


FAMILY = Family("beta_densities", "log-densities of values between zero and one", write)
