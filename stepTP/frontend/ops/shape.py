"""Views, which cost no nest; pieces put together."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from leir.syntax import Binary, Expr, Select
from stepTP.frontend.emitter import Emitter, axes, conjunction, converted
from stepTP.frontend.indices import Index, delinearised, expression, inside, quotient, remainder, reshaped
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Scalar, Value, broadcast, constant, literal


@emits(
    "clone", "alias", "detach", "lift_fresh_copy", "contiguous", "detach_", "real", "dropout", "feature_dropout",
    "alpha_dropout", "feature_alpha_dropout",
)  # fmt: skip
def same(e: Emitter, x: Value, probability: float = 0.0, train: bool = False) -> Value:
    if train and probability:
        e.refuse("dropout in training draws random numbers")
    return x


@emits("view", "_unsafe_view", "reshape", "flatten.using_ints", "unflatten.int")
def view(e: Emitter, x: Value, *sizes: Any, start_dim: int = 0, end_dim: int = -1) -> Value:
    shape = e.shape()
    return x.view(shape, lambda point: reshaped(point, shape, x.shape))


@emits("permute")
def permute(e: Emitter, x: Value, dims: Sequence[int]) -> Value:
    source = [dim % len(dims) for dim in dims]
    return x.view(e.shape(), lambda point: [point[source.index(axis)] for axis in range(len(source))])


@emits("t", "transpose.int")
def transpose(e: Emitter, x: Value, first: int = 0, second: int = 1) -> Value:
    if len(x.shape) < 2:
        return x
    order = list(range(len(x.shape)))
    order[first], order[second] = order[second], order[first]
    return permute(e, x, order)


@emits("copy")
def copy(e: Emitter, x: Value, source: Value, non_blocking: bool = False) -> Value:
    """The source, in the shape and dtype of x."""
    spread = broadcast(source, x.shape)
    return spread if source.dtype == x.dtype else e.copied(converted(spread, x.dtype), e.result())


@emits("fill.Scalar", "fill.Tensor")
def fill(e: Emitter, x: Value, value: Any) -> Value:
    return copy(e, x, value) if isinstance(value, Value) else constant(value, x.shape, x.dtype)


@emits("expand")
def expand(e: Emitter, x: Value, size: Sequence[int], implicit: bool = False) -> Value:
    return broadcast(x, e.shape())


@emits("unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims")
def insert_or_drop_ones(e: Emitter, x: Value, dims: Any = None) -> Value:
    return view(e, x, e.shape())


@emits("select.int")
def select(e: Emitter, x: Value, dim: int, index: int) -> Value:
    axis = dim % len(x.shape)
    chosen = Index((), index % x.shape[axis])
    return x.view(e.shape(), lambda point: (*point[:axis], chosen, *point[axis:]))


@emits("narrow")
def narrow(e: Emitter, x: Value, dim: int, start: int, length: int) -> Value:
    first = start % x.shape[dim] if start < 0 else start
    return slice_tensor(e, x, dim, first, first + length)


@emits("unbind.int")
def unbind(e: Emitter, x: Value, dim: int = 0) -> list[Value]:
    axis = dim % len(x.shape)
    shape = x.shape[:axis] + x.shape[axis + 1 :]

    def slot(number: int) -> Value:
        return x.view(shape, lambda point: (*point[:axis], Index((), number), *point[axis:]))

    return [slot(number) for number in range(x.shape[axis])]


@emits("split.Tensor", "chunk", "split_with_sizes")
def split(e: Emitter, x: Value, sizes: Any, dim: int = 0) -> list[Value]:
    """Consecutive parts along an axis; their lengths are those of the op's results."""
    axis = dim % len(x.shape)
    pieces: list[Value] = []
    start = 0
    for part in range(len(e.node.meta["val"])):
        pieces.append(_part(x, axis, start, e.shape(part)))
        start += e.shape(part)[axis]
    return pieces


def _part(x: Value, axis: int, start: int, shape: Sequence[int]) -> Value:
    return x.view(shape, lambda p: [index + start if n == axis else index for n, index in enumerate(p)])


@emits("movedim.int", "movedim.intlist")
def move_axes(e: Emitter, x: Value, source: Any, destination: Any) -> Value:
    rank = len(x.shape)
    sources, places = ([n % rank for n in ([a] if isinstance(a, int) else a)] for a in (source, destination))
    order = {place: axis for axis, place in zip(sources, places, strict=True)}
    rest = iter(axis for axis in range(rank) if axis not in sources)
    return permute(e, x, [order[place] if place in order else next(rest) for place in range(rank)])


@emits("slice.Tensor")
def slice_tensor(
    e: Emitter, x: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    axis = dim % len(x.shape)
    first, _, _ = slice(start, end, step).indices(x.shape[axis])
    return x.view(e.shape(), lambda p: [i * step + first if n == axis else i for n, i in enumerate(p)])


@emits("flip")
def flip(e: Emitter, x: Value, dims: Sequence[int]) -> Value:
    turned = {dim % len(x.shape) for dim in dims}
    return x.view(x.shape, lambda p: [Index((), x.shape[n] - 1) - i if n in turned else i for n, i in enumerate(p)])


@emits("roll")
def roll(e: Emitter, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    if not dims:
        flat = (prod(x.shape),)
        return roll(e, x.view(flat, lambda p: reshaped(p, flat, x.shape)), shifts, [0]).view(
            x.shape, lambda p: reshaped(p, x.shape, flat)
        )
    moved = {dim % len(x.shape): shift for dim, shift in zip(dims, shifts, strict=True)}
    return x.view(
        x.shape, lambda p: [remainder(i - moved[n], x.shape[n]) if n in moved else i for n, i in enumerate(p)]
    )


@emits("repeat")
def repeat(e: Emitter, x: Value, repeats: Sequence[int]) -> Value:
    shape = e.shape()
    missing = len(shape) - len(x.shape)
    return x.view(shape, lambda p: [remainder(i, size) for i, size in zip(p[missing:], x.shape, strict=True)])


@emits("repeat_interleave.self_int")
def repeat_interleave(e: Emitter, x: Value, repeats: int, dim: int | None = None, output_size: Any = None) -> Value:
    if dim is None:
        flat = x.view((prod(x.shape),), lambda p: reshaped(p, (prod(x.shape),), x.shape))
        return flat.view(e.shape(), lambda p: [quotient(p[0], repeats)])
    axis = dim % len(x.shape)
    return x.view(e.shape(), lambda p: [quotient(i, repeats) if n == axis else i for n, i in enumerate(p)])


@emits("unfold")
def unfold(e: Emitter, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along an axis; the position in the window is the last axis."""
    if not x.shape:
        return view(e, x)
    axis = dim % len(x.shape)
    return x.view(e.shape(), lambda p: [i * step + p[-1] if n == axis else i for n, i in enumerate(p[:-1])])


@emits("as_strided")
def as_strided(
    e: Emitter, x: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Positions count in the memory behind x, which must be x and no more, row by row."""
    first = strided_start(e, storage_offset)
    return x.view(e.shape(), lambda point: at_memory(x, point, stride, first))


def strided_start(e: Emitter, storage_offset: int | None) -> int:
    """The first position of an `as_strided` of a tensor that is contiguous and fills its memory; others are refused."""
    source = e.node.args[0]
    assert isinstance(source, torch.fx.Node)
    tensor = source.meta["val"]
    fills = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    if not (tensor.is_contiguous() and fills):
        e.refuse("strides over the memory behind a view")
    return storage_offset or 0


def at_memory(x: Value, point: Point, stride: Sequence[int], first: int) -> tuple[Index, ...]:
    position = Index((), first)
    for index, step in zip(point, stride, strict=True):
        position = position + index * step
    return delinearised(position, x.shape)


@emits("diagonal")
def diagonal(e: Emitter, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    return x.view(e.shape(), lambda point: on_diagonal(point, len(x.shape), offset, dim1, dim2))


def on_diagonal(point: Point, rank: int, offset: int, dim1: int, dim2: int) -> Point:
    """The element that a point of a diagonal is; the place along it is the point's last axis."""
    rest, along = iter(point[:-1]), point[-1]
    placed = {dim1 % rank: along + max(-offset, 0), dim2 % rank: along + max(offset, 0)}
    return tuple(placed[n] if n in placed else next(rest) for n in range(rank))


@emits("cat")
def concatenate(e: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    """One nest for each piece, which writes its part of the result."""
    result = e.result()
    axis = dim % len(result.shape)
    start = 0
    for piece in tensors:
        if prod(piece.shape) == 0:  # ATen lets an empty tensor of rank 1 join any others
            continue
        (point,) = axes(piece.shape)
        target = [index + start if n == axis else index for n, index in enumerate(point)]
        e.assign(result.at(target), "=", converted(piece, result.dtype).element(point), point)
        start += piece.shape[axis]
    return result.value


@emits("stack")
def stack(e: Emitter, tensors: Sequence[Value], dim: int = 0) -> Value:
    axis = dim % (len(tensors[0].shape) + 1)
    pieces = [x.view((*x.shape[:axis], 1, *x.shape[axis:]), lambda p: (*p[:axis], *p[axis + 1 :])) for x in tensors]
    return concatenate(e, pieces, axis)


@emits("native_dropout")
def dropout_with_mask(e: Emitter, x: Value, probability: float, train: bool | None) -> tuple[Value, Value]:
    return same(e, x, probability, bool(train)), constant(True, x.shape, "bool")


@emits("constant_pad_nd")
def pad(e: Emitter, x: Value, padding: Sequence[int], value: Scalar = 0) -> Value:
    """`padding` lists (before, after) from the last axis on; negative numbers cut off."""
    before = [0] * len(x.shape)
    for pair in range(len(padding) // 2):
        before[-1 - pair] = padding[2 * pair]
    filling = literal(value, e.dtype())

    def element(point: Point) -> Expr:
        source = tuple(index - start for index, start in zip(point, before, strict=True))
        bounds = [
            condition for index, size in zip(source, x.shape, strict=True) for condition in inside(index, 0, size)
        ]
        condition = conjunction(bounds)
        return x.element(source) if condition is None else Select(condition, x.element(source), filling)

    return e.fill(e.result(), element)


@emits("tril", "triu")
def triangle(e: Emitter, x: Value, diagonal: int = 0) -> Value:
    lower = e.op == "aten.tril.default"
    zero = literal(0, x.dtype)

    def element(point: Point) -> Expr:
        limit, column = point[-2] + diagonal, point[-1]
        above = column - limit
        if above.high <= 0 if lower else above.low >= 0:
            return x.element(point)
        small, large = (column, limit) if lower else (limit, column)
        return Select(Binary("<=", expression(small), expression(large)), x.element(point), zero)

    return e.fill(e.result(), element)
