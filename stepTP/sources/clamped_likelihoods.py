"""Losses of probabilities that are clamped before their logarithm is taken.

p = torch.clamp(torch.sigmoid(x), 1e-4, 1.0 - 1e-4)
return -(y * torch.log(p) + (1.0 - y) * torch.log(1.0 - p))
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_CLIPS = ("1e-4", "1e-3", "1e-2")
_SCORES = (
    "torch.sigmoid({})",
    "0.5 * (torch.tanh({}) + 1.0)",
    "torch.exp(-torch.abs({}))",
    "0.5 + 0.5 * torch.sin({})",
)
_LOSSES = (
    "-(y * torch.log(p) + (1.0 - y) * torch.log(1.0 - p))",
    "torch.log(p) - torch.log(1.0 - p)",
    "torch.log(p / (1.0 - p))",
    "-((1.0 - p) ** 2) * torch.log(p)",
    "-torch.log(p**2)",
    "-2.0 * torch.log(p)",
    "torch.log(p) + torch.log(1.0 - p)",
    "torch.log(p * (1.0 - p))",
    "-0.5 * torch.log(p)",
    "-torch.log(torch.sqrt(p))",
    "-torch.log(p**3 * (1.0 - p))",
    "2.0 * torch.log(p) - torch.log(1.0 - p)",
    "torch.log(1.0 / p)",
    "-p * torch.log(p) - (1.0 - p) * torch.log(1.0 - p)",
)
_ENDS = ("loss", "loss.sum(dim=-1)", "loss.mean(dim=-1)", "loss * w", "loss + 0.1 * y * y", "y * loss")


def write(draw: Draw) -> str:
    """A score, clamped itself or by its logits, one or two losses of it, and their weight or mean."""
    loss = draw.choose("loss", _LOSSES)
    if draw.choose("clamped", ("probabilities", "logits")) == "logits":
        limit = draw.choose("limit", ("4.0", "6.0"))
        forward = [f"p = torch.sigmoid(torch.clamp(x, -{limit}, {limit}))"]
    else:
        clip, score = draw.choose("clip", _CLIPS), draw.choose("score", _SCORES)
        forward = [f"p = torch.clamp({score.format('x')}, {clip}, 1.0 - {clip})"]
    forward.append(f"loss = {loss}")
    if draw.choose("regularised", (False, False, True)):
        penalty = draw.choose("penalty", [each for each in _LOSSES if each != loss])
        forward += [f"penalty = {penalty}", "loss = loss + 0.1 * penalty"]
    forward.append(f"return {draw.choose('end', _ENDS)}")
    shapes = {"x": "rows, columns", "y": "rows, columns", "w": "columns"}
    return elementwise(draw, "A loss of clamped probabilities.", forward, shapes)


FAMILY = Family("clamped_likelihoods", "log-likelihoods of clamped probabilities", write)
