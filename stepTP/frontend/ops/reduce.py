"""Reductions over any axes, each one accumulation; a mean or a variance divides in a nest of its own."""

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, prod
from typing import Any

from leir.syntax import AssignOp, Binary, BinaryOp, Expr, Integer, Select
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.indices import Index, expression, linear
from stepTP.frontend.ops.logic import truth
from stepTP.frontend.ops.pointwise import formula, pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Value, literal

Dims = Sequence[int] | int | None
_WITHOUT_ROOT = (0.0, 1.0, inf, -inf)  # orders of norms


def reduced_axes(x: Value, dims: Dims) -> list[int]:
    """The axes that a reduction goes over, in order; none given means all."""
    if isinstance(dims, int):
        dims = [dims]
    rank = len(x.shape)
    return sorted({dim % rank for dim in dims}) if dims and rank else list(range(rank))


def shape_without(x: Value, over: Sequence[int]) -> tuple[int, ...]:
    """The shape of x without the axes `over`."""
    return tuple(size for axis, size in enumerate(x.shape) if axis not in over)


def reduced(point: Point, over: Sequence[int], result: Sequence[int]) -> Point:
    """The point of a reduction's result, of shape `result`, that the element at `point` goes into."""
    if len(result) == len(point):
        return tuple(Index() if axis in over else index for axis, index in enumerate(point))
    return tuple(index for axis, index in enumerate(point) if axis not in over)


def accumulate(
    e: Emitter, into: Buffer, op: AssignOp, x: Value, over: Sequence[int], term: Callable[[Point], Expr] | None = None
) -> Value:
    """Emits `into op= term` over the axes `over` of x, which `into` has at size 1 or not at all.

    `term` gives the expression at a point of x; it is x's element there if None.
    """
    target, inner = axes(into.shape, [x.shape[axis] for axis in over])
    kept = iter(target if len(into.shape) < len(x.shape) else [i for n, i in enumerate(target) if n not in over])
    running = iter(inner)
    source = tuple(next(running) if axis in over else next(kept) for axis in range(len(x.shape)))
    e.assign(into.at(target), op, (term or x.element)(source), target, inner)
    return into.value


def _fold(op: AssignOp, e: Emitter, x: Value, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    into = e.result(dtype=e.accumulator())
    if into.dtype == "bool":
        return _any_or_all("max=" if op == "max=" else "min=", e, x, dims, keepdim)
    accumulate(e, into, op, converted(x, into.dtype), reduced_axes(x, dims))
    return e.settled(into)


emits("sum", "sum.dim_IntList")(partial(_fold, "+="))
emits("prod", "prod.dim_int")(partial(_fold, "*="))
emits("amax", "max")(partial(_fold, "max="))
emits("amin", "min")(partial(_fold, "min="))


def _any_or_all(op: AssignOp, e: Emitter, x: Value, dims: Dims = None, keepdim: bool = False) -> Value:
    """Booleans are not accumulated into: the fold is over i32, and the result is whether it is nonzero."""
    counted = accumulate(e, e.temporary(e.shape(), "i32"), op, converted(truth(x), "i32"), reduced_axes(x, dims))
    return e.fill(e.result(), lambda point: Binary("!=", counted.element(point), Integer(0)))


emits("any", "any.dim", "any.dims")(partial(_any_or_all, "max="))
emits("all", "all.dim", "all.dims")(partial(_any_or_all, "min="))


@emits("linalg_vector_norm")
def vector_norm(
    e: Emitter, x: Value, order: float = 2, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    """Sum of powers of magnitudes, then the root; the largest or smallest magnitude for an infinite order."""
    over = reduced_axes(x, dims)
    x = converted(x, e.accumulator())
    op, term = power_of_order(order)
    number = literal(order, x.dtype)
    into = rooted_buffer(e, order)
    accumulate(e, into, op, x, over, lambda point: formula(term, x=x.element(point), y=number))
    return rooted(e, into, order)


def power_of_order(order: float) -> tuple[AssignOp, str]:
    """How the norm of an order accumulates, and what: a formula of the element x and the order y."""
    powers = {0.0: "if_then_else(x!=0.0,1.0,0.0)", 1.0: "abs(x)", 2.0: "x*x", inf: "abs(x)", -inf: "abs(x)"}
    op: AssignOp = "max=" if order == inf else "min=" if order == -inf else "+="
    return op, powers.get(float(order), "abs(x)**y")


def rooted_buffer(e: Emitter, order: float) -> Buffer:
    """What the powers of a norm accumulate in: the result itself where no root is taken."""
    dtype = e.accumulator()
    return e.result(dtype=dtype) if float(order) in _WITHOUT_ROOT else e.temporary(e.shape(), dtype)


def rooted(e: Emitter, total: Buffer, order: float) -> Value:
    """The norm from the powers in a buffer of `rooted_buffer`."""
    if float(order) in _WITHOUT_ROOT:
        return e.settled(total)
    return pointwise(e, "sqrt(x)" if order == 2 else "x**(1.0/y)", total.value, order, dtype=total.dtype)


@emits("mean", "mean.dim")
def mean(e: Emitter, x: Value, dims: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    over = reduced_axes(x, dims)
    into = e.temporary(e.shape(), e.accumulator())
    total = accumulate(e, into, "+=", converted(x, into.dtype), over)
    return pointwise(e, "x/y", total, count(x, over), dtype=into.dtype)


def count(x: Value, over: Sequence[int]) -> int:
    """How many elements of x one element of the reduction takes in."""
    return prod(x.shape[axis] for axis in over)


def centred_squares(e: Emitter, x: Value, over: Sequence[int], shape: Sequence[int]) -> tuple[Value, Value]:
    """Emits mean and sum of squared distances from it, in two passes: three nests. Both are of `shape`."""
    dtype = e.accumulator()
    x = converted(x, dtype)
    total = accumulate(e, e.temporary(shape, dtype), "+=", x, over)
    number = literal(count(x, over), dtype)
    centre = e.fill(e.temporary(shape, dtype), lambda point: Binary("/", total.element(point), number))

    def squared(point: Point) -> Expr:
        return formula("(x-y)*(x-y)", x=x.element(point), y=centre.element(reduced(point, over, shape)))

    return centre, accumulate(e, e.temporary(shape, dtype), "+=", x, over, squared)


@emits("var.correction")
def variance(e: Emitter, x: Value, dims: Dims = None, *, correction: float | None = 1, keepdim: bool = False) -> Value:
    return _spread(e, "x/y", x, dims, correction)


@emits("std.correction")
def deviation(e: Emitter, x: Value, dims: Dims = None, *, correction: float | None = 1, keepdim: bool = False) -> Value:
    return _spread(e, "sqrt(x/y)", x, dims, correction)


@emits("var", "std")
def spread_of_all(e: Emitter, x: Value, unbiased: bool = True) -> Value:
    return spread_with_flag(e, x, None, unbiased)


@emits("var.dim", "std.dim")
def spread_with_flag(e: Emitter, x: Value, dims: Dims, unbiased: bool = True, keepdim: bool = False) -> Value:
    """The older signature; `unbiased` is Bessel's correction."""
    return _spread(e, "x/y" if "var" in e.op else "sqrt(x/y)", x, dims, int(unbiased))


def _freedom(e: Emitter, x: Value, over: Sequence[int], correction: float | None) -> float:
    freedom = count(x, over) - (1 if correction is None else correction)
    if freedom <= 0:
        e.refuse(f"{count(x, over)} elements leave {freedom} degrees of freedom")
    return freedom


def _spread(e: Emitter, text: str, x: Value, dims: Dims, correction: float | None) -> Value:
    over = reduced_axes(x, dims)
    freedom = _freedom(e, x, over, correction)
    _, squares = centred_squares(e, x, over, e.shape())
    return pointwise(e, text, squares, freedom, dtype=e.accumulator())


@emits("argmax", "argmin")
def position_of_extreme(e: Emitter, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """The least position that holds the extreme; over all axes it is the position in row-major order."""
    over = reduced_axes(x, dim)
    extreme = accumulate(e, e.temporary(e.shape(), x.dtype), _extreme_of(e), x, over)
    return _least_position(e, x, over, extreme, e.result())


@emits("max.dim", "min.dim")
def extreme_and_position(
    e: Emitter, x: Value, dim: int, keepdim: bool = False, op: AssignOp | None = None
) -> tuple[Value, Value | None]:
    """Booleans are not accumulated into: their extremes are those of 0 and 1."""
    over = reduced_axes(x, dim)
    if x.dtype == "bool":
        x = converted(x, "i32")
        extreme = accumulate(e, e.temporary(e.shape(0), "i32"), op or _extreme_of(e), x, over)
        result = e.fill(e.result(0), lambda point: Binary("!=", extreme.element(point), Integer(0)))
    else:
        result = extreme = accumulate(e, e.result(0), op or _extreme_of(e), x, over)
    return result, _least_position(e, x, over, extreme, e.result(1)) if e.uses(1) else None


def _extreme_of(e: Emitter) -> AssignOp:
    return "max=" if "max" in e.op else "min="


def _least_position(e: Emitter, x: Value, over: Sequence[int], extreme: Value, into: Buffer) -> Value:
    """Emits the least row-major position along the axes `over` at which x equals its extreme."""
    sizes = [x.shape[axis] for axis in over]

    def position(point: Point) -> Expr:
        own = expression(linear([point[axis] for axis in over], sizes))
        best = extreme.element(reduced(point, over, extreme.shape))
        return Select(Binary("==", x.element(point), best), own, Integer(count(x, over) - 1))

    return accumulate(e, into, "min=", x, over, position)


@emits("var_mean.correction")
def variance_and_mean(
    e: Emitter, x: Value, dims: Dims = None, *, correction: float | None = 1, keepdim: bool = False
) -> tuple[Value, Value]:
    over = reduced_axes(x, dims)
    freedom = _freedom(e, x, over, correction)
    centre, squares = centred_squares(e, x, over, e.shape(0))
    number = literal(freedom, squares.dtype)
    spread = e.fill(e.result(0), lambda point: Binary("/", squares.element(point), number))
    return spread, e.copied(centre, e.result(1)) if e.uses(1) else centre


@emits("cumprod")
def cumulative_product(e: Emitter, x: Value, dim: int, *, dtype: Any = None) -> Value:
    return cumulative_sum(e, x, dim, op="*")


@emits("cumsum")
def cumulative_sum(e: Emitter, x: Value, dim: int, *, dtype: Any = None, op: BinaryOp = "+") -> Value:
    """The first element, then each one on top of its predecessor."""
    into = e.result(dtype=e.accumulator())
    x = converted(x, into.dtype)
    if not x.shape:
        return e.copied(x, e.result())
    axis = dim % len(x.shape)
    (outer,) = axes([1 if n == axis else size for n, size in enumerate(x.shape)])
    e.assign(into.at(outer), "=", x.element(outer), outer)
    if x.shape[axis] > 1:
        (point,) = axes([size - (n == axis) for n, size in enumerate(x.shape)])
        ahead = tuple(index + 1 if n == axis else index for n, index in enumerate(point))
        value = Binary(op, into.at(point), x.element(ahead))
        e.assign(into.at(ahead), "=", value, point)
    return e.settled(into)
