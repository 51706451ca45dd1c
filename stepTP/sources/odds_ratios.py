"""Association of two events by their probabilities: odds and risk ratios, lift, mutual information, stability.

p = torch.sigmoid(torch.clamp(x, -4.0, 1.0))
q = torch.sigmoid(torch.clamp(y, -4.0, 1.0))
return torch.log(p / (1.0 - p)) - torch.log(q / (1.0 - q))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise, reads

_PROBABILITIES = (
    "torch.sigmoid(torch.clamp({0}, -4.0, 1.0))",
    "torch.clamp(torch.sigmoid({0}), 0.01, 0.8)",
    "0.05 + 0.7 * torch.sigmoid({0})",
    "0.3 + 0.4 * torch.sigmoid({0})",
    "0.5 + 0.2 * torch.tanh({0})",
    "torch.clamp(0.5 * (torch.tanh({0}) + 1.0), 0.02, 0.8)",
)
_RATIOS = (
    "torch.log(p / (1.0 - p)) - torch.log(q / (1.0 - q))",
    "torch.log(p * q)",
    "torch.log(p) + torch.log(q)",
    "p * q * (torch.log(p) + torch.log(q))",
    "p * torch.log(p * q)",
    "torch.log(p * (1.0 - q))",
    "torch.log(p * (1.0 - q)) - torch.log(q * (1.0 - p))",
    "torch.log(p) - torch.log(1.0 - p)",
    "p * (1.0 - q) / (q * (1.0 - p))",
    "p / (1.0 - p) - q / (1.0 - q)",
    "(p + q - p * q) / (p * q)",
    "torch.log(torch.sqrt(p * q))",
    "0.5 * torch.log(p) + 0.5 * torch.log(q)",
    "-torch.log(p**2 * q)",
    "p * torch.log(p) + (1.0 - p) * torch.log(1.0 - p)",
    "torch.log(1.0 / (p * q))",
    "(p - q) * torch.log(p / q)",
    "0.5 * (p - q) + p / q",
    "(p - q) / (p * (1.0 - p))",
    "(p - q) + torch.log(p / q)",
)
_LOGS = (
    "torch.log(p) + torch.log(q)",
    "torch.log(p) - torch.log(q)",
    "torch.log(q) - torch.log(p)",
    "-torch.log(p) - torch.log(q)",
    "2.0 * torch.log(p) + torch.log(q)",
    "torch.log(p) + 2.0 * torch.log(q)",
    "0.5 * torch.log(p) + 0.5 * torch.log(q)",
    "torch.log(p) + torch.log(q) + torch.log(1.0 - p)",
    "torch.log(p * q) - torch.log(p + q)",
    "torch.log(p) - torch.log(p + q)",
)
_ENDS = ("r", "-r", "r.sum(dim=-1)", "r.mean(dim=-1)", "w * r", "r + 0.1 * w * w")


def write(draw: Draw) -> str:
    """One or two probabilities within bounds, one or two measures of them, and an end."""
    first = draw.choose("probability", _PROBABILITIES)
    second = draw.choose("other_probability", _PROBABILITIES)
    ratio = draw.choose("ratio", _LOGS if draw.choose("logs", (True, False)) else _RATIOS)
    lines = [f"r = {ratio}"]
    if draw.choose("two", (False, False, True)):
        other = draw.choose("other", [each for each in _RATIOS if each != ratio])
        lines += [f"other = {other}", "r = r + 0.3 * other"]
    forward = [f"p = {first.format('x')}"]
    if reads(lines, "q"):
        forward.append(f"q = {second.format('y')}")
    forward += [*lines, f"return {draw.choose('end', _ENDS)}"]
    shapes = {"x": "rows, columns", "y": draw.choose("given", ("rows, columns", "columns")), "w": "columns"}
    return elementwise(draw, "Association of two events.", forward, shapes)


FAMILY = Family("odds_ratios", "odds and risk ratios, lift and mutual information of two events", write)
