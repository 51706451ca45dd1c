"""Losses: one accumulation, whose term is a formula of prediction and target, and one nest that divides.

PyTorch's own decompositions write a tensor for every step of the formula.
"""

from collections.abc import Callable
from functools import partial
from math import prod

from leir.syntax import Expr
from stepTP.frontend.emitter import Emitter, converted, scalar
from stepTP.frontend.ops.pointwise import formula, pointwise
from stepTP.frontend.ops.reduce import accumulate
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, broadcast

NONE, MEAN, SUM = range(3)  # ATen's numbers of reductions


def reduced_loss(e: Emitter, shape: tuple[int, ...], term: Callable[[Point], Expr], reduction: int) -> Value:
    """Emits the loss of each element, their sum, or their mean."""
    if reduction == NONE:
        return e.fill(e.result(), term)
    dtype = e.accumulator()
    elements = Value(shape, dtype, term)
    into = e.result(dtype=dtype) if reduction == SUM else e.temporary((), dtype)
    total = accumulate(e, into, "+=", elements, range(len(shape)))
    return e.settled(into) if reduction == SUM else pointwise(e, "x/y", total, prod(shape), dtype=dtype)


def _elementwise(e: Emitter, text: str, reduction: int, *operands: Value | float) -> Value:
    """The loss by a formula of x, y, z, ...; the operands broadcast together."""
    dtype = e.accumulator()
    values = [operand for operand in operands if isinstance(operand, Value)]
    rank = max(len(value.shape) for value in values)
    sizes = [(1,) * (rank - len(value.shape)) + tuple(value.shape) for value in values]
    shape = tuple(max(column) for column in zip(*sizes, strict=True))
    elements = [
        broadcast(converted(operand, dtype) if isinstance(operand, Value) else scalar(operand, dtype), shape).element
        for operand in operands
    ]

    def term(point: Point) -> Expr:
        return formula(text, **{name: at(point) for name, at in zip("xyzw", elements, strict=False)})

    return reduced_loss(e, shape, term, reduction)


def _of_difference(text: str, e: Emitter, x: Value, y: Value, reduction: int = MEAN) -> Value:
    return _elementwise(e, text, reduction, x, y)


emits("mse_loss")(partial(_of_difference, "(x-y)*(x-y)"))
emits("l1_loss")(partial(_of_difference, "abs(x-y)"))
emits("soft_margin_loss")(partial(_of_difference, "max(-x*y,0.0)+log1p(exp(-abs(x*y)))"))


@emits("smooth_l1_loss")
def smooth_l1_loss(e: Emitter, x: Value, y: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    if beta == 0:
        return _elementwise(e, "abs(x-y)", reduction, x, y)
    return _elementwise(e, "if_then_else(abs(x-y)<z,0.5*(x-y)*(x-y)/z,abs(x-y)-0.5*z)", reduction, x, y, beta)


@emits("huber_loss")
def huber_loss(e: Emitter, x: Value, y: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    return _elementwise(e, "if_then_else(abs(x-y)<=z,0.5*(x-y)*(x-y),z*(abs(x-y)-0.5*z))", reduction, x, y, delta)


@emits("kl_div")
def divergence(e: Emitter, x: Value, y: Value, reduction: int = MEAN, *, log_target: bool = False) -> Value:
    """x are logarithms; a target of 0 counts 0."""
    text = "exp(y)*(y-x)" if log_target else "if_then_else(y==0.0,0.0,y*log(y))-y*x"
    return _elementwise(e, text, reduction, x, y)


@emits("binary_cross_entropy")
def binary_cross_entropy(e: Emitter, x: Value, y: Value, weight: Value | None = None, reduction: int = MEAN) -> Value:
    """Logarithms are at least -100, as PyTorch has them."""
    text = "(y-1.0)*max(log1p(-x),-100.0)-y*max(log(x),-100.0)"
    if weight is None:
        return _elementwise(e, text, reduction, x, y)
    return _elementwise(e, f"({text})*z", reduction, x, y, weight)


@emits("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    e: Emitter,
    x: Value,
    y: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    """(1 - y) x + (1 + (p - 1) y) log(1 + exp(-x)), its logarithm formed without overflow."""
    smooth = "(log1p(exp(-abs(x)))+max(-x,0.0))"
    text = f"(1.0-y)*x+{smooth}" if pos_weight is None else f"(1.0-y)*x+(1.0+(z-1.0)*y)*{smooth}"
    operands = (x, y) if pos_weight is None else (x, y, pos_weight)
    if weight is None:
        return _elementwise(e, text, reduction, *operands)
    name = "z" if pos_weight is None else "w"
    return _elementwise(e, f"({text})*{name}", reduction, *operands, weight)
