"""Running maxima and running logarithms of sums: each element from its predecessor, one serial loop along the axis."""

from collections.abc import Callable

from leir.syntax import Binary, Call, Expr, Integer, Select
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.indices import expression
from stepTP.frontend.ops.pointwise import BINARY, formula
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Value


def along(
    e: Emitter, into: Buffer, axis: int, first: Callable[[Point], Expr], following: Callable[[Point, Point], Expr]
) -> None:
    """Emits the first element along an axis, and the others by their points and those of their predecessors."""
    (start,) = axes([1 if n == axis else size for n, size in enumerate(into.shape)])
    e.assign(into.at(start), "=", first(start), start)
    if into.shape[axis] > 1:
        (before,) = axes([size - (n == axis) for n, size in enumerate(into.shape)])
        here = tuple(index + 1 if n == axis else index for n, index in enumerate(before))
        e.assign(into.at(here), "=", following(here, before), before)


@emits("logcumsumexp")
def log_cumulative_sum_of_exponentials(e: Emitter, x: Value, dim: int) -> Value:
    """log(exp(running) + exp(x)) by the larger of the two, so that nothing overflows."""
    if not x.shape:
        return e.copied(x, e.result())
    into = e.result(dtype=e.accumulator())
    x = converted(x, into.dtype)
    text = BINARY["logaddexp"]
    along(e, into, dim % len(x.shape), x.element, lambda p, q: formula(text, x=into.at(q), y=x.element(p)))
    return e.settled(into)


@emits("cummax", "cummin")
def running_extreme(e: Emitter, x: Value, dim: int) -> tuple[Value, Value | None]:
    """The extreme up to each element, and where it is read the last position up to there that holds it."""
    function, comparison = ("max", ">=") if "cummax" in e.op else ("min", "<=")
    if not x.shape:
        return e.copied(x, e.result(0)), e.fill(e.result(1), lambda _: Integer(0))
    axis = dim % len(x.shape)
    into = e.result(0)
    along(e, into, axis, x.element, lambda p, q: Call(function, (into.at(q), x.element(p))))
    if not e.uses(1):
        return into.value, None
    places = e.result(1)

    def place(p: Point, q: Point) -> Expr:
        found = Binary(comparison, x.element(p), into.at(q))
        return Select(found, expression(p[axis]), places.at(q))

    along(e, places, axis, lambda _: Integer(0), place)
    return into.value, places.value
