"""Log-densities and divergences of normal distributions with learned scales.

s = F.softplus(y) + 0.1
z = (x - m) / s
return -0.5 * z * z - torch.log(s) - 0.918939
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise, positive

_DENSITIES = (
    "-0.5 * z * z - torch.log(s) - 0.918939",
    "-0.5 * z * z - torch.log(2.506628 * s)",
    "-0.5 * z * z - 0.5 * torch.log(6.283185 * s * s)",
    "-0.5 * z**2 - 0.5 * torch.log(s**2)",
    "-torch.log(s) - torch.log(1.0 + z * z)",
    "-torch.log(s * (1.0 + z * z))",
    "-torch.abs(z) - torch.log(2.0 * s)",
    "-torch.log(s * t) - 0.5 * z * z",
    "-torch.log(s) - torch.log(t) - 0.5 * z * z",
    "torch.log(t / s) + (s**2 + (x - m) ** 2) / (2.0 * t**2) - 0.5",
    "torch.log(t) - torch.log(s) + (s * s + (x - m) ** 2) / (2.0 * t * t)",
    "(s + t) / (s * t)",
    "torch.log(torch.sqrt(s * s + t * t))",
    "0.5 * torch.log(s) + 0.5 * torch.log(t)",
    "torch.sqrt(s) * torch.sqrt(t) / (s + t)",
)
_ENDS = ("d", "d.sum(dim=-1)", "-d", "-d.mean(dim=-1)", "w * d", "d - 0.5 * w * w")


def write(draw: Draw) -> str:
    """Positive scales, a density or divergence, and its sum over the features, its weight, or itself."""
    density = draw.choose("density", _DENSITIES)
    if draw.choose("log_scale", (False, True)):
        scale = "torch.exp(torch.clamp(y, min=-3.0, max=2.0))"
    else:
        scale = positive(draw, "y", "scale")
    forward = [f"s = {scale}"]
    if "t)" in density or "t " in density or "t / s" in density or density.endswith("t"):
        forward.append(f"t = {positive(draw, 'v', 'other_scale')}")
    if "z" in density:
        forward.append("z = (x - m) / s")
    forward += [f"d = {density}", f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": "rows, columns", "m": "columns", "v": "columns", "w": "columns"}
    return elementwise(draw, "Densities of normal distributions.", forward, shapes)


FAMILY = Family("gaussian_densities", "log-densities and divergences of normal distributions", write)
