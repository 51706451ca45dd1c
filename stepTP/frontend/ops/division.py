"""Quotients, remainders and powers, which need care: rounding to integers, divisors of zero, bases of integers."""

from math import frexp

import torch

from leir.syntax import Cast, DType
from stepTP.frontend.emitter import Emitter, converted
from stepTP.frontend.ops.pointwise import ROUNDING, Operand, pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import FLOATS, Scalar, Value, literal


@emits("div.Tensor_mode", "div.Scalar_mode")
def divide(e: Emitter, x: Operand, y: Operand, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        return pointwise(e, "x/y", x, y)
    if rounding_mode == "floor":
        return floor_divide(e, x, y)
    if e.dtype() in FLOATS:
        return pointwise(e, ROUNDING["trunc"].replace("x", "(x/y)"), x, y)
    return _by_nonzero(e, _truncated_quotient(y), x, y)


@emits("floor_divide", "floor_divide.Scalar")
def floor_divide(e: Emitter, x: Operand, y: Operand) -> Value:
    if e.dtype() in FLOATS:
        return _by_exact_quotient(e, "floor(x/y)", x, y)
    return _by_nonzero(e, "x//y", x, y)


@emits("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def modulo(e: Emitter, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of the divisor."""
    if e.dtype() in FLOATS:
        return _by_exact_quotient(e, "x-floor(x/y)*y", x, y)
    return _by_nonzero(e, "x%y", x, y)


@emits("fmod.Tensor", "fmod.Scalar")
def signed_remainder(e: Emitter, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of the dividend."""
    if e.dtype() in FLOATS:
        return _by_exact_quotient(e, f"x-{ROUNDING['trunc'].replace('x', '(x/y)')}*y", x, y)
    return _by_nonzero(e, f"x-({_truncated_quotient(y)})*y", x, y)


def _truncated_quotient(y: Operand) -> str:
    number = known(y)
    if number is not None and number > 0:
        return "if_then_else(x<0,-(-x//y),x//y)"
    return "if_then_else((x<0)!=(y<0),-(-x//y),x//y)"


def known(operand: Operand) -> Scalar | None:
    """The number that all elements of an operand are, where that is known."""
    return operand.constant if isinstance(operand, Value) else operand


def _by_nonzero(e: Emitter, text: str, x: Operand, y: Operand) -> Value:
    """A formula of integers that divides by y. PyTorch raises on a divisor of 0, so any value will do there."""
    number = known(y)
    if number == 0:
        e.refuse("integer division by 0")
    return pointwise(e, text if number is not None else f"if_then_else(y==0,0,{text})", x, y)


def _by_exact_quotient(e: Emitter, text: str, x: Operand, y: Operand) -> Value:
    """A formula of floats that rounds x/y to an integer, which the rounding of the division itself must not reach.

    Of two f32 the quotient in f64 rounds to an integer only if it is one, up to 2**28; then the remainder is exact too.
    f64 has no wider type, and takes powers of two alone, which divide exactly.
    """
    number = known(y)
    if number and frexp(abs(number))[0] == 0.5:
        return pointwise(e, text, x, y)
    if e.dtype() == "f64":
        e.refuse("a quotient of f64 rounded to an integer, by what is no power of two: the division's own rounding may "
                 "reach the next integer")  # fmt: skip
    own = e.accumulator()
    return pointwise(e, text, *(_rounded(operand, own) for operand in (x, y)), dtype="f64")


def _rounded(operand: Operand, dtype: DType) -> Operand:
    """The operand with the values that it has in f32 or below."""
    number = known(operand)
    if number is None:
        assert isinstance(operand, Value)
        return converted(operand, dtype)
    if torch.tensor(number, dtype=torch.float32).item() == number:
        return operand
    return Value(
        operand.shape if isinstance(operand, Value) else (), dtype, lambda _: Cast(dtype, literal(number, "f64"))
    )


@emits("__lshift__.Scalar", "bitwise_left_shift.Tensor_Scalar")
def shift_left(e: Emitter, x: Value, bits: int) -> Value:
    return pointwise(e, "x*y", x, 2**bits)


@emits("__rshift__.Scalar", "bitwise_right_shift.Tensor_Scalar")
def shift_right(e: Emitter, x: Value, bits: int) -> Value:
    return pointwise(e, "x//y", x, 2**bits)


@emits("round.decimals")
def round_to_decimals(e: Emitter, x: Value, *, decimals: int = 0) -> Value:
    if x.dtype not in FLOATS:
        return x
    text = "round(x)" if decimals == 0 else "round(x*y)/y" if decimals > 0 else "round(x/y)*y"
    return pointwise(e, text, x, 10 ** abs(decimals))


@emits("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(e: Emitter, x: Operand, y: Operand) -> Value:
    """Exponents that PyTorch computes by products and roots are written so; an integer base takes no others."""
    exponent = known(y)
    if exponent is not None and float(exponent) in _POWERS:
        number = float(exponent)
        if (number.is_integer() and number >= 0) or e.dtype() in FLOATS:
            return pointwise(e, _POWERS[number], x)
    if e.dtype() in FLOATS:
        return pointwise(e, "x**y", x, y)
    if isinstance(exponent, int) and 0 < exponent <= 64:
        return pointwise(e, "*".join(["x"] * exponent), x)
    return e.refuse(f"a power with a base of {e.dtype()} and an exponent that is no small constant")


_POWERS = {
    -2.0: "1.0/(x*x)",
    -1.0: "1.0/x",
    -0.5: "1.0/sqrt(x)",
    0.0: "1",
    0.5: "sqrt(x)",
    1.0: "x",
    2.0: "x*x",
    3.0: "x*x*x",
}
