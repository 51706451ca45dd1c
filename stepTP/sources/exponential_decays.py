"""Decays over bounded times: discounts, absorption in layers, leaky states.

t = torch.sigmoid(t)
return x * torch.exp(-0.5 * t) * torch.exp(-u)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_TIMES = ("torch.sigmoid({})", "torch.clamp({}, min=0.0, max=2.0)", "torch.abs(torch.tanh({}))", "torch.sin({}) ** 2")
_DECAYS = (
    "x * torch.exp(-0.5 * t) * torch.exp(-u)",
    "torch.exp(-t) * torch.exp(-u)",
    "x * torch.exp(-(t + u))",
    "x * torch.exp(-t - 0.5 * u)",
    "torch.exp(t - u)",
    "x * torch.exp(u - t)",
    "torch.exp(-t) / torch.exp(u)",
    "x / torch.exp(t)",
    "torch.exp(-t) - torch.exp(-(t + u))",
    "x * torch.exp(-t) + torch.exp(-u) * torch.exp(-t)",
    "torch.exp(-2.0 * t) * torch.exp(-0.5 * u)",
    "x * (torch.exp(-t) - torch.exp(-u))",
    "torch.exp(-t) * x * torch.exp(-u)",
    "x * torch.exp(-u * t)",
    "torch.exp(-0.5 * (t + u))",
    "x * torch.exp(0.5 * (t - u))",
)
_ENDS = ("y", "y", "y.sum(dim=-1)", "y + w", "w * y", "torch.tanh(y)", "1.0 - y")


def write(draw: Draw) -> str:
    """Two times within bounds, one or two decays over them, and an end."""
    time, decay = draw.choose("time", _TIMES), draw.choose("decay", _DECAYS)
    lines = [f"y = {decay}"]
    if draw.choose("two", (False, False, True)):
        other = draw.choose("other", [each for each in _DECAYS if each != decay])
        lines += [f"other = {other}", f"y = y {draw.choose('sign', ('+', '-'))} 0.1 * other"]
    used = [name for name in ("t", "u") if any(f"{name})" in line or f"{name} " in line for line in lines)]
    forward = [*(f"{name} = {time.format(name)}" for name in used), *lines, f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "t": "rows, columns", "u": "columns", "w": "columns"}
    return elementwise(draw, "Exponential decays.", forward, shapes)


FAMILY = Family("exponential_decays", "exponential decays over bounded times", write)
