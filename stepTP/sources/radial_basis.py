"""Separable radial basis kernels: a Gaussian of each coordinate of points, about centres.

across = 0.5 * (torch.tanh(x) - u) ** 2
down = 0.5 * (torch.tanh(y) - u) ** 2
return torch.exp(-across) * torch.exp(-down)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_BOUNDS = ("torch.tanh({})", "torch.sigmoid({})", "torch.clamp({}, min=-1.0, max=1.0)", "torch.sin({})")
_WIDTHS = ("0.5 * ", "0.25 * ", "")
_DISTANCES = {"squared": "{0}({1} - {2}) ** 2", "absolute": "{0}torch.abs({1} - {2})", "cosine": "{0}{3}"}
_KERNELS = (
    "torch.exp(-across) * torch.exp(-down)",
    "torch.exp(-(across + down))",
    "torch.exp(-across - down)",
    "w * torch.exp(-across) * torch.exp(-down)",
    "torch.exp(-across) * w * torch.exp(-down)",
    "torch.exp(-across) / torch.exp(down)",
    "torch.sqrt(torch.exp(-across) * torch.exp(-down))",
    "torch.exp(-across) * torch.exp(-down) / (1.0 + torch.exp(-across) * torch.exp(-down))",
    "torch.exp(down - across)",
    "(1.0 + across) * torch.exp(-across) * torch.exp(-down)",
)
_ENDS = ("kernel", "kernel", "kernel.sum(dim=-1)", "kernel * y", "1.0 - kernel", "kernel * kernel")


def write(draw: Draw) -> str:
    """Points that are bounded, a distance by coordinate, the kernel of both, and what is done with it."""
    bound, width = draw.choose("bound", _BOUNDS), draw.choose("width", _WIDTHS)
    distance = _DISTANCES[draw.choose("distance", tuple(_DISTANCES))]
    forward = [f"{name} = {bound.format(name)}" for name in ("x", "y", "u")]
    for name, point in (("across", "x"), ("down", "y")):
        apart = f"1.0 - {point} * u"
        forward.append(f"{name} = {distance.format(width, point, 'u', f'({apart})' if width else apart)}")
    forward += [f"kernel = {draw.choose('kernel', _KERNELS)}", f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": "rows, columns", "u": "columns", "w": "columns"}
    return elementwise(draw, "Radial basis kernels of two coordinates.", forward, shapes)


FAMILY = Family("radial_basis", "separable radial basis kernels of bounded coordinates", write)
