"""Softmax and its kin, and the normalisations: stable forms, one nest for each reduction and one for what uses it."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from leir.syntax import Binary, Expr
from stepTP.frontend.emitter import Emitter, converted
from stepTP.frontend.indices import quotient
from stepTP.frontend.ops.pointwise import formula
from stepTP.frontend.ops.reduce import Dims, accumulate, centred_squares, count, reduced, reduced_axes, shape_without
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Value, literal


def maximum_and_sum(e: Emitter, x: Value, over: Sequence[int]) -> tuple[Value, Value]:
    """Emits the maximum of x over the axes, and the sum of exp(x - maximum): two nests."""
    shape = shape_without(x, over)
    highest = accumulate(e, e.temporary(shape, x.dtype), "max=", x, over)

    def power(point: Point) -> Expr:
        return formula("exp(x-y)", x=x.element(point), y=highest.element(reduced(point, over, shape)))

    return highest, accumulate(e, e.temporary(shape, x.dtype), "+=", x, over, power)


def normalised(e: Emitter, text: str, x: Value, over: Sequence[int], into: Buffer) -> Value:
    """Emits softmax over the axes, the last nest by a formula of element x, maximum y and sum z."""
    highest, total = maximum_and_sum(e, x, over)

    def element(point: Point) -> Expr:
        own = reduced(point, over, highest.shape)
        return formula(text, x=x.element(point), y=highest.element(own), z=total.element(own))

    return e.fill(into, element)


@emits("_softmax", "softmax.int")
def softmax(e: Emitter, x: Value, dim: int, half_to_float: Any = None, dtype: Any = None) -> Value:
    return normalised(e, "exp(x-y)/z", converted(x, e.accumulator()), reduced_axes(x, dim), e.result())


@emits("_log_softmax", "log_softmax.int")
def log_softmax(e: Emitter, x: Value, dim: int, half_to_float: Any = None, dtype: Any = None) -> Value:
    return normalised(e, "x-y-log(z)", converted(x, e.accumulator()), reduced_axes(x, dim), e.result())


@emits("logsumexp")
def logsumexp(e: Emitter, x: Value, dims: Dims, keepdim: bool = False) -> Value:
    """An infinite maximum is the result itself."""
    over = reduced_axes(x, dims)
    highest, total = maximum_and_sum(e, converted(x, e.accumulator()), over)
    result = e.result()

    def element(point: Point) -> Expr:
        own = point if len(point) == len(highest.shape) else reduced(point, over, highest.shape)
        text = "if_then_else(abs(x)==inf,x,x+log(y))"
        return formula(text, x=highest.element(own), y=total.element(own))

    return e.fill(result, element)


@emits("native_layer_norm")
def layer_norm(
    e: Emitter, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value]:
    """(normalised, mean, 1 / deviation); the last two keep the reduced axes at size 1."""
    over = list(range(len(x.shape) - len(shape), len(x.shape)))
    centre, inverse = _statistics(e, x, over, eps)
    narrow = centre.shape
    result = _scaled(
        e, x, (centre, inverse), lambda p: reduced(p, over, narrow), (weight, bias), lambda p: p[-len(shape) :]
    )
    kept = tuple(1 if axis in over else size for axis, size in enumerate(x.shape))
    centre, inverse = (v.view(kept, lambda p: reduced(p, over, narrow)) for v in (centre, inverse))
    return result, centre, inverse


@emits("layer_norm")
def composite_layer_norm(
    e: Emitter,
    x: Value,
    shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    return layer_norm(e, x, shape, weight, bias, eps)[0]


@emits("group_norm")
def composite_group_norm(
    e: Emitter,
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    return group_norm(e, x, weight, bias, x.shape[0], x.shape[1], count(x, range(2, len(x.shape))), groups, eps)[0]


@emits("batch_norm")
def composite_batch_norm(
    e: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    centre: Value | None,
    spread: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Value:
    """By the statistics of the batch in training; what they do to the running ones is no part of the result."""
    if training or centre is None or spread is None:
        return batch_norm(e, x, weight, bias, training, momentum, eps)[0]
    return batch_norm_with_statistics(e, x, weight, bias, centre, spread, momentum, eps)[0]


@emits("_native_batch_norm_legit_functional")
def functional_batch_norm(
    e: Emitter,
    x: Value,
    weight: Value | None,
    bias: Value | None,
    centre: Value,
    spread: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """(normalised, mean, 1 / deviation, running mean, running variance): batch_norm as decompositions write it.

    The updated running statistics are computed only where `forward` returns what comes of them.
    """
    if not training:
        return batch_norm_with_statistics(e, x, weight, bias, centre, spread, momentum, eps)[0], centre, spread
    over = [axis for axis in range(len(x.shape)) if axis != 1]
    number = count(x, over)
    mean, squares = centred_squares(e, x, over, shape_without(x, over))
    inverse = _inverse(e, squares, number, eps)
    result = _scaled(e, x, (mean, inverse), _channel, (weight, bias), _channel)

    def moved(place: int, old: Value, new: Value, divisor: int) -> Value:
        if not e.uses(place):
            return old
        old, text = converted(old, new.dtype), f"x*{1 - momentum!r}+y/{float(divisor)!r}*{momentum!r}"
        return e.fill(e.result(place), lambda p: formula(text, x=old.element(p), y=new.element(p)))

    return result, mean, inverse, moved(3, centre, mean, 1), moved(4, spread, squares, max(number - 1, 1))


@emits("native_group_norm")
def group_norm(
    e: Emitter, x: Value, weight: Value | None, bias: Value | None, n: int, c: int, hxw: int, groups: int, eps: float
) -> tuple[Value, Value, Value]:
    """Statistics over the channels of a group and all positions; weight and bias by channel."""
    size = c // groups
    grouped = x.view((n, groups, size, *x.shape[2:]), lambda p: (p[0], p[1] * size + p[2], *p[3:]))
    centre, inverse = _statistics(e, grouped, range(2, len(grouped.shape)), eps)

    def group(point: Point) -> Point:
        return point[0], quotient(point[1], size)

    return _scaled(e, x, (centre, inverse), group, (weight, bias), _channel), centre, inverse


@emits("_native_batch_norm_legit.no_stats")
def batch_norm(
    e: Emitter, x: Value, weight: Value | None, bias: Value | None, training: bool, momentum: float, eps: float
) -> tuple[Value, Value, Value]:
    """Statistics of the batch itself, by channel."""
    over = [axis for axis in range(len(x.shape)) if axis != 1]
    centre, inverse = _statistics(e, x, over, eps)
    return _scaled(e, x, (centre, inverse), _channel, (weight, bias), _channel), centre, inverse


@emits("_native_batch_norm_legit_no_training")
def batch_norm_with_statistics(
    e: Emitter, x: Value, weight: Value | None, bias: Value | None, centre: Value, spread: Value, *rest: float
) -> tuple[Value, None, None]:
    """`spread` is the running variance; momentum and eps follow."""
    dtype = e.accumulator()
    spread = converted(spread, dtype)
    small = literal(rest[-1], dtype)
    inverse = e.fill(
        e.temporary(spread.shape, dtype), lambda point: formula("1.0/sqrt(x+y)", x=spread.element(point), y=small)
    )
    return _scaled(e, x, (centre, inverse), _channel, (weight, bias), _channel), None, None


@emits("rms_norm")
def rms_norm(
    e: Emitter, x: Value, shape: Sequence[int], weight: Value | None = None, eps: float | None = None
) -> Value:
    """x / sqrt(mean(x * x) + eps); eps is the dtype's own where none is given."""
    dtype = e.accumulator()
    over = list(range(len(x.shape) - len(shape), len(x.shape)))
    x = converted(x, dtype)
    narrow = shape_without(x, over)
    squares = accumulate(e, e.temporary(narrow, dtype), "+=", x, over, lambda point: formula("x*x", x=x.element(point)))
    inverse = _inverse(e, squares, count(x, over), torch.finfo(e.meta().dtype).eps if eps is None else eps)
    weights = weight and converted(weight, dtype)

    def element(point: Point) -> Expr:
        value = Binary("*", x.element(point), inverse.element(reduced(point, over, narrow)))
        return Binary("*", value, weights.element(point[-len(shape) :])) if weights else value

    return e.fill(e.result(), element)


def _channel(point: Point) -> Point:
    return point[1:2]


def _statistics(e: Emitter, x: Value, over: Sequence[int], eps: float) -> tuple[Value, Value]:
    """Emits mean and 1 / sqrt(variance + eps) over the axes, which are dropped."""
    centre, squares = centred_squares(e, x, over, shape_without(x, over))
    return centre, _inverse(e, squares, count(x, over), eps)


def _inverse(e: Emitter, squares: Value, number: int, eps: float) -> Value:
    """Emits 1 / sqrt(squares / number + eps)."""
    total, small = literal(number, squares.dtype), literal(eps, squares.dtype)
    return e.fill(
        e.temporary(squares.shape, squares.dtype),
        lambda point: formula("1.0/sqrt(x/y+z)", x=squares.element(point), y=total, z=small),
    )


def _scaled(
    e: Emitter,
    x: Value,
    statistics: tuple[Value, Value],
    place: Callable[[Point], Point],
    parameters: tuple[Value | None, Value | None],
    own: Callable[[Point], Point],
) -> Value:
    """Emits (x - mean) * inverse * weight + bias: statistics are read at `place(point)`, parameters at `own(point)`."""
    dtype = e.accumulator()
    x, centre, inverse = (converted(value, dtype) for value in (x, *statistics))
    weight, bias = (value and converted(value, dtype) for value in parameters)

    def element(point: Point) -> Expr:
        at = place(point)
        value = formula("(x-y)*z", x=x.element(point), y=centre.element(at), z=inverse.element(at))
        value = Binary("*", value, weight.element(own(point))) if weight else value
        return Binary("+", value, bias.element(own(point))) if bias else value

    return e.fill(e.result(), element)
