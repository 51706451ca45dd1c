"""Pools: the windows of `windows`, reduced by a maximum or a mean; adaptive ones have windows of differing lengths."""

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

from leir.syntax import Binary, Call, DType, Expr, Integer, Real, Select, Unary
from stepTP.frontend.emitter import Emitter, axes, conjunction, converted
from stepTP.frontend.indices import Index, Leaf, expression, linear, quotient
from stepTP.frontend.ops.windows import Axis, slide, window_axes
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, literal


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


@emits(
    "_adaptive_avg_pool2d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool3d"
)
def adaptive_average_pool(e: Emitter, x: Value, output_size: Sequence[int]) -> Value:
    dtype = e.accumulator()
    total = e.temporary(e.shape(), dtype)
    rank = len(output_size)
    point, within, sources, condition = _adaptive_windows(x.shape[-rank:], total.shape, rank)
    element = converted(x, dtype).element((*point[:-rank], *sources))
    e.assign(total.at(point), "+=", element, point, within, guard=condition)

    def mean(at: Point) -> Expr:
        spans = _spans(at[-rank:], x.shape[-rank:], total.shape[-rank:])
        return Binary("/", total.at(at), _product([end - start for start, end in spans], dtype))

    return e.fill(e.result(), mean)


@emits("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(e: Emitter, x: Value, output_size: Sequence[int]) -> tuple[Value, Value | None]:
    """The maximum of each window, and where it is read the least position that holds it."""
    into = e.result(0)
    rank = len(output_size)
    sizes = x.shape[-rank:]
    point, within, sources, condition = _adaptive_windows(sizes, into.shape, rank)
    element = x.element((*point[:-rank], *sources))
    e.assign(into.at(point), "max=", element, point, within, guard=condition)
    if not e.uses(1):
        return into.value, None
    positions = e.result(1)
    best = Select(Binary("==", element, into.at(point)), expression(linear(sources, sizes)), Integer(prod(sizes) - 1))
    e.assign(positions.at(point), "min=", best, point, within, guard=condition)
    return into.value, positions.value


def _spans(point: Point, sizes: Sequence[int], outputs: Sequence[int]) -> list[tuple[Index, Index]]:
    """Output o takes in floor(o * size / outputs) up to ceil((o + 1) * size / outputs), which may differ in length."""
    return [
        (quotient(at * size, n), quotient(at * size + (size + n - 1), n))
        for at, size, n in zip(point, sizes, outputs, strict=True)
    ]


def _adaptive_windows(
    sizes: Sequence[int], shape: Sequence[int], rank: int
) -> tuple[Point, Point, list[Index], Expr | None]:
    """The output's point, the point in the longest window, the subscripts read there, and what keeps them inside."""
    outputs = shape[-rank:]
    longest = [
        max(-(-(o + 1) * size // n) - o * size // n for o in range(n)) for size, n in zip(sizes, outputs, strict=True)
    ]
    point, within = axes(shape, longest)
    spans = _spans(point[-rank:], sizes, outputs)
    sources = [start + k for (start, _), k in zip(spans, within, strict=True)]
    condition = conjunction(
        Binary("<", expression(at), expression(end))
        for at, (_, end), size, n in zip(sources, spans, sizes, outputs, strict=True)
        if size % n
    )
    return point, within, sources, condition


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
