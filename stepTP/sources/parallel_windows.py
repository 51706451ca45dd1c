"""Two to four windowed operators of one shape side by side, their results summed, compared or concatenated.

left = F.conv2d(x, self.horizontal, padding=1)
right = F.conv2d(x, self.vertical, padding=1)
return torch.cat([left, right], dim=1)
"""

from stepTP.sources import Family
from stepTP.sources.draw import Draw
from stepTP.sources.parts import activation
from stepTP.sources.text import program_text

_NAMES = ("first", "second", "third", "fourth")
_OPERATORS = {
    "conv": "self.conv{0}({1})",
    "depthwise": "self.depthwise{0}({1})",
    "average": "F.avg_pool{2}d({1}, {3}, stride=1, padding={4})",
    "maximum": "F.max_pool{2}d({1}, {3}, stride=1, padding={4})",
}
_RELATED = ("x", "x", "-x", "x * x", "torch.abs(x)", "torch.relu(x)", "0.5 * x")


def write(draw: Draw) -> str:
    """How many operators, which, on what of the input, and how their results are joined."""
    rank = draw.choose("rank", (1, 2, 2))
    count = draw.choose("count", (2, 3, 4))
    constants = {"batch_size": draw.choose("batch", (1, 2)), "channels": draw.choose("channels", (2, 3, 4))}
    spatial = ("length",) if rank == 1 else ("height", "width")
    constants |= {name: draw.choose(name, (8, 10, 12) if rank == 2 else (16, 24, 32)) for name in spatial}
    constants["window"] = draw.choose("window", (3, 3, 5))
    same = draw.choose("same_operator", (True, True, False))
    kinds = [draw.choose("operator0", tuple(_OPERATORS))]
    kinds += [kinds[0] if same else draw.choose(f"operator{n}", tuple(_OPERATORS)) for n in range(1, count)]
    state: list[str] = [] if all(kind.startswith(("conv", "depth")) for kind in kinds) else ["self.window = window"]
    body: list[str] = []
    for n, kind in enumerate(kinds):
        of = "x" if n == 0 else draw.choose(f"of{n}", _RELATED if kind in ("average", "maximum") else _RELATED[:4])
        of = "-x" if kind in ("average", "maximum") and same and of == "x" and n == 1 else of
        body.append(f"{_NAMES[n]} = {_OPERATORS[kind].format(n + 1, of, rank, 'self.window', 'self.window // 2')}")
        groups = ", groups=channels" if kind == "depthwise" else ""
        if kind in ("conv", "depthwise"):
            layer = f"nn.Conv{rank}d(channels, channels, window, padding=window // 2{groups}, bias=False)"
            state.append(f"self.{kind}{n + 1} = {layer}")
    names = list(_NAMES[:count])
    join = draw.choose("join", ("sum", "cat", "maximum", "weighted", "activated"))
    match join:
        case "sum":
            result = " + ".join(names)
        case "cat":
            result = f"torch.cat([{', '.join(names)}], dim=1)"
        case "maximum":
            result = names[0]
            for name in names[1:]:
                result = f"torch.maximum({result}, {name})"
        case "weighted":
            result = " + ".join(f"{1 + n / 2} * {name}" for n, name in enumerate(names))
        case _:
            result = activation(draw, " + ".join(names))
    return program_text(
        constants,
        f"{count} windowed operators side by side.",
        state=state,
        forward=[*body, f"return {result}"],
        inputs=[f"torch.randn(batch_size, channels, {', '.join(spatial)})"],
    )


FAMILY = Family("parallel_windows", "several windowed operators side by side on related inputs", write)
