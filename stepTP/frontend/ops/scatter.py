"""Tensors with some elements written over or added to: a copy, then one nest over what is written.

Where positions repeat, the last one in row-major order stays, or all are accumulated, one after the other.
"""

from collections.abc import Callable, Sequence

import torch

from leir.syntax import AssignOp, Binary, Expr, Real, Unary
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.indices import Index
from stepTP.frontend.ops.gather import indexed, position
from stepTP.frontend.ops.logic import where as choose
from stepTP.frontend.ops.pointwise import pointwise
from stepTP.frontend.ops.shape import at_memory, on_diagonal, strided_start
from stepTP.frontend.table import emits
from stepTP.frontend.values import FLOATS, Point, Scalar, Value, broadcast, constant, literal

REDUCTIONS: dict[str, AssignOp] = {
    "sum": "+=", "add": "+=", "prod": "*=", "multiply": "*=", "amax": "max=", "amin": "min=",
}  # fmt: skip


def _written(
    e: Emitter, x: Value, source: Value, where: Callable[[Point], Sequence[Index]], op: AssignOp = "=",
    include_self: bool = True,
) -> Value:  # fmt: skip
    """Emits a copy of x, then one nest that writes the source's element at each point to `where(point)`."""
    result = e.result()
    if op != "=" and result.dtype == "bool":
        e.refuse("booleans are not accumulated into")
    e.copied(x, result)
    (point,) = axes(source.shape)
    target = result.at(tuple(where(point)))
    if not include_self:
        e.assign(target, "=", _identity(e, op), point)
    e.assign(target, op, converted(source, result.dtype).element(point), point)
    return result.value


def _identity(e: Emitter, op: AssignOp) -> Expr:
    if op in ("max=", "min="):
        if e.meta().is_floating_point():
            return Unary("-", Real(float("inf"))) if op == "max=" else Real(float("inf"))
        e.refuse("an extreme of integers that leaves out the tensor itself")
    return literal(0 if op == "+=" else 1, e.dtype())


@emits("index_put", "_unsafe_index_put", "index_put_")
def index_put(e: Emitter, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool = False) -> Value:
    masks = [axis for axis, index in enumerate(indices) if index is not None and index.dtype == "bool"]
    if masks:
        return _masked_put(e, x, indices, masks[0], values, accumulate)
    where = indexed(e, x.shape, indices)
    given = [index.shape for index in indices if index is not None]
    common = torch.broadcast_shapes(*given)
    axes_given = [axis for axis, index in enumerate(indices) if index is not None]
    together = axes_given == list(range(axes_given[0], axes_given[-1] + 1))
    start = axes_given[0] if together else 0
    rest = [size for axis, size in enumerate(x.shape) if axis not in axes_given]
    shape = (*rest[:start], *common, *rest[start:])
    return _written(e, x, broadcast(values, shape), where, "+=" if accumulate else "=")


def _masked_put(
    e: Emitter, x: Value, indices: Sequence[Value | None], axis: int, values: Value, accumulate: bool
) -> Value:
    """One value for all elements that a mask selects is a choice by the mask."""
    mask = indices[axis]
    assert mask is not None
    if any(index is not None for index in (*indices[:axis], *indices[axis + 1 :])) or any(n > 1 for n in values.shape):
        e.refuse("which of its values go where depends on data")
    if accumulate:
        e.refuse("a mask that accumulates")
    shape = (*mask.shape, *[1] * (len(x.shape) - axis - len(mask.shape)))
    one = values.view((), lambda _: [Index()] * len(values.shape))
    return choose(e, mask.view(shape, lambda point: point[: len(mask.shape)]), one, x)


@emits("scatter.src", "scatter.value", "scatter_add")
def scatter(e: Emitter, x: Value, dim: int, positions: Value, source: Value | Scalar) -> Value:
    return _scattered(e, x, dim, positions, source, "+=" if "add" in e.op else "=")


@emits("scatter.reduce", "scatter.value_reduce", "scatter_reduce.two")
def scatter_reduce(
    e: Emitter, x: Value, dim: int, positions: Value, source: Value | Scalar, reduce: str, include_self: bool = True
) -> Value:
    if reduce == "mean":
        return _scattered_mean(e, x, dim, positions, source, include_self)
    return _scattered(e, x, dim, positions, source, REDUCTIONS[reduce], include_self)


def _scattered(
    e: Emitter, x: Value, dim: int, positions: Value, source: Value | Scalar, op: AssignOp, include_self: bool = True
) -> Value:
    """The source may be larger than the positions are: its first elements count."""
    if not isinstance(source, Value):
        source = constant(source, positions.shape, x.dtype)
    part = source.view(positions.shape, lambda point: point)
    return _written(e, x, part, lambda point: _at(e, x, dim, positions, point, point), op, include_self)


def _scattered_mean(
    e: Emitter, x: Value, dim: int, positions: Value, source: Value | Scalar, include_self: bool
) -> Value:
    """The sum over how many went into it; an element that nothing goes into stays."""
    if x.dtype not in FLOATS:
        e.refuse("a mean of integers that is scattered")
    dtype = e.accumulator()
    given = source if isinstance(source, Value) else constant(source, positions.shape, x.dtype)
    ones = constant(1, positions.shape, dtype)
    (point,) = axes(positions.shape)
    total, number = (e.temporary(x.shape, dtype) for _ in range(2))
    for into, start, term in ((total, converted(x, dtype), given), (number, constant(1, x.shape, dtype), ones)):
        e.copied(start, into)
        target = into.at(_at(e, x, dim, positions, point, point))
        if not include_self:
            e.assign(target, "=", literal(0, dtype), point)
        e.assign(target, "+=", converted(term, dtype).element(point), point)
    return pointwise(e, "x/y", total.value, number.value, dtype=dtype)


@emits("index_add", "index_copy")
def index_add_or_copy(e: Emitter, x: Value, dim: int, positions: Value, source: Value, *, alpha: Scalar = 1) -> Value:
    if alpha != 1:
        factor, unscaled = literal(alpha, x.dtype), source
        source = Value(source.shape, x.dtype, lambda point: Binary("*", unscaled.element(point), factor))
    op = "+=" if "add" in e.op else "="
    return _written(e, x, source, lambda point: _at(e, x, dim, positions, _along(x, dim, point), point), op)


@emits("index_fill.int_Scalar", "index_fill.int_Tensor")
def index_fill(e: Emitter, x: Value, dim: int, positions: Value, value: Value | Scalar) -> Value:
    axis = dim % len(x.shape)
    shape = (*x.shape[:axis], *positions.shape, *x.shape[axis + 1 :])
    source = broadcast(value, shape) if isinstance(value, Value) else constant(value, shape, x.dtype)
    return _written(e, x, source, lambda point: _at(e, x, dim, positions, _along(x, dim, point), point))


def _along(x: Value, dim: int, point: Point) -> Point:
    return point[dim % len(x.shape) : dim % len(x.shape) + 1]


def _at(e: Emitter, x: Value, dim: int, positions: Value, place: Point, point: Point) -> Point:
    """The point with its axis `dim` replaced by the position that stands at `place`."""
    if not x.shape:
        return ()
    axis = dim % len(x.shape)
    return (*point[:axis], position(e, positions, place, x.shape[axis]), *point[axis + 1 :])


@emits("diagonal_scatter")
def diagonal_scatter(e: Emitter, x: Value, source: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    return _written(e, x, source, lambda point: on_diagonal(point, len(x.shape), offset, dim1, dim2))


@emits("as_strided_scatter")
def as_strided_scatter(
    e: Emitter, x: Value, source: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    first = strided_start(e, storage_offset)
    return _written(e, x, source, lambda point: at_memory(x, point, stride, first))


@emits("select_scatter")
def select_scatter(e: Emitter, x: Value, source: Value, dim: int, index: int) -> Value:
    axis = dim % len(x.shape)
    chosen = Index((), index % x.shape[axis])
    return _written(e, x, source, lambda point: (*point[:axis], chosen, *point[axis:]))


@emits("slice_scatter")
def slice_scatter(
    e: Emitter, x: Value, source: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    axis = dim % len(x.shape)
    first, _, _ = slice(start, end, step).indices(x.shape[axis])
    return _written(e, x, source, lambda point: [i * step + first if n == axis else i for n, i in enumerate(point)])
