"""Bounds of functions and powers: within the 4 ULP of exact that the language allows, but never past a sign.

A function whose exact value has its argument's sign, or is not negative, keeps that in floats.
"""

import math
from fractions import Fraction
from functools import lru_cache

from leir.analysis.intervals import (
    KEPT,
    Exact,
    Number,
    Range,
    absolute,
    convert,
    exact,
    largest,
    outwards,
    relative_error,
    round_down,
    span,
    tiny,
)
from leir.syntax import DType


@lru_cache(maxsize=KEPT)
def apply(function: str, a: Range, dtype: DType) -> Range:
    """A function of one argument that computes in a float type."""
    a = convert(a, dtype)
    low, high, nan = float(a.low), float(a.high), a.nan
    match function:
        case "floor":
            return span(_floor(low), _floor(high), dtype, nan)
        case "round":
            return span(_round(low), _round(high), dtype, nan)
        case "sqrt":
            bottom, top = _root(max(low, 0.0)), _root(max(high, 0.0))
            return Range(
                round_down(bottom[0], dtype), -round_down(-top[1], dtype), nan or low < 0, a.zero or low < 0, dtype
            )
        case "exp":
            return span(max(0.0, _near(_exp(low), dtype)[0]), _near(_exp(high), dtype)[1], dtype, nan)
        case "expm1":
            return _signed(_near(_expm1(low), dtype)[0], _near(_expm1(high), dtype)[1], a, nan)
        case "log":
            return span(_near(_log(low), dtype)[0], _near(_log(high), dtype)[1], dtype, nan or low < 0)
        case "log1p":
            outside = nan or low < -1
            return _signed(_near(_log1p(low), dtype)[0], _near(_log1p(high), dtype)[1], a, outside)
        case "tanh":
            return _signed(_near(math.tanh(low), dtype)[0], _near(math.tanh(high), dtype)[1], a, nan)
        case "erf":
            return _signed(_near(math.erf(low), dtype)[0], _near(math.erf(high), dtype)[1], a, nan)
        case "sin" | "cos":
            return span(_near(-1.0, dtype)[0], _near(1.0, dtype)[1], dtype, nan or a.infinite)
        case _:
            raise ValueError(f"{function} is no function of one argument")


def _signed(low: float, high: float, a: Range, nan: bool) -> Range:
    """Bounds of a function that has its argument's sign."""
    low, high = max(low, 0.0) if a.low >= 0 else low, min(high, 0.0) if a.high <= 0 else high
    return span(low, high, a.dtype, nan)


def _near(value: float, dtype: DType) -> tuple[float, float]:
    """The bounds of a function's result within 4 ULP of exact, and of our own evaluation of it."""
    if math.isinf(value):
        top = largest(dtype)
        return (value, value) if value < 0 else (top, value)
    margin = Fraction(abs(value)) * 16 * relative_error(dtype) + 8 * Fraction(tiny(dtype))
    return outwards(Fraction(value) - margin, Fraction(value) + margin, dtype)


def _floor(x: float) -> float:
    return x if math.isinf(x) else float(math.floor(x))


def _round(x: float) -> float:
    return x if math.isinf(x) else float(round(x))


def _root(x: float) -> tuple[Exact, Exact]:
    """Exact bounds of a square root: equal where it is a float."""
    root = math.sqrt(x)
    if math.isinf(root) or Fraction(root) ** 2 == Fraction(x):
        return exact(root), exact(root)
    return Fraction(math.nextafter(root, -math.inf)), Fraction(math.nextafter(root, math.inf))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _expm1(x: float) -> float:
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _log1p(x: float) -> float:
    return math.log1p(x) if x > -1 else -math.inf


@lru_cache(maxsize=KEPT)
def power(a: Range, b: Range, dtype: DType) -> Range:
    """a ** b: bounded where the base is not negative, or the exponent one even integer."""
    a, b = convert(a, dtype), convert(b, dtype)
    whole = b.low == b.high and not b.infinite and float(b.low).is_integer()
    nan = a.nan or b.nan or (a.low < 0 and not whole)
    if whole and b.low % 2 == 0 and b.low >= 0:
        a = absolute(a)
    if a.low < 0 or (a.zero and b.low < 0):
        return span(-math.inf, math.inf, dtype, nan)
    if a.infinite or b.infinite:
        return span(0.0, math.inf, dtype, nan)
    corners = [_pow(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    corners += [1.0] if a.low <= 1 <= a.high or b.low <= 0 <= b.high else []
    return span(max(0.0, _near(min(corners), dtype)[0]), _near(max(corners), dtype)[1], dtype, nan)


def _pow(x: Number, y: Number) -> float:
    try:
        return math.pow(x, y)
    except (OverflowError, ValueError):
        return math.inf
