"""Values that are computed and not used, as code has after edits.

mean = x.mean(dim=-1, keepdim=True)
spread = x.amax(dim=-1, keepdim=True) - mean
return F.relu(x - mean)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_LIVE = {
    "centre": (["mean = x.mean(dim=-1, keepdim=True)"], "x - mean"),
    "linear": (["h = torch.matmul(x, self.weight)"], "h"),
    "scale": (["top = x.abs().amax(dim=-1, keepdim=True)"], "x / (top + 1.0)"),
    "gate": (["gate = torch.sigmoid(x)"], "x * gate"),
    "norm": (["length = torch.sqrt((x * x).sum(dim=-1, keepdim=True) + 1e-6)"], "x / length"),
    "residual": (["h = torch.matmul(x, self.weight)"], "x + h"),
    "weights": (["weights = torch.softmax(x, dim=-1)"], "weights * x"),
}
_DEAD = {
    "old_activation": "old = torch.tanh(x * 2.0)",
    "total": "total = x.sum(dim=-1)",
    "energy": "energy = (x * x).mean(dim=-1, keepdim=True)",
    "maximum": "highest = x.amax(dim=0)",
    "projection": "projected = torch.matmul(x, self.weight)",
    "shifted": "shifted = torch.roll(x, 1, dims=0)",
    "exponential": "unscaled = torch.exp(x - 1.0)",
    "mask": "mask = torch.where(x > 0, 1.0, 0.0)",
    "transposed": "turned = x.t() * 0.5",
}
_CHAINS = {
    "": "",
    "again": "{0} = {0} * 0.5",
    "activated": "{0} = torch.relu({0})",
    "log": "{0}_log = torch.log(1.0 + {0} * {0})",
}


def write(draw: Draw) -> str:
    """The value that lives, one to three that do not, before it or after it, with or without users of their own."""
    lines, result = _LIVE[draw.choose("live", tuple(_LIVE))]
    dead: list[str] = []
    for number in range(draw.choose("dead_values", (1, 2, 2, 3))):
        taken = [line.partition(" = ")[0] for line in dead]
        kind = draw.choose(f"dead{number}", [k for k, line in _DEAD.items() if line.partition(" = ")[0] not in taken])
        name = _DEAD[kind].partition(" = ")[0]
        chain = _CHAINS[draw.choose(f"chain{number}", tuple(_CHAINS))].format(name)
        dead += [_DEAD[kind], chain] if chain else [_DEAD[kind]]
    first = draw.choose("place", ("before", "after", "between"))
    body = {"before": [*dead, *lines], "after": [*lines, *dead], "between": [dead[0], *lines, *dead[1:]]}[first]
    constants = {"rows": draw.choose("rows", (6, 8, 12, 16)), "columns": draw.choose("columns", (8, 12, 16, 20))}
    weight = any("self.weight" in line for line in body)
    return program_text(
        constants,
        "A layer with values left over from an earlier version.",
        state=["self.weight = nn.Parameter(torch.randn(columns, columns) * columns**-0.5)"] if weight else [],
        forward=[*body, f"return {activation(draw, result)}"],
        inputs=["torch.randn(rows, columns)"],
    )


FAMILY = Family("dead_values", "programs with values that nothing uses", write)
