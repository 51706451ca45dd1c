"""Likelihoods of times to an event: hazards, survival, and what is censored.

rate = torch.clamp(torch.sigmoid(x), 0.05, 0.95)
survival = torch.exp(-rate * time)
return event * torch.log(rate * survival) + (1.0 - event) * torch.log(survival)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import elementwise

_RATES = (
    "torch.clamp(torch.sigmoid({0}), 0.05, 0.95)",
    "torch.exp(-torch.clamp(torch.abs({0}), 0.1, 3.0))",
    "0.7 * torch.sigmoid({0}) + 0.05",
    "torch.clamp(torch.abs({0}), 0.1, 0.9)",
)
_TIMES = ("torch.clamp(torch.abs(t), 0.1, 0.9)", "torch.clamp(torch.abs(t), max=2.0)", "2.0 * torch.sigmoid(t)")
_SURVIVALS = (
    "torch.exp(-rate * time)",
    "torch.exp(-rate) * torch.exp(-0.5 * time)",
    "torch.exp(-rate * time - 0.1 * time)",
    "1.0 / torch.exp(rate * time)",
    "torch.exp(-rate) / torch.exp(0.5 * time)",
)
_LIKELIHOODS = (
    "event * torch.log(rate) + torch.log(survival)",
    "torch.log(rate * survival)",
    "torch.log(rate) + torch.log(survival)",
    "event * torch.log(rate * survival) + (1.0 - event) * torch.log(survival)",
    "torch.log(survival)",
    "torch.log(rate) - rate * time",
    "torch.log(survival / rate)",
    "torch.log(survival) - torch.log(rate)",
    "0.5 * torch.log(rate) + event * rate",
    "-torch.log(torch.sqrt(survival)) - event * torch.log(rate)",
    "torch.log(rate * rate * survival)",
    "torch.log(1.0 / survival) - event * torch.log(rate)",
    "event * rate * survival + (1.0 - event) * survival",
    "rate * survival / (1.0 - 0.5 * survival)",
)
_ENDS = (
    "value",
    "-value",
    "value.sum(dim=-1)",
    "-value.mean(dim=-1)",
    "weight * value",
    "value - 0.01 * weight * rate",
)


def write(draw: Draw) -> str:
    """A hazard and a time within bounds, the survival, a likelihood with or without censoring, and a weight or mean."""
    likelihood, end = draw.choose("likelihood", _LIKELIHOODS), draw.choose("end", _ENDS)
    forward = [f"rate = {draw.choose('rate', _RATES).format('x')}"]
    if "survival" in likelihood or "time" in likelihood:
        forward.append(f"time = {draw.choose('time', _TIMES)}")
    if "survival" in likelihood:
        forward.append(f"survival = {draw.choose('survival', _SURVIVALS)}")
    if "event" in likelihood:
        forward.append(draw.choose("event", ("event = torch.sigmoid(e)", "event = (e > 0).to(x.dtype)")))
    forward += [f"value = {likelihood}", f"return {end}"]
    shapes = {"x": "rows, columns", "t": "rows, columns", "e": "rows, columns", "weight": "columns"}
    return elementwise(draw, "Likelihoods of times to an event.", forward, shapes)


FAMILY = Family("survival_models", "hazards, survival and censored likelihoods", write)
