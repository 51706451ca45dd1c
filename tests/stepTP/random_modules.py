"""Random compositions of table ops, as PyTorch code: each line computes one tensor from earlier ones.

In a line `{x}` is any tensor of the program's shape, `{y}` one that broadcasts to it, `{r}` and `{c}` are its sizes. A
line that PyTorch does not run with what was drawn is drawn again, so that every program runs.
"""

import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

FLOATS = ("float64", "float32", "float16", "bfloat16")
SHAPES = ((4, 4), (3, 5), (6, 2), (1, 7), (5, 1), (2, 8))
MOVED = (
    "{x}.t().reshape({r}, {c})", "{x}.flip(0)", "{x}.flip((0, 1))", "{x}.roll(1, 1)", "{x}.roll((-1, 2), (0, 1))",
    "{x}.roll(3)", "{x}.reshape(-1).reshape({c}, {r}).t()", "{x}.repeat(2, 1)[::2]", "{x}.unsqueeze(0).squeeze()",
    "{x}.view(1, {r}, {c}, 1).permute(3, 1, 2, 0).reshape({r}, {c})", "{x}[-1]", "{x}[:, -1:]", "{x}[:1]",
    "{x}.repeat_interleave(2, 1)[:, 1::2]", "torch.cat([{x}, {f}], 1)[:, {c}:]", "torch.cat([{x}[1:], {f}[:1]])",
    "torch.stack([{x}, {f}], 1)[:, 0]", "torch.stack([{x}, {f}], -1)[..., 1]", "{x}.narrow(1, 0, 1)",
    "{x}.split(1, 0)[-1]", "{x}.chunk(2, 1)[0][:, :1]", "{x}.unbind(1)[-1][:, None]", "{x}.movedim(0, 1).t()",
    "{x}.index_select(0, i)", "{x}[i]", "{x}[i - {r}]", "{x}[i[:, None], j]", "{x}[:, j]",
    "{x}.take_along_dim(j[None], 1)", "{x}.gather(1, j[None].expand({r}, {c}))",
    "{x}.gather(0, i[:, None].expand({r}, {c}))", "{x}.expand(2, {r}, {c})[1]", "{x}.unfold(1, 1, 1).squeeze(-1)",
    "{x}.tril()", "{x}.triu(1)", "{x}.tril(-1)", "torch.where(m, {x}, {y})", "{x}.masked_fill(m, 1)",
    "{x}.slice_scatter({f}[:1], 0, 0, 1)", "{x}.select_scatter({f}[0], 0, -1)", "{x}.index_put((i,), {f}[0])",
    "{x}.index_copy(0, i[:1], {f}[:1])", "{x}.index_fill(1, j[:1], 1)", "{x}.clone()", "F.pad({x}, (1, 0))[:, :-1]",
    "F.pad({x}, (0, 0, 1, 2), value=1)[1:-2]", "{x}.diagonal()[:1]", "{x}.diagonal_scatter({f}.diagonal())",
    "{x}.as_strided(({r}, {c}), (1, {r}))", "{x}.rot90(2)",
)  # fmt: skip
ANY = (
    "-{x}", "{x}.abs()", "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} + s", "s * {x}", "{x} + 2", "3 - {x}",
    "{x} * -2", "torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.where({x} > {y}, {x}, {y})",
    "{x}.clamp(-2, 3)", "torch.where({x} <= 0, {y}, {x} + 1)", "{x}.clamp(min=1)", "torch.clamp({x}, max={f})",
    "{x}.sum(0)", "{x}.sum()", "{x}.sum(0, keepdim=True) + {y}", "{x}.amax(1, keepdim=True) - {y}",
    "{x}.amin(0) * {y}", "{x}.amax((0, 1))", "{x}.cumsum(1)", "{x}.cumsum(0)", "{x}[:, :1] + {y}", "{x}[-1] * {y}",
    "({x} @ {f}.t())[:, :1]", "{x}.t() @ {f}", "torch.stack([{x}, {f}]).amax(0)",
    "{x}.unsqueeze(0).expand(2, {r}, {c}).sum(0)", "{x}.index_select(0, {x}.argmax(0)[:1])",
    "{x}.gather(1, {f}.argmin(1, keepdim=True).expand({r}, {c}))", "{x}.max(1, keepdim=True).values", "{x}.min(0)[0]",
    "{x}.sign() * {y}", "{x}.scatter(1, {f}.argmax(1, keepdim=True), 2)", "{x}.scatter_add(1, j[None], {f})",
    "{x}.index_add(0, i, {f})", "{x}.add({y}, alpha=2)", "{x}.sub({y}, alpha=-1)", "torch.rsub({x}, {y})",
    "{x}.square()", "({x} > {y}) * {f}", "({x} == {f}).to({x}.dtype)", "({x} != {y}).any(1, keepdim=True) + {f}",
    "{x}.argmax(1)[:, None] + {x}", "torch.einsum('ij,ij->i', {x}, {f})[:, None]", "torch.outer({x}[:, 0], {f}[0])",
    "F.relu({x})", "{x}.cummax(1)[0]", "{x}.addcmul({f}, {y})", "{x}.diff(dim=1, prepend={f}[:, :1])",
    "{x}.index_put((i,), {f}, accumulate=True)", "{x}.scatter_reduce(0, i[:, None].expand({r}, {c}), {f}, 'amax')",
    "{x}.trace() + {f}", "{x} ** 2", "{x}.prod(1)[:, None]",
)  # fmt: skip
REAL = (
    "{x}.tanh()", "{x}.sigmoid()", "F.gelu({x})", "F.silu({x})", "F.softplus({x})", "{x}.exp().log1p()",
    "{x}.abs().sqrt()", "{x}.softmax(1)", "{x}.log_softmax(0)", "{x}.logsumexp(1, keepdim=True) - {y}", "{x} / 3",
    "{x} / ({y}.abs() + 1)", "{x}.mean(1, keepdim=True) + {y}", "{x}.mean()", "{x}.var(0) + {y}",
    "{x}.std(1, correction=0)[:, None]", "F.layer_norm({x}, ({c},))", "F.rms_norm({x}, ({c},))",
    "F.group_norm({x}[None], 1)[0]", "F.leaky_relu({x}, 0.3)", "{x}.sin() + {y}.cos()", "torch.lerp({x}, {f}, 0.3)",
    "F.elu({x})", "{x} ** 2 + {y}", "F.hardswish({x})", "F.mish({x})", "F.avg_pool2d({x}[None], 3, 1, 1)[0]",
    "F.max_pool2d({x}[None], 3, 1, 1)[0]", "{x}.norm(dim=1, keepdim=True) + {y}",
    "F.conv1d({x}[None], {f}[:, :1, None], groups={r})[0]", "F.conv1d({x}[None], ({f} @ {f}.t())[:, :, None])[0]",
    "torch.addcmul({x}, {x}, {y}, value=0.5)", "F.hardsigmoid({x})", "F.selu({x})", "F.hardtanh({x}, -0.4, 0.7)",
    "{x}.erf()", "F.normalize({x}, dim=1)", "{x}.expm1().clamp(max=4)", "{x}.round() + {y}", "{x}.floor() * 0.5",
    "torch.trunc({x})", "{x} % 2", "{x}.remainder(0.75)", "{x}.fmod(1.5)", "{x} // 2",
    "torch.addmm({y}, {x}, torch.eye({c}).to({x}.dtype))", "F.linear({x}, {f}, {f}[:, 0])[:, :1]",
    "F.mse_loss({x}, {f})", "F.smooth_l1_loss({x}, {f})", "F.l1_loss({x}, {f}, reduction='none')",
    "F.scaled_dot_product_attention({x}[None], {f}[None], {f}[None])[0]",
    "F.interpolate({x}[None, None], scale_factor=2)[0, 0, ::2, ::2]", "F.adaptive_avg_pool2d({x}[None], ({r}, 1))[0]",
    "F.instance_norm({x}[None, None])[0, 0]", "{x}.cumprod(1)", "{x}.rsqrt().nan_to_num(0, 1, 1)",
    "torch.linalg.vector_norm({x}, 1, 0)", "{x}.logcumsumexp(1)", "torch.hypot({x}, {y})", "F.softshrink({x}, 0.25)",
    "F.hardshrink({x}, 0.25)", "F.glu(torch.cat([{x}, {f}], 1))",
    "F.pad({x}[None], (1, 1), mode='replicate')[0, :, 1:-1]", "{x}.double().softmax(-1).to({x}.dtype)",
    "torch.bucketize({x}, torch.tensor([-1.0, 0.0, 1.0]).to({x}.dtype)) * {f}", "{x}.half().to({x}.dtype)",
    "F.cosine_similarity({x}, {f})[:, None]",
)  # fmt: skip
WHOLE = (
    "{x} // 3", "{x} % 5", "{x} % ({y}.abs() + 1)", "{x} // ({y}.abs() + 1)",
    "torch.div({x}, -2, rounding_mode='trunc')", "~{x}", "{x} & 3", "{x} << 1", "{x} >> 1", "({x} / 2).long()",
    "{x}.float().mean(1, keepdim=True).long()", "{x} ** 3", "torch.fmod({x}, 3)", "({x} * 0.5).floor().long()",
    "{x}.int().long()", "F.one_hot({x}.abs() % {c}, {c})[:, 0]", "torch.bucketize({x}, torch.tensor([-2, 0, 2]))",
    "{x}.bool().long()", "({x} > 0).cumsum(1)", "{x}.remainder(-3)",
)  # fmt: skip
TRUTH = (
    "{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "{x} == {y}", "{x} < {y}", "{x} != {f}", "{x} >= {y}",
    "{x}.any(1, keepdim=True) & {y}", "{x}.all(0) | {y}", "{x}.any()", "torch.where({x}, {y}, ~{f})",
    "{x}.masked_fill({y}, True)", "{x} & s", "torch.logical_xor({x}, {y})", "{x}.sum(1, keepdim=True) > {y}.sum(0)",
    "{x}.float().cumsum(0) > {f}.float()", "{x}[:1] & {y}", "{x}.long().argmax(1)[:, None] > 0",
    "{x}.max(1, keepdim=True).values", "{x}.amin(0)", "{x}.int().amax(1, keepdim=True) == {y}", "({x} + {f}) > 0",
    "({x} * {y}).bool()", "{x}.long().prod(1)[:, None] > 0", "torch.logical_not({x}) | {y}",
    "{x}.count_nonzero(1)[:, None] > 1", "({x}.half() * 0.3 > 0.2)",
)  # fmt: skip


@dataclass(frozen=True)
class RandomModule:
    """A module as text, with its function and inputs."""

    code: str
    function: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


def random_module(dtype: str, seed: int) -> RandomModule:
    """One to six lines over two tensors of one shape, a row, a column, a number, a mask, and positions of rows and of
    columns; small values, so that little overflows."""
    rng = random.Random(f"{dtype}/{seed}")
    table = MOVED + (TRUTH if dtype == "bool" else ANY + WHOLE if dtype == "int64" else ANY + REAL)
    rows, columns = rng.choice(SHAPES)
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    shapes = {"a": (rows, columns), "b": (columns, rows), "c": (columns,), "d": (rows, 1), "s": ()}
    values = {name: _drawn(shape, dtype, generator) for name, shape in shapes.items()}
    values["b"] = values["b"].t()  # not contiguous
    values["m"] = torch.randint(0, 2, (rows, columns), generator=generator).bool()
    values["i"] = torch.randint(0, rows, (rows,), generator=generator)
    values["j"] = torch.randint(0, columns, (columns,), generator=generator)
    inputs = dict(values)
    lines: list[str] = []
    wanted = rng.randint(1, 6)
    while len(lines) < wanted:
        whole = ["a", "b", *(f"t{n}" for n in range(len(lines)))]
        line = rng.choice(table).format(
            x=rng.choice(whole), y=rng.choice([*whole, "c", "d"]), f=rng.choice(whole), r=rows, c=columns
        )
        value = _ran(line, values, (rows, columns))
        if value is not None and value.dtype == values["a"].dtype:
            values[f"t{len(lines)}"] = value
            lines.append(f"    t{len(lines)} = ({line}).expand({rows}, {columns})")
    returned = ", ".join(f"t{n}" for n in range(len(lines)))
    code = "\n".join([f"def function({', '.join(inputs)}):", *lines, f"    return ({returned},)"])
    scope: dict[str, Any] = {"torch": torch, "F": F}
    exec(code, scope)
    return RandomModule(code, scope["function"], tuple(inputs.values()))


def _ran(line: str, values: dict[str, torch.Tensor], shape: Sequence[int]) -> torch.Tensor | None:
    """The value of a line; None where PyTorch does not run it, or gives what has another shape, or no number."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the variance of one element is no number
            value = eval(line, {"torch": torch, "F": F}, dict(values)).expand(*shape)
    except (RuntimeError, IndexError, NotImplementedError, AttributeError):
        return None
    return value if not value.is_floating_point() or bool((value.abs() < 1e3).all()) else None


def _drawn(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    if dtype in FLOATS:
        return torch.randn(shape, generator=generator).to(getattr(torch, dtype))
    low, high = (0, 2) if dtype == "bool" else (-3, 4)
    return torch.randint(low, high, shape, generator=generator).to(getattr(torch, dtype))
