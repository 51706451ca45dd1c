"""Resampling: nearest and linear, one axis after the other, each one nest.

Positions are quotients of integers, as exact as the ratio of the sizes or the given factor; where rounding of PyTorch's
own positions in f32 makes another choice of nearest elements, the op is refused.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import torch

from leir.syntax import Binary, Call, Expr, Integer
from stepTP.frontend.emitter import Emitter, converted
from stepTP.frontend.indices import Index, Leaf, expression, quotient, remainder
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, literal

LARGEST_DENOMINATOR = 1000


def _ratio(size: int, output: int, factor: float | None) -> Fraction:
    """How many input elements one output element steps over."""
    return Fraction(1 / factor).limit_denominator(LARGEST_DENOMINATOR) if factor else Fraction(size, output)


def _factors(rank: int, arguments: Sequence[Any]) -> list[float | None]:
    """The scale factors of an overload: a list of them, or one argument an axis; None where a size decides."""
    given = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else arguments
    return [*given, *[None] * (rank - len(given))] if given and given[0] is not None else [None] * rank


@emits(
    "upsample_nearest1d.vec", "upsample_nearest2d.vec", "upsample_nearest3d.vec", "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec",
)  # fmt: skip
def nearest(e: Emitter, x: Value, output_size: Sequence[int] | None, *factors: Any) -> Value:
    """Each output element is one of the input: a view, copied once."""
    shape = e.shape()
    rank = len(shape) - 2
    exact = "exact" in e.op
    scales = _factors(rank, factors)

    def source(axis: int, at: Index) -> Index:
        size, output = x.shape[2 + axis], shape[2 + axis]
        step = _ratio(size, output, scales[axis])
        twice, half = (2, step.numerator) if exact else (1, 0)
        position = quotient(at * (step.numerator * twice) + half, step.denominator * twice)
        wanted = _positions(e, size, output, scales[axis], exact)
        if [
            min((o * step.numerator * twice + half) // (step.denominator * twice), size - 1) for o in range(output)
        ] != wanted:
            e.refuse("nearest elements that depend on the rounding of positions")
        if position.high < size:
            return position
        return Index(((Leaf(Call("min", (expression(position), Integer(size - 1))), 0, size - 1), 1),))

    return e.fill(
        e.result(), lambda point: x.element((*point[:2], *(source(axis, at) for axis, at in enumerate(point[2:]))))
    )


def _positions(e: Emitter, size: int, output: int, factor: float | None, exact: bool) -> list[int]:
    """The elements that PyTorch takes along one axis."""
    op = torch.ops.aten._upsample_nearest_exact1d if exact else torch.ops.aten.upsample_nearest1d
    places = torch.arange(size, dtype=torch.float64).reshape(1, 1, size)
    return [int(place) for place in op(places, [output], factor).flatten().tolist()]


@emits("upsample_linear1d.vec", "upsample_bilinear2d.vec", "upsample_trilinear3d.vec")
def linear(e: Emitter, x: Value, output_size: Sequence[int] | None, align_corners: bool, *factors: Any) -> Value:
    """Along each axis, the mean of two neighbours, weighted by how near they are."""
    shape = e.shape()
    dtype = e.accumulator()
    scales = _factors(len(shape) - 2, factors)
    x = converted(x, dtype)
    todo = [a for a in range(2, len(shape)) if x.shape[a] != shape[a] or (scales[a - 2] not in (None, 1.0))]
    for axis in reversed(todo):
        into = (*x.shape[:axis], shape[axis], *x.shape[axis + 1 :])
        target = e.result() if axis == todo[0] else e.temporary(into, dtype)
        x = _along(e, x, axis, shape[axis], scales[axis - 2], align_corners, target)
    return x if todo else e.copied(x, e.result())


def _along(
    e: Emitter, x: Value, axis: int, output: int, factor: float | None, align_corners: bool, target: Any
) -> Value:
    size = x.shape[axis]
    if align_corners:
        step = Fraction(size - 1, output - 1) if output > 1 else Fraction(0)
        times, start, whole = step.numerator, 0, step.denominator
    else:
        step = _ratio(size, output, factor)
        times, start, whole = 2 * step.numerator, step.numerator - step.denominator, 2 * step.denominator

    def element(point: Point) -> Expr:
        place = point[axis] * times + start
        if place.low < 0:
            place = Index(((Leaf(Call("max", (expression(place), Integer(0))), 0, place.high), 1),))
        low, rest = _at_most(quotient(place, whole), size - 1), remainder(place, whole)
        if rest == Index():
            return x.element((*point[:axis], low, *point[axis + 1 :]))
        high = _at_most(low + 1, size - 1)
        one, other = (x.element((*point[:axis], at, *point[axis + 1 :])) for at in (low, high))
        near = Binary("*", one, expression(rest * -1 + whole))
        far = Binary("*", other, expression(rest))
        return Binary("/", Binary("+", near, far), literal(whole, x.dtype))

    return e.fill(target, element)


def _at_most(index: Index, bound: int) -> Index:
    if index.high <= bound:
        return index
    return Index(((Leaf(Call("min", (expression(index), Integer(bound))), min(index.low, bound), bound), 1),))
