"""Convolutions and windows as columns: a window slides over the padded input; a guard keeps its reads inside that.

Where some window lies wholly in the padding, no guarded write would reach its element: there the guard becomes an
`if_then_else` that yields the operator's identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from leir.syntax import AssignOp, Binary, Expr, Integer, Select
from stepTP.frontend.emitter import Emitter, axes, conjunction, converted
from stepTP.frontend.indices import Index, expression, inside, linear, quotient, remainder
from stepTP.frontend.ops.pointwise import pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Value, literal


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis: position `o` of the output and `k` of the window read the input at o*stride + k*dilation -
    padding."""

    size: int
    window: int
    stride: int
    padding: int
    dilation: int

    def read_at(self, out: Index, within: Index) -> Index:
        return out * self.stride + within * self.dilation - self.padding

    def misses(self, outputs: int) -> bool:
        """Whether some window has no element inside the input."""
        return any(
            all(not 0 <= o * self.stride + k * self.dilation - self.padding < self.size for k in range(self.window))
            for o in range(outputs)
        )


def window_axes(
    sizes: Sequence[int], window: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[Axis]:
    """One `Axis` for each spatial axis; a list of one number holds for all."""
    count = len(sizes)
    rows = [list(row) * count if len(row) == 1 else list(row) for row in (window, stride or window, padding, dilation)]
    return [Axis(*numbers) for numbers in zip(sizes, *rows, strict=True)]


def slide(
    e: Emitter, into: Buffer, op: AssignOp, spatial: Sequence[Axis], points: tuple[Point, ...], term: Expr,
    sources: Sequence[Index], identity: Expr,
) -> None:  # fmt: skip
    """Emits `into op= term` over the points, where every source index lies inside its axis."""
    condition = conjunction(c for axis, at in zip(spatial, sources, strict=True) for c in inside(at, 0, axis.size))
    outputs = into.shape[len(into.shape) - len(spatial) :]
    if condition is not None and any(axis.misses(n) for axis, n in zip(spatial, outputs, strict=True)):
        term, condition = Select(condition, term, identity), None
    e.assign(into.at(points[0]), op, term, *points, guard=condition)


@emits("conv1d", "conv2d", "conv3d", "conv1d.padding", "conv2d.padding", "conv3d.padding")
def composite_convolution(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] | str = (0,),
    dilation: Sequence[int] = (1,),
    groups: int = 1,
) -> Value:
    """`same` pads dilation * (window - 1) in all, the odd one behind; the output's size says how far that reaches."""
    if isinstance(padding, str):
        steps = list(dilation) * len(weight.shape[2:]) if len(dilation) == 1 else dilation
        before = [step * (window - 1) // 2 for step, window in zip(steps, weight.shape[2:], strict=True)]
        padding = before if padding == "same" else (0,)
    return convolution(e, x, weight, bias, stride, padding, dilation, False, (0,), groups)


@emits("convolution")
def convolution(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    """x (n, c, *sizes), weight (o, c / groups, *window), bias (o,); any number of spatial axes."""
    rank = len(weight.shape) - 2
    if transposed:
        return _transposed_convolution(e, x, weight, bias, stride, padding, dilation, groups)
    batched = len(x.shape) == rank + 2
    dtype = e.accumulator()
    into = e.result(dtype=dtype) if bias is None else e.temporary(e.shape(), dtype)
    x, weight = converted(x, dtype), converted(weight, dtype)
    spatial = window_axes(x.shape[-rank:], weight.shape[2:], stride, padding, dilation)
    point, (channel, *within) = axes(into.shape, weight.shape[1:])
    leading, out = (point[:1] if batched else ()), point[-rank - 1]
    sources = [axis.read_at(o, k) for axis, o, k in zip(spatial, point[-rank:], within, strict=True)]
    source = quotient(out, weight.shape[0] // groups) * weight.shape[1] + channel
    term = Binary("*", x.element((*leading, source, *sources)), weight.element((out, channel, *within)))
    slide(e, into, "+=", spatial, (point, (channel, *within)), term, sources, literal(0, dtype))
    return _with_bias(e, into, bias, rank)


def _with_bias(e: Emitter, into: Buffer, bias: Value | None, rank: int) -> Value:
    """The result of a convolution from its accumulator, after emitting what adds the bias by channel."""
    if bias is None:
        return e.settled(into)
    by_channel = bias.view((bias.shape[0], *[1] * rank), lambda p: p[:1])
    return pointwise(e, "x+y", into.value, by_channel, dtype=into.dtype)


def _reached_from(
    spatial: Sequence[Axis], point: Sequence[Index], within: Sequence[Index]
) -> tuple[list[Expr], list[Index]]:
    """Which window reaches a position by its place `within`: (position + padding - k * dilation) / stride, under the
    conditions that this is an integer and that there is such a window."""
    conditions: list[Expr] = []
    sources: list[Index] = []
    for axis, at, k in zip(spatial, point, within, strict=True):
        start = at + axis.padding - k * axis.dilation
        conditions += inside(start, 0, (axis.size - 1) * axis.stride + 1)
        if (rest := remainder(start, axis.stride)) != Index():
            conditions.append(Binary("==", expression(rest), Integer(0)))
        sources.append(quotient(start, axis.stride))
    return conditions, sources


def _transposed_convolution(
    e: Emitter, x: Value, weight: Value, bias: Value | None, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """weight (c, o / groups, *window): output `o` gathers input (o + padding - k * dilation) / stride where that is an
    integer inside the input. No input may reach some elements, so the condition is an `if_then_else`."""
    rank = len(weight.shape) - 2
    dtype = e.accumulator()
    into = e.result(dtype=dtype) if bias is None else e.temporary(e.shape(), dtype)
    x, weight = converted(x, dtype), converted(weight, dtype)
    share, size = weight.shape[0] // groups, weight.shape[1]
    point, (channel, *within) = axes(into.shape, (share, *weight.shape[2:]))
    leading, out = point[: -rank - 1], point[-rank - 1]
    spatial = window_axes(x.shape[-rank:], weight.shape[2:], stride, padding, dilation)
    conditions, sources = _reached_from(spatial, point[-rank:], within)
    source = quotient(out, size) * share + channel
    term: Expr = Binary(
        "*", x.element((*leading, source, *sources)), weight.element((source, remainder(out, size), *within))
    )
    condition = conjunction(conditions)
    term = term if condition is None else Select(condition, term, literal(0, dtype))
    e.assign(into.at(point), "+=", term, point, (channel, *within))
    return _with_bias(e, into, bias, rank)


@emits("conv_transpose1d", "conv_transpose2d.input", "conv_transpose3d.input")
def composite_transposed_convolution(
    e: Emitter,
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    dilation: Sequence[int] = (1,),
) -> Value:
    return convolution(e, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@emits("im2col")
def windows_as_columns(
    e: Emitter,
    x: Value,
    window: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """(n, c, *sizes) to (n, c * window, positions); what is read outside the input is 0."""
    rank = len(window)
    spatial = window_axes(x.shape[-rank:], window, stride, padding, dilation)
    outputs = [(a.size + 2 * a.padding - a.dilation * (a.window - 1) - 1) // a.stride + 1 for a in spatial]
    leading, within, out = axes(x.shape[:-rank], window, outputs)
    sources = [axis.read_at(o, k) for axis, o, k in zip(spatial, out, within, strict=True)]
    condition = conjunction(c for axis, at in zip(spatial, sources, strict=True) for c in inside(at, 0, axis.size))
    element = x.element((*leading, *sources))
    into = e.result()
    row = linear((leading[-1], *within), (x.shape[-rank - 1], *window))
    target = into.at((*leading[:-1], row, linear(out, outputs)))
    value = element if condition is None else Select(condition, element, literal(0, x.dtype))
    e.assign(target, "=", value, leading, within, out)
    return into.value


@emits("col2im")
def columns_as_windows(
    e: Emitter,
    x: Value,
    sizes: Sequence[int],
    window: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """(n, c * window, positions) to (n, c, *sizes): each element is the sum over the windows that it lies in."""
    dtype = e.accumulator()
    rank = len(window)
    padded = window_axes(sizes, window, stride, padding, dilation)
    outputs = [(a.size + 2 * a.padding - a.dilation * (a.window - 1) - 1) // a.stride + 1 for a in padded]
    spatial = window_axes(outputs, window, stride, padding, dilation)
    into = e.result(dtype=dtype)
    point, within = axes(into.shape, window)
    conditions, sources = _reached_from(spatial, point[-rank:], within)
    row = linear((point[-rank - 1], *within), (into.shape[-rank - 1], *window))
    term = converted(x, dtype).element((*point[: -rank - 1], row, linear(sources, outputs)))
    condition = conjunction(conditions)
    term = term if condition is None else Select(condition, term, literal(0, dtype))
    e.assign(into.at(point), "+=", term, point, within)
    return e.settled(into)
