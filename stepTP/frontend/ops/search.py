"""Positions by comparison: places in sorted boundaries are counts, and the top one is an extreme."""

from typing import Any

from leir.syntax import Binary, Cast
from stepTP.frontend.emitter import Emitter, axes
from stepTP.frontend.ops.reduce import extreme_and_position
from stepTP.frontend.table import emits
from stepTP.frontend.values import Value


@emits("bucketize.Tensor")
def bucketize(e: Emitter, x: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False) -> Value:
    return _count(e, x, boundaries, right)


@emits("searchsorted.Tensor")
def search_sorted(
    e: Emitter, boundaries: Value, x: Value, *, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Value:  # fmt: skip
    if sorter is not None:
        e.refuse("boundaries that a sorter puts in order")
    return _count(e, x, boundaries, right or side == "right")


def _count(e: Emitter, x: Value, boundaries: Value, right: bool) -> Value:
    """How many boundaries, which are sorted along their last axis, lie before each element of x."""
    into = e.result()
    point, inner = axes(into.shape, boundaries.shape[-1:])
    row = point[:-1] if len(boundaries.shape) > 1 else ()
    before = Binary("<=" if right else "<", boundaries.element((*row, *inner)), x.element(point))
    e.assign(into.at(point), "+=", Cast(into.dtype, before), point, inner)
    return into.value


@emits("topk")
def largest(e: Emitter, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """One element alone: of more, the order depends on data."""
    if k != 1 or not x.shape:
        e.refuse("the order of its elements depends on data")
    return extreme_and_position(e, x, dim, True, "max=" if largest else "min=")
