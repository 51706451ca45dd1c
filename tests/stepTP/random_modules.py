"""Random compositions of table ops, as PyTorch code: each line computes one tensor from earlier ones."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

FLOATS = ("float64", "float32", "float16", "bfloat16")
ANY = (
    "-{x}", "{x}.abs()", "{x} + {y}", "{x} - {y}", "{x} * {y}", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y})", "torch.where({x} <= 0, {y}, {x} + 1)", "{x}.clamp(-2, 3)", "{x}.t()",
    "{x}.sum(0, keepdim=True) + {y}", "{x}.amax(1, keepdim=True) - {y}", "{x}.amin(0) * {y}", "{x}.cumsum(1)",
    "{x}.flip(0)", "{x}.roll(1, 1)", "{x}[:, :1] + {y}", "{x}[-1] * {y}", "torch.cat([{x}, {y}], 1)[:, 2:6]",
    "{x}.reshape(2, 8).t().reshape(4, 4)", "{x}.tril()", "{x}.triu(1)", "{x}.diagonal() + {y}", "{x} @ {y}",
    "torch.stack([{x}, {y}]).amax(0)", "{x}.unsqueeze(0).expand(2, 4, 4).sum(0)", "{x}.index_select(0, {x}.argmax(0))",
    "{x}.gather(1, {y}.argmin(1, keepdim=True).expand(4, 4))", "F.pad({x}, (1, 0, 0, 1))[1:, :4]",
    "{x}.repeat(2, 1)[::2]", "{x}.view(2, 2, 4).transpose(0, 1).reshape(4, 4)", "{x}.sign() * {y}",
    "{x}.slice_scatter({y}[:2], 0, 1, 3)", "{x}.scatter(1, {y}.argmax(1, keepdim=True), 2)",
)  # fmt: skip
REAL = (
    "{x}.tanh()", "{x}.sigmoid()", "{x}.relu()", "F.gelu({x})", "F.silu({x})", "F.softplus({x})", "{x}.exp().log1p()",
    "{x}.abs().sqrt()", "{x}.softmax(1)", "{x}.log_softmax(0)", "{x}.logsumexp(1, keepdim=True) - {y}", "{x} / 3",
    "{x}.mean(1, keepdim=True) + {y}", "{x}.var(0) + {y}", "F.layer_norm({x}, (4,))", "{x} / ({y}.abs() + 1)",
    "F.leaky_relu({x}, 0.3)", "{x}.sin() + {y}.cos()", "torch.lerp({x}, {y}, 0.3)", "F.elu({x})", "{x} ** 2 + {y}",
    "F.avg_pool2d({x}[None], 3, 1, 1)[0]", "F.max_pool2d({x}[None], 3, 1, 1)[0]", "{x}.norm(dim=1, keepdim=True) + {y}",
    "F.conv1d({x}[None], {y}[:, :, None])[0]", "torch.addcmul({x}, {x}, {y}, value=0.5)", "F.hardswish({x})",
)  # fmt: skip
WHOLE = ("{x} // 3", "{x} % 5", "{x} % ({y}.abs() + 1)", "torch.div({x}, -2, rounding_mode='trunc')", "~{x}", "{x} & 3")
TRUTH = (
    "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "{x} == {y}", "{x} < {y}", "{x}.any(1, keepdim=True) & {y}",
    "{x}.all(0) | {y}", "torch.where({x}, {y}, ~{y})", "{x}.t()", "{x}.flip(1)", "{x}.roll(1, 0)", "{x}.tril() | {y}",
    "{x}.masked_fill({y}, True)", "torch.cat([{x}, {y}])[1:5]", "{x}.sum(1, keepdim=True) > {y}.sum(0)",
    "{x}.float().cumsum(0) > {y}.float()", "{x}[:1] & {y}", "{x}.reshape(2, 8).t().reshape(4, 4)",
)  # fmt: skip


@dataclass(frozen=True)
class RandomModule:
    """A module as text, with its function and inputs."""

    code: str
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


def random_module(dtype: str, seed: int) -> RandomModule:
    """One to six lines over two inputs of shape (4, 4), a row and a column; small values, so that little overflows."""
    rng = random.Random(f"{dtype}/{seed}")
    table = TRUTH if dtype == "bool" else ANY + WHOLE if dtype == "int64" else ANY + REAL
    names = ["a", "b", "c", "d"]
    lines: list[str] = []
    for number in range(rng.randint(1, 6)):
        x, y = rng.choice(["a", "b", *(f"t{n}" for n in range(number))]), rng.choice(names)
        lines.append(f"    t{number} = ({rng.choice(table).format(x=x, y=y)}).expand(4, 4)")
        names.append(f"t{number}")
    code = "\n".join(["def function(a, b, c, d):", *lines, f"    return ({', '.join(names[4:])},)"])
    code = code.replace("{y}[:2]", "{y}.expand(4, 4)[:2]")
    scope: dict[str, Any] = {"torch": torch, "F": F}
    exec(code, scope)
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    shapes = ((4, 4), (4, 4), (4,), (4, 1))
    inputs = tuple(_drawn(shape, dtype, generator) for shape in shapes)
    return RandomModule(code, scope["function"], inputs)


def _drawn(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    if dtype in FLOATS:
        return torch.randn(shape, generator=generator).to(getattr(torch, dtype))
    low, high = (0, 2) if dtype == "bool" else (-3, 4)
    return torch.randint(low, high, shape, generator=generator).to(getattr(torch, dtype))
