"""Interval arithmetic about the values that floats and integers really take, not about reals.

A `Range` holds every value that an expression may have in its computing type: bounds, whether it may be NaN and whether
it may be zero. Bounds of floats are rounded outwards to the type's own values from exact rationals, so that they hold
for each rounding and for contracted operations. Infinity is a value like any other: a range with an infinite bound may
overflow. Integers that may overflow have every value of their type, since the language leaves overflow open.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from leir.analysis.types import integer_range, is_float
from leir.syntax import DType

_FORMATS: dict[DType, tuple[int, int, int]] = {  # significant bits, least and largest exponent
    "f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023),
}  # fmt: skip
Number = int | float
Exact = Fraction | float  # a float only where it is infinite
KEPT = 8192  # answers of each operation: the bounds of a program's parts are those of its parent's, but for a few


@dataclass(frozen=True, slots=True)
class Range:
    """Values lie in low..high (ends included), or are NaN where `nan`. `zero`: whether 0 or -0 is among them.

    `dtype` is the computing type; None is a literal, which has not met a type yet.
    """

    low: Number
    high: Number
    nan: bool
    zero: bool
    dtype: DType | None

    @property
    def finite(self) -> bool:
        return not self.nan and not self.infinite

    @property
    def infinite(self) -> bool:
        """Whether infinity, of either sign, is possible."""
        return math.isinf(self.low) or math.isinf(self.high)

    def __str__(self) -> str:
        ends = f"[{_shown(self.low)}, {_shown(self.high)}]"
        without = " without 0" if self.low <= 0 <= self.high and not self.zero else ""
        return ends + without + (" or NaN" if self.nan else "")


def _shown(end: Number) -> str:
    return str(end) if isinstance(end, int) else f"{end + 0.0:.9g}"  # -0 is shown as 0


def largest_magnitude(bounds: Range) -> float:
    """The largest magnitude that a value may have."""
    return max(abs(float(bounds.low)), abs(float(bounds.high)))


def least_magnitude(bounds: Range) -> float:
    """The least magnitude that a value may have."""
    return 0.0 if bounds.low <= 0 <= bounds.high else min(abs(float(bounds.low)), abs(float(bounds.high)))


def span(low: Number, high: Number, dtype: DType | None, nan: bool = False, zero: bool = True) -> Range:
    """The range from `low` to `high`; `zero=False` rules zero out where the bounds do not."""
    return Range(low, high, nan, zero and low <= 0 <= high, dtype)


def everything(dtype: DType) -> Range:
    """All values of a computing type: an input, or a result of which nothing is known."""
    if is_float(dtype):
        return span(-math.inf, math.inf, dtype, nan=True)
    return span(*integer_range(dtype), dtype)


def literal(value: int | float | bool) -> Range:
    if isinstance(value, float) and math.isnan(value):
        return Range(-math.inf, math.inf, True, True, None)
    number = int(value) if isinstance(value, bool) else value
    return span(number, number, None)


def join(a: Range, b: Range) -> Range:
    """The values of either, in one type."""
    return Range(min(a.low, b.low), max(a.high, b.high), a.nan or b.nan, a.zero or b.zero, a.dtype)


def convert(a: Range, dtype: DType) -> Range:
    """The values after a store or cast to `dtype`: f16 and bf16 round, and stay f32 as a computing type."""
    if a.dtype == dtype and dtype not in ("f16", "bf16"):
        return a
    if is_float(dtype):
        low, high = outwards(exact(a.low), exact(a.high), dtype)
        computing: DType = "f32" if dtype in ("f16", "bf16") else dtype
        return Range(low, high, a.nan, a.zero or _rounds_to_zero(a, dtype), computing)
    if dtype == "bool":
        certain = not a.zero
        return span(1 if certain else 0, 0 if a.low == a.high == 0 and not a.nan else 1, "bool")
    low, high = integer_range(dtype)
    if a.nan or a.infinite or math.trunc(a.low) < low or math.trunc(a.high) > high:
        return everything(dtype)
    return span(math.trunc(a.low), math.trunc(a.high), dtype, zero=a.zero or _is_fraction(a))


def _rounds_to_zero(a: Range, dtype: DType) -> bool:
    """Whether a nonzero float, or literal, may become zero in a narrower float type."""
    if not _is_fraction(a) or a.low >= tiny(dtype) or a.high <= -tiny(dtype):
        return False
    return a.dtype is None or _FORMATS[a.dtype][:2] != _FORMATS[dtype][:2]


def _is_fraction(a: Range) -> bool:
    return a.dtype is None or is_float(a.dtype)


def tiny(dtype: DType) -> float:
    """The smallest positive value of a float type."""
    bits, least, _ = _FORMATS[dtype]
    return math.ldexp(1.0, least - bits + 1)


def smallest_normal(dtype: DType) -> float:
    """The smallest positive value of a float type that has all its digits."""
    return math.ldexp(1.0, _FORMATS[dtype][1])


def relative_error(dtype: DType) -> Fraction:
    """The largest relative error of one rounding in a float type."""
    return Fraction(1, 2 ** _FORMATS[dtype][0])


def largest(dtype: DType) -> float:
    """The largest finite value of a float type."""
    bits, _, most = _FORMATS[dtype]
    return math.ldexp(2.0 - math.ldexp(1.0, 1 - bits), most)


def exact(end: Number) -> Exact:
    """A bound as an exact number; infinity stays a float."""
    return end if isinstance(end, float) and math.isinf(end) else Fraction(end)


def outwards(low: Exact, high: Exact, dtype: DType) -> tuple[float, float]:
    """The nearest values of a float type that enclose two exact numbers."""
    return round_down(low, dtype), -round_down(-high, dtype)


def round_down(value: Exact, dtype: DType) -> float:
    """The largest value of a float type that is not above an exact one; -inf below all of them."""
    if isinstance(value, float):
        return value
    if value == 0:
        return 0.0
    bits, least, most = _FORMATS[dtype]
    above, below = value.numerator, value.denominator
    exponent = abs(above).bit_length() - below.bit_length()
    if _shifted(abs(above), -exponent) < _shifted(below, exponent):
        exponent -= 1
    quantum = max(exponent, least) - bits + 1  # as a power of two
    count = _shifted(above, -quantum) // _shifted(below, quantum)
    if exponent > most or (exponent == most and count == -(1 << bits)):
        return largest(dtype) if above > 0 else -math.inf
    return math.ldexp(count, quantum)


def _shifted(value: int, by: int) -> int:
    """A whole number times a power of two, where that is 1 at least."""
    return value << by if by > 0 else value


def negate(a: Range) -> Range:
    if a.dtype in ("i8", "i32", "i64"):
        return _in_type(-a.high, -a.low, a.dtype, a.zero)
    return Range(-a.high, -a.low, a.nan, a.zero, a.dtype)


def _in_type(low: Number, high: Number, dtype: DType, zero: bool = True) -> Range:
    least, most = integer_range(dtype)
    return span(low, high, dtype, zero=zero) if least <= low and high <= most else everything(dtype)


@lru_cache(maxsize=KEPT)
def add(a: Range, b: Range, dtype: DType) -> Range:
    a, b = convert(a, dtype), convert(b, dtype)
    if not is_float(dtype):
        return _in_type(a.low + b.low, a.high + b.high, dtype)
    opposite = (a.high == math.inf and b.low == -math.inf) or (a.low == -math.inf and b.high == math.inf)
    low, high = outwards(_sum(a.low, b.low, -math.inf), _sum(a.high, b.high, math.inf), dtype)
    return span(low, high, dtype, a.nan or b.nan or opposite)


def _sum(x: Number, y: Number, undefined: float) -> Exact:
    if math.isinf(x) or math.isinf(y):
        total = x + y
        return undefined if math.isnan(total) else total
    return Fraction(x) + Fraction(y)


def subtract(a: Range, b: Range, dtype: DType) -> Range:
    b = convert(b, dtype)
    minus = Range(-b.high, -b.low, b.nan, b.zero, dtype)
    if not is_float(dtype):
        a = convert(a, dtype)
        return _in_type(a.low + minus.low, a.high + minus.high, dtype)
    return add(a, minus, dtype)


@lru_cache(maxsize=KEPT)
def multiply(a: Range, b: Range, dtype: DType) -> Range:
    a, b = convert(a, dtype), convert(b, dtype)
    corners = [_product(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    if not is_float(dtype):
        return _in_type(int(min(corners)), int(max(corners)), dtype, zero=a.zero or b.zero)
    undefined = (a.zero and b.infinite) or (b.zero and a.infinite)
    low, high = outwards(min(corners), max(corners), dtype)
    return span(low, high, dtype, a.nan or b.nan or undefined)


def _product(x: Number, y: Number) -> Exact:
    if x == 0 or y == 0:
        return Fraction(0)
    return x * y if math.isinf(x) or math.isinf(y) else Fraction(x) * Fraction(y)


def square(a: Range, dtype: DType) -> Range:
    """x*x for one and the same x: never negative, and inf*inf is no NaN."""
    low, high = absolute(convert(a, dtype)).low, absolute(convert(a, dtype)).high
    result = multiply(span(low, high, dtype), span(low, high, dtype), dtype)
    if not is_float(dtype):
        return result
    return span(max(result.low, 0.0), result.high, dtype, a.nan)


@lru_cache(maxsize=KEPT)
def divide(a: Range, b: Range, dtype: DType) -> Range:
    """a / b in a float type. Zero in the divisor gives either infinity, for zeros have signs."""
    a, b = convert(a, dtype), convert(b, dtype)
    nan = a.nan or b.nan or (a.zero and b.zero) or (a.infinite and b.infinite)
    if b.zero or b.low < 0 < b.high:
        return span(-math.inf, math.inf, dtype, nan)
    low, high = (tiny(dtype) if b.low == 0 else b.low), (-tiny(dtype) if b.high == 0 else b.high)
    corners = [q for x in (a.low, a.high) for y in (low, high) for q in _quotients(x, y)]
    bottom, top = outwards(min(corners), max(corners), dtype)
    return span(bottom, top, dtype, nan)


def _quotients(x: Number, y: Number) -> tuple[Exact, ...]:
    if math.isinf(x) and math.isinf(y):
        return Fraction(0), math.copysign(math.inf, x) * math.copysign(1.0, y)
    if math.isinf(y):
        return (Fraction(0),)
    return (math.copysign(math.inf, x) * math.copysign(1.0, y),) if math.isinf(x) else (Fraction(x) / Fraction(y),)


def floor_divide(a: Range, b: Range, dtype: DType) -> Range:
    a, b = convert(a, dtype), convert(b, dtype)
    if b.low <= 0 <= b.high:
        return everything(dtype)
    corners = [int(x) // int(y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return _in_type(min(corners), max(corners), dtype)


def modulo(a: Range, b: Range, dtype: DType) -> Range:
    """The remainder of the division that floors: it has the divisor's sign."""
    a, b = convert(a, dtype), convert(b, dtype)
    if b.low <= 0 <= b.high:
        return everything(dtype)
    if b.low > 0:
        if a.low >= 0 and a.high < b.low:
            return a
        return span(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1, dtype)
    return span(b.low + 1, 0, dtype)


def absolute(a: Range) -> Range:
    if a.dtype in ("i8", "i32", "i64"):
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return _in_type(low, max(abs(a.low), abs(a.high)), a.dtype, a.zero)
    low = type(a.low)(0) if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Range(low, max(abs(a.low), abs(a.high)), a.nan, a.zero, a.dtype)


def extremum(function: str, a: Range, b: Range, dtype: DType) -> Range:
    """max or min; of NaN and a value the language lets either come out."""
    a, b = convert(a, dtype), convert(b, dtype)
    choose = max if function == "max" else min
    low, high = choose(a.low, b.low), choose(a.high, b.high)
    if a.nan:
        low, high = min(low, b.low), max(high, b.high)
    if b.nan:
        low, high = min(low, a.low), max(high, a.high)
    ruled_out = not a.zero and not b.zero
    return span(low, high, dtype, a.nan or b.nan, zero=not ruled_out)


def repeated_sum(a: Range, most: int, dtype: DType) -> Range:
    """The sum of none to `most` values of a range, in any order, with a rounding at each addition."""
    a = convert(a, dtype)
    low, high = _product(min(a.low, 0), most), _product(max(a.high, 0), most)
    if not is_float(dtype):
        return _in_type(int(low), int(high), dtype)
    drift = 1 + 2 * most * relative_error(dtype)  # (1 + u)^n <= 1 + 2nu while nu <= 1/2
    if drift > 2:
        drift = math.inf
    bottom, top = outwards(_scaled(low, drift), _scaled(high, drift), dtype)
    return span(bottom, top, dtype, a.nan or (bottom == -math.inf and top == math.inf))


def _scaled(end: Exact, drift: Exact) -> Exact:
    if end == 0:
        return Fraction(0)
    if isinstance(end, float) or isinstance(drift, float):
        return math.inf if end > 0 else -math.inf
    return end * drift


def least_sum(value: Number, least: int, most: int, dtype: DType) -> Range:
    """What a sum of at least `least` and at most `most` values of `value` (positive) or more cannot fall below."""
    if not is_float(dtype):
        return span(int(value) * least, int(value) * least, dtype)
    drift = 2 * most * relative_error(dtype)
    total = (
        float(value) if math.isinf(value) else round_down(Fraction(value) * least * max(1 - drift, Fraction(0)), dtype)
    )
    low = max(total, float(value))  # adding what is not negative never falls below one term
    return span(low, low, dtype)
