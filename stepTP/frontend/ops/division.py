"""Quotients, remainders and powers, which need care: rounding to integers, divisors of zero, bases of integers."""

from math import frexp

from stepTP.frontend.emitter import Emitter, converted, rounded, scalar
from stepTP.frontend.ops.pointwise import ROUNDING, Operand, formula, in_half_precision, pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import FLOATS, Scalar, Value, broadcast


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
    if e.dtype() not in FLOATS:
        return _by_nonzero(e, "x//y", x, y)
    if _needs_exact_product(e, y):
        quotient, rest = _exact_division(e, x, y, "floor")
        return pointwise(e, "if_then_else(y!=0.0&&(y<0.0)!=(z<0.0),x-1.0,x)", quotient, rest, y)
    return _by_exact_quotient(e, "floor(x/y)", x, y)


@emits("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor")
def modulo(e: Emitter, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of the divisor."""
    if e.dtype() not in FLOATS:
        return _by_nonzero(e, "x%y", x, y)
    if _needs_exact_product(e, y):
        _, rest = _exact_division(e, x, y, "floor")
        return pointwise(e, "if_then_else(x!=0.0&&(x<0.0)!=(y<0.0),x+y,x)", rest, y)
    own = (in_half_precision(operand, e.dtype()) for operand in (x, y))
    return _by_exact_quotient(e, "x-floor(x/y)*y", *own)


@emits("fmod.Tensor", "fmod.Scalar")
def signed_remainder(e: Emitter, x: Operand, y: Operand) -> Value:
    """The remainder with the sign of the dividend."""
    if e.dtype() not in FLOATS:
        return _by_nonzero(e, f"x-({_truncated_quotient(y)})*y", x, y)
    if _needs_exact_product(e, y):
        _, rest = _exact_division(e, x, y, "trunc")
        return pointwise(e, "if_then_else(x*z<0.0,if_then_else(z<0.0,x-abs(y),x+abs(y)),x)", rest, y, x)
    own = (in_half_precision(operand, e.dtype()) for operand in (x, y))
    return _by_exact_quotient(e, f"x-{ROUNDING['trunc'].replace('x', '(x/y)')}*y", *own)


def _needs_exact_product(e: Emitter, y: Operand) -> bool:
    """f64 has no wider type, in which quotient and product would be exact; powers of two need none."""
    number = known(y)
    return e.dtype() == "f64" and not (number and frexp(abs(number))[0] == 0.5)


def _exact_division(e: Emitter, x: Operand, y: Operand, rounding: str) -> tuple[Value, Value]:
    """The quotient of f64 rounded to an integer, and exactly what it leaves of x.

    The division's own rounding may reach the next integer; what is left then has the wrong sign. Its product with y is
    formed without error, from halves of 26 bits (Dekker 1971).
    """
    shape = e.shape()

    def stored(text: str, *operands: Operand) -> Value:
        return pointwise(e, text, *operands, into=e.temporary(shape, "f64"))

    def leading(operand: Operand) -> Value:
        scaled = stored("x*134217729.0", operand)
        return stored("y-(y-x)", operand, scaled)

    quotient = stored(ROUNDING[rounding].replace("x", "(x/y)"), x, y)
    operands = {"x": x, "y": y, "q": quotient, "p": stored("x*y", quotient, y), "g": leading(quotient), "h": leading(y)}
    values = {name: v if isinstance(v, Value) else scalar(v, "f64") for name, v in operands.items()}
    elements = {name: broadcast(converted(value, "f64"), shape).element for name, value in values.items()}
    text = "(x-p)-(g*h-p+g*(y-h)+(q-g)*h+(q-g)*(y-h))"
    rest = e.fill(
        e.temporary(shape, "f64"), lambda point: formula(text, **{name: at(point) for name, at in elements.items()})
    )
    return quotient, rest


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
    """A formula of f32 or narrower that rounds x/y to an integer, which the rounding of the division must not reach.

    Of two f32 the quotient in f64 rounds to an integer only if it is one, up to 2**28; then the remainder is exact too.
    """
    number = known(y)
    if number and frexp(abs(number))[0] == 0.5:
        return pointwise(e, text, x, y)
    return pointwise(e, text, *(_as_f32(operand) for operand in (x, y)), dtype="f64")


def _as_f32(operand: Operand) -> Operand:
    """The operand with the values that it has in f32 or below."""
    number = known(operand)
    if number is None:
        assert isinstance(operand, Value)
        return operand if operand.dtype in ("f16", "bf16") else converted(operand, "f32")
    return rounded(scalar(number, "f32"))


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
    if known(x) == 2:  # exact as far as i64 goes; a negative exponent gives 0
        return pointwise(e, "2.0**x", y, dtype="f64")
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
