"""Ratios of policies by the difference of bounded log-probabilities, clipped or not.

new = torch.clamp(new, min=-4.0, max=0.0)
old = torch.clamp(old, min=-4.0, max=0.0)
ratio = torch.exp(new - old)
return -torch.minimum(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_LIMITS = ("torch.clamp({}, min=-4.0, max=0.0)", "torch.clamp({}, min=-2.0, max=0.0)", "-2.0 * torch.sigmoid({})")
_RATIOS = (
    "torch.exp(new - old)",
    "torch.exp(new) / torch.exp(old)",
    "torch.exp(new) * torch.exp(-old)",
    "torch.exp(0.5 * (new - old))",
    "torch.exp(new - old - 0.1)",
)
_LOSSES = (
    "-torch.minimum(ratio * gain, torch.clamp(ratio, 0.8, 1.2) * gain)",
    "-ratio * gain",
    "ratio * gain - new * gain",
    "0.5 * ratio * gain + 0.1 * (new - old)",
    "gain * ratio / (1.0 + ratio)",
    "ratio - 1.0 - (new - old)",
    "-torch.log(ratio) * gain",
)
_ENDS = ("loss", "loss.sum(dim=-1)", "loss.mean(dim=-1)", "loss - 0.01 * torch.exp(new) * new", "loss + gain * gain")


def write(draw: Draw) -> str:
    """Log-probabilities within bounds, their ratio, a loss of it with or without clipping, and a bonus or mean."""
    limit = draw.choose("limit", _LIMITS)
    forward = [f"{name} = {limit.format(name)}" for name in ("new", "old")]
    forward += [f"ratio = {draw.choose('ratio', _RATIOS)}", f"loss = {draw.choose('loss', _LOSSES)}"]
    forward.append(f"return {draw.choose('end', _ENDS)}")
    shapes = {"new": "rows, columns", "old": "rows, columns", "gain": draw.choose("gain", ("rows, columns", "columns"))}
    return elementwise(draw, "A loss of policy ratios.", forward, shapes)


FAMILY = Family("policy_ratios", "policy losses by ratios of bounded log-probabilities", write)
