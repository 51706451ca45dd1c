"""Relatives of softmax: softmin, temperatures, masks, written out or by the library, over any axis.

scores = x.masked_fill(self.mask, -1e4) / self.temperature
shifted = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
return shifted / shifted.sum(dim=-1, keepdim=True)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

_SCORES = {
    "plain": ("x", []),
    "temperature": ("x / self.temperature", ["self.temperature = temperature"]),
    "learned": ("x * self.sharpness", ["self.sharpness = nn.Parameter(1.0 + 0.1 * torch.randn(columns))"]),
    "masked_fill": (
        "x.masked_fill(self.mask, -1e4)",
        ['self.register_buffer("mask", torch.arange(columns) % 3 == 1)'],
    ),
    "where": ("torch.where(self.mask, x, -1e4)", ['self.register_buffer("mask", torch.arange(columns) % 4 != 2)']),
    "additive": ("x + self.mask", ['self.register_buffer("mask", -1e4 * (torch.arange(columns) % 5 == 3).float())']),
    "capped": ("4.0 * torch.tanh(x / 4.0)", []),
}
_FORMS = {
    "softmax": ["x = torch.softmax(scores, dim=AXIS)"],
    "softmin": ["x = F.softmin(scores, dim=AXIS)"],
    "log_softmax": ["x = F.log_softmax(scores, dim=AXIS)"],
    "shifted": [
        "shifted = torch.exp(scores - scores.amax(dim=AXIS, keepdim=True))",
        "x = shifted / shifted.sum(dim=AXIS, keepdim=True)",
    ],
    "by_logsumexp": ["x = torch.exp(scores - torch.logsumexp(scores, dim=AXIS, keepdim=True))"],
    "off_by_one": [
        "top = torch.clamp(scores.amax(dim=AXIS, keepdim=True), min=0.0)",
        "shifted = torch.exp(scores - top)",
        "x = shifted / (shifted.sum(dim=AXIS, keepdim=True) + torch.exp(-top))",
    ],
}
_AFTER = {
    "nothing": ["return x"],
    "values": ["return torch.matmul(x, values)"],
    "weigh": ["return x * values"],
    "expectation": ["return (x * values).sum(dim=-1)"],
}


def write(draw: Draw) -> str:
    """What the scores are, how they are normalised, over which axis, and what the weights are used for."""
    kind = draw.choose("scores", tuple(_SCORES))
    scores, state = _SCORES[kind]
    forms = [form for form in _FORMS if form != "softmin" or kind not in ("masked_fill", "where", "additive")]
    axis = draw.choose("axis", ("-1", "-1", "1"))
    form = [line.replace("AXIS", axis) for line in _FORMS[draw.choose("form", forms)]]
    after = draw.choose("after", tuple(_AFTER))
    constants: dict[str, int | float] = {"batch_size": draw.choose("batch", (2, 3, 4, 6))}
    constants["rows"] = draw.choose("rows", (4, 6, 8, 12))
    constants["columns"] = draw.choose("columns", (8, 12, 16, 24, 32))
    if "self.temperature = temperature" in state:
        constants["temperature"] = draw.choose("temperature", (0.5, 2.0, 8.0))
    inputs = ["torch.randn(batch_size, rows, columns)"]
    if after == "values":
        constants["features"] = draw.choose("features", (4, 8, 12))
        inputs.append("torch.randn(batch_size, columns, features)")
    elif after != "nothing":
        inputs *= 2
    first = [f"scores = {scores}"] if scores != "x" else []
    body = first + [line if first else line.replace("scores", "x") for line in form]
    return program_text(
        constants,
        f"Weights that sum to one along axis {axis}.",
        state=state,
        forward=[*body, *_AFTER[after]],
        inputs=inputs,
        arguments="x" if after == "nothing" else "x, values",
    )


FAMILY = Family("masked_softmax", "softmax, softmin, temperatures and masks over any axis", write)
