"""Convolutions and pools: a window slides over the padded input, and a guard keeps its reads inside the real one.

Where some window lies wholly in the padding, no guarded write would reach its element: there the guard becomes an
`if_then_else` that yields the operator's identity.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

from leir.syntax import AssignOp, Binary, Call, DType, Expr, Integer, Real, Select, Unary
from stepTP.frontend.emitter import Emitter, axes, conjunction, converted
from stepTP.frontend.indices import Index, Leaf, expression, inside, linear, quotient, remainder
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
    conditions: list[Expr] = []
    sources: list[Index] = []
    for axis, at, k in zip(spatial, point[-rank:], within, strict=True):
        start = at + axis.padding - k * axis.dilation
        source = quotient(start, axis.stride)
        conditions += inside(start, 0, (axis.size - 1) * axis.stride + 1)
        if (rest := remainder(start, axis.stride)) != Index():
            conditions.append(Binary("==", expression(rest), Integer(0)))
        sources.append(source)
    source = quotient(out, size) * share + channel
    term: Expr = Binary(
        "*", x.element((*leading, source, *sources)), weight.element((source, remainder(out, size), *within))
    )
    condition = conjunction(conditions)
    term = term if condition is None else Select(condition, term, literal(0, dtype))
    e.assign(into.at(point), "+=", term, point, (channel, *within))
    return _with_bias(e, into, bias, rank)


@emits("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d_with_indices")
def max_pool(
    e: Emitter,
    x: Value,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Value, Value | None]:
    """The maximum of each window, and where it is read the least position that holds it."""
    into = e.result(0)
    spatial = window_axes(x.shape[-len(window) :], window, stride, padding, dilation)
    point, within = axes(into.shape, [axis.window for axis in spatial])
    sources = [axis.read_at(o, k) for axis, o, k in zip(spatial, point[-len(spatial) :], within, strict=True)]
    element = x.element((*point[: -len(spatial)], *sources))
    lowest = Unary("-", Real(float("inf")))
    slide(e, into, "max=", spatial, (point, within), element, sources, lowest)
    if not e.uses(1):
        return into.value, None
    positions = e.result(1)
    sizes = [axis.size for axis in spatial]
    last = Integer(prod(sizes) - 1)
    best = Select(Binary("==", element, into.at(point)), expression(linear(sources, sizes)), last)
    slide(e, positions, "min=", spatial, (point, within), best, sources, last)
    return into.value, positions.value


@emits("max_pool1d", "max_pool2d", "max_pool3d")
def composite_max_pool(e: Emitter, x: Value, *arguments: Any, **options: Any) -> Value:
    return max_pool(e, x, *arguments, **options)[0]


@emits("avg_pool1d", "avg_pool2d", "avg_pool3d")
def average_pool(
    e: Emitter,
    x: Value,
    window: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    dtype = e.accumulator()
    total = e.temporary(e.shape(), dtype)
    spatial = window_axes(x.shape[-len(window) :], window, stride, padding, (1,))
    rank = len(spatial)
    point, within = axes(total.shape, [axis.window for axis in spatial])
    sources = [axis.read_at(o, k) for axis, o, k in zip(spatial, point[-rank:], within, strict=True)]
    element = converted(x, dtype).element((*point[:-rank], *sources))
    slide(e, total, "+=", spatial, (point, within), element, sources, literal(0, dtype))

    def mean(at: Point) -> Expr:
        return Binary("/", total.at(at), _divisor(spatial, at[-rank:], dtype, count_include_pad, divisor_override))

    return e.fill(e.result(), mean)


@emits("_adaptive_avg_pool2d", "adaptive_avg_pool2d")
def adaptive_average_pool(e: Emitter, x: Value, output_size: Sequence[int]) -> Value:
    """Output o takes in floor(o * size / outputs) up to ceil((o + 1) * size / outputs), which may differ in length."""
    dtype = e.accumulator()
    total = e.temporary(e.shape(), dtype)
    sizes, outputs = x.shape[-2:], total.shape[-2:]

    def bounds(point: Point) -> list[tuple[Index, Index]]:
        return [
            (quotient(at * size, n), quotient(at * size + (size + n - 1), n))
            for at, size, n in zip(point[-2:], sizes, outputs, strict=True)
        ]

    longest = [
        max(-(-(o + 1) * size // n) - o * size // n for o in range(n)) for size, n in zip(sizes, outputs, strict=True)
    ]
    point, within = axes(total.shape, longest)
    spans = bounds(point)
    sources = [start + k for (start, _), k in zip(spans, within, strict=True)]
    condition = conjunction(
        Binary("<", expression(at), expression(end))
        for at, (_, end), size, n in zip(sources, spans, sizes, outputs, strict=True)
        if size % n
    )
    element = converted(x, dtype).element((*point[:-2], *sources))
    e.assign(total.at(point), "+=", element, point, within, guard=condition)

    def mean(at: Point) -> Expr:
        return Binary("/", total.at(at), _product([end - start for start, end in bounds(at)], dtype))

    return e.fill(e.result(), mean)


def _divisor(spatial: Sequence[Axis], point: Point, dtype: DType, with_padding: bool, override: int | None) -> Expr:
    """How many elements an average is over: the window's part inside the input, or inside input and padding."""
    if override is not None:
        return literal(override, dtype)
    lengths: list[Index] = []
    for axis, out in zip(spatial, point, strict=True):
        start = out * axis.stride - axis.padding
        low, high = (-axis.padding, axis.size + axis.padding) if with_padding else (0, axis.size)
        lengths.append(_least(start + axis.window, high) - _greatest(start, low))
    empty = not with_padding and any(length.low < 1 for length in lengths)
    count = _product(lengths, dtype)
    return Call("max", (count, Integer(1))) if empty else count


def _least(index: Index, bound: int) -> Index:
    """min(index, bound), bare where one of them always is."""
    if index.high <= bound:
        return index
    return Index(((Leaf(Call("min", (expression(index), Integer(bound))), min(index.low, bound), bound), 1),))


def _greatest(index: Index, bound: int) -> Index:
    """max(index, bound), bare where one of them always is."""
    if index.low >= bound:
        return index
    least = expression(Index((), bound))
    return Index(((Leaf(Call("max", (expression(index), least)), bound, max(index.high, bound)), 1),))


def _product(lengths: Sequence[Index], dtype: DType) -> Expr:
    """The product of the lengths, constants first; a literal of `dtype` where all are constant."""
    constant = prod(length.constant for length in lengths if not length.terms)
    varying = [expression(length) for length in lengths if length.terms]
    if not varying:
        return literal(constant, dtype)
    factors = ([Integer(constant)] if constant != 1 else []) + varying
    return reduce(lambda left, right: Binary("*", left, right), factors)
