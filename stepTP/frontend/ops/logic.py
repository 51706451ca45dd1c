"""Conditions and booleans: choices by a mask, logic, and tests of single elements."""

from math import copysign

import torch

from leir.syntax import Binary, Select
from stepTP.frontend.emitter import Emitter, converted, scalar
from stepTP.frontend.ops.division import known
from stepTP.frontend.ops.pointwise import Operand, pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import FLOATS, Scalar, Value, broadcast, constant


@emits("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(e: Emitter, condition: Value, x: Operand, y: Operand) -> Value:
    result = e.result()
    chosen = broadcast(truth(condition), result.shape)
    values = (value if isinstance(value, Value) else scalar(value, e.dtype()) for value in (x, y))
    one, other = (broadcast(converted(value, e.dtype()), result.shape) for value in values)
    return e.fill(result, lambda point: Select(chosen.element(point), one.element(point), other.element(point)))


@emits("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(e: Emitter, x: Value, mask: Value, value: Operand) -> Value:
    return where(e, mask, value, x)


def truth(value: Value) -> Value:
    """The value as a boolean: itself, or whether it is nonzero."""
    if value.dtype == "bool":
        return value
    if value.constant is not None:
        return constant(value.constant != 0, value.shape, "bool")
    zero = scalar(0, value.dtype).element(())
    return Value(value.shape, "bool", lambda point: Binary("!=", value.element(point), zero))


@emits("logical_not", "bitwise_not")
def logical_not(e: Emitter, x: Value) -> Value:
    return _logical(e, "!x", x) if e.dtype() == "bool" else pointwise(e, "-x-1", x)


@emits("logical_and", "bitwise_and.Tensor", "bitwise_and.Scalar", "__and__.Tensor", "__and__.Scalar")
def logical_and(e: Emitter, x: Operand, y: Operand) -> Value:
    """Of integers, the bits below a power of two alone: a remainder."""
    mask = known(y)
    if e.dtype() != "bool" and mask is not None and mask > 0 and (int(mask) & (int(mask) + 1)) == 0:
        return pointwise(e, "x%y", x, int(mask) + 1)
    return _logical(e, "x&&y", x, y)


@emits("logical_or", "bitwise_or.Tensor", "bitwise_or.Scalar", "__or__.Tensor", "__or__.Scalar")
def logical_or(e: Emitter, x: Operand, y: Operand) -> Value:
    return _logical(e, "x||y", x, y)


@emits("logical_xor", "bitwise_xor.Tensor", "bitwise_xor.Scalar", "__xor__.Tensor", "__xor__.Scalar")
def logical_xor(e: Emitter, x: Operand, y: Operand) -> Value:
    return _logical(e, "x!=y", x, y)


def _logical(e: Emitter, text: str, *operands: Operand) -> Value:
    if e.dtype() != "bool":
        e.refuse("bits of integers: LEIR has arithmetic and booleans")
    values = [truth(o) if isinstance(o, Value) else scalar(bool(o), "bool") for o in operands]
    return pointwise(e, text, *values)


@emits("isnan")
def is_nan(e: Emitter, x: Value) -> Value:
    return _test(e, "x!=x", x)


@emits("isinf")
def is_infinite(e: Emitter, x: Value) -> Value:
    return _test(e, "abs(x)==inf", x)


@emits("isposinf")
def is_positive_infinity(e: Emitter, x: Value) -> Value:
    return _test(e, "x==inf", x)


@emits("isneginf")
def is_negative_infinity(e: Emitter, x: Value) -> Value:
    return _test(e, "x==-inf", x)


@emits("isfinite")
def is_finite(e: Emitter, x: Value) -> Value:
    """NaN compares false."""
    return pointwise(e, "abs(x)<inf", x, dtype=x.dtype) if x.dtype in FLOATS else constant(True, x.shape, "bool")


def _test(e: Emitter, text: str, x: Value) -> Value:
    """A test that no integer passes."""
    return pointwise(e, text, x, dtype=x.dtype) if x.dtype in FLOATS else constant(False, x.shape, "bool")


@emits("nan_to_num")
def replace_nan(
    e: Emitter, x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    if x.dtype not in FLOATS:
        return x
    limits = torch.finfo(e.meta().dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    text = f"if_then_else(x!=x,{_number(nan or 0.0)},if_then_else(x==inf,y,if_then_else(x==-inf,z,x)))"
    return pointwise(e, text, x, high, low)


def _number(value: float) -> str:
    return f"(-{-value!r})" if value < 0 else repr(float(value))


@emits("copysign.Scalar")
def copy_sign(e: Emitter, x: Value, y: Scalar) -> Value:
    return pointwise(e, "-abs(x)" if copysign(1.0, y) < 0 else "abs(x)", x)
