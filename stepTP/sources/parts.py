"""Pieces that several families draw: activations, element-wise steps, dtypes."""

import re
from collections.abc import Mapping, Sequence

from stepTP.sources.draw import Draw
from stepTP.sources.text import program_text

ACTIVATIONS = {
    "relu": "F.relu({})",
    "leaky_relu": "F.leaky_relu({}, negative_slope=0.1)",
    "elu": "F.elu({})",
    "gelu": "F.gelu({})",
    "gelu_tanh": 'F.gelu({}, approximate="tanh")',
    "silu": "F.silu({})",
    "mish": "F.mish({})",
    "softplus": "F.softplus({})",
    "hardtanh": "F.hardtanh({}, min_val=-2.0, max_val=2.0)",
    "hardswish": "F.hardswish({})",
    "sigmoid": "torch.sigmoid({})",
    "tanh": "torch.tanh({})",
}
STEPS = (
    "x = x * 2.0",
    "x = x / 3.0",
    "x = x + 0.1",
    "x = x - 0.5",
    "x = torch.clamp(x, min=-4.0, max=4.0)",
    "x = torch.abs(x)",
    "x = x * torch.sigmoid(x)",
    *(f"x = {function.format('x')}" for function in ACTIVATIONS.values()),
)
POSITIVE = {
    "square": "{0} * {0} + 1.0",
    "absolute": "torch.abs({}) + 0.5",
    "softplus": "F.softplus({}) + 0.1",
    "exponential": "torch.exp(torch.clamp({}, max=8.0)) + 1.0",
    "sigmoid": "torch.sigmoid({}) + 0.25",
}


LOGGED = {
    "nothing": (),
    "average": ("average = {0}.mean()",),
    "peak": ("peak = {0}.abs().amax(dim=-1)",),
    "share": ("active = ({0} > 0).float().mean(dim=0)",),
    "energy": ("energy = {0}.pow(2).mean(dim=-1)", "energy = torch.log(energy + 1e-6)"),
    "spread": ("spread = {0}.amax(dim=0) - {0}.amin(dim=0)",),
    "length": ("length = torch.sqrt(({0} * {0}).sum(dim=-1) + 1e-6)",),
}


def activation(draw: Draw, of: str = "x", knob: str = "activation") -> str:
    """An activation of the expression `of`."""
    return ACTIVATIONS[draw.choose(knob, tuple(ACTIVATIONS))].format(of)


def positive(draw: Draw, of: str = "x", knob: str = "positive") -> str:
    """An expression in the variable `of` that is above zero whatever its value."""
    return POSITIVE[draw.choose(knob, tuple(POSITIVE))].format(of)


def logged(draw: Draw, of: str) -> list[str]:
    """Lines that were once logged and that nothing reads: of three programs in four, none."""
    kinds = ("nothing",) * 18 + tuple(LOGGED)[1:]
    return [line.format(of) for line in LOGGED[draw.choose("logged", kinds)]]


def steps(draw: Draw, lengths: Sequence[int], options: Sequence[str] = STEPS, knob: str = "step") -> list[str]:
    """As many lines of `options` as one of `lengths`, none twice in a row."""
    lines: list[str] = []
    for number in range(draw.choose(f"{knob}s", lengths)):
        lines.append(draw.choose(f"{knob}{number}", [line for line in options if line not in lines[-1:]]))
    return lines


def reads(lines: Sequence[str], name: str) -> bool:
    """Whether one of these lines reads a variable."""
    return any(re.search(rf"\b{name}\b", line.split(" = ")[-1]) for line in lines)


def elementwise(draw: Draw, summary: str, forward: Sequence[str], shapes: Mapping[str, str]) -> str:
    """A program over rows and columns. Its arguments are those of `shapes` that its lines read."""
    names = [name for name in shapes if reads(forward, name)]
    constants = {
        "rows": draw.choose("rows", (4, 8, 12, 16, 24)),
        "columns": draw.choose("columns", (8, 12, 16, 20, 32)),
    }
    dtype = draw.choose("dtype", ("f32", "f32", "f64"))
    return program_text(
        constants,
        summary,
        forward=forward,
        inputs=[f"torch.randn({shapes[name]}, dtype=dtype)" for name in names],
        arguments=", ".join(names),
        dtype=dtype,
    )
