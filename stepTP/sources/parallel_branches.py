"""Independent branches on one input, as attention projections and multi-task heads have.

first = torch.matmul(x, self.first)
second = F.gelu(torch.matmul(x, self.second))
return first * second
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_NAMES = ("first", "second", "third", "fourth")
_KINDS = {
    "matmul": "torch.matmul(x, self.{0})",
    "linear": "self.{0}(x)",
    "scale": "x * self.{0}",
    "shift": "x - self.{0}",
}
_STATE = {
    "matmul": "self.{0} = nn.Parameter(torch.randn(features, features) * features**-0.5)",
    "linear": "self.{0} = nn.Linear(features, features)",
    "scale": "self.{0} = nn.Parameter(torch.randn(features))",
    "shift": "self.{0} = nn.Parameter(torch.randn(features))",
}


def write(draw: Draw) -> str:
    """Two to four branches, alike or not, each with an activation or none, and how they meet."""
    count = draw.choose("branches", (2, 3, 3, 4))
    alike = draw.choose("alike", (True, False))
    kinds = [draw.choose("kind0", tuple(_KINDS))]
    kinds += [kinds[0] if alike else draw.choose(f"kind{n}", tuple(_KINDS)) for n in range(1, count)]
    body: list[str] = []
    for n, kind in enumerate(kinds):
        value = _KINDS[kind].format(_NAMES[n])
        if draw.choose(f"active{n}", (False, True)):
            value = activation(draw, value, f"activation{n}")
        body.append(f"{_NAMES[n]} = {value}")
    names = _NAMES[:count]
    join = draw.choose("join", ("sum", "product", "cat", "stack_max", "gate", "outputs"))
    match join:
        case "sum":
            result = " + ".join(names)
        case "product":
            result = " * ".join(names)
        case "cat":
            result = f"torch.cat([{', '.join(names)}], dim=-1)"
        case "stack_max":
            result = f"torch.stack([{', '.join(names)}], dim=0).amax(dim=0)"
        case "gate":
            result = f"torch.sigmoid({names[0]}) * ({' + '.join(names[1:])})"
        case _:
            result = ", ".join(names)
    constants = {
        "batch_size": draw.choose("batch", (4, 6, 8, 12)),
        "features": draw.choose("features", (8, 12, 16, 24)),
    }
    return program_text(
        constants,
        f"{count} branches on one input.",
        state=[_STATE[kind].format(name) for kind, name in zip(kinds, names, strict=True)],
        forward=[*body, f"return {result}"],
        inputs=["torch.randn(batch_size, features)"],
    )


FAMILY = Family("parallel_branches", "independent branches on one input", write)
