"""How far a right result may lie from the exact one: a running error analysis, operation by operation.

Every value is carried with a bound on what rounding can have done to it, in a program that computes the same formula
with its sums in any order. For a value x that a program computes as x~ in a type with unit roundoff u:

    value      x, in float64
    error      E with |x~ - x| <= E, but for the roundings of the sum that is being formed
    magnitude  M >= |x|: the sum of the absolute values of the terms that make up x
    terms      n: how many terms that sum has; the whole bound is  E + (n-1) * u * cost * M,

which holds for every order and bracketing of the sum (N. Higham, Accuracy and Stability of Numerical Algorithms, 4.2).
The rules, with total errors Ea, Eb of the operands, and t = the smallest normal number of the type:

    a + b, a - b    E = Ea + Eb,  M = Ma + Mb,  n = na + nb
    sum over n      the same, n being the sum over the terms of min(1, 3 |term| / (u M)): rounding to nearest takes no
                    more than the smaller operand, so that a term far below the others costs its own size at most, and
                    a 0 nothing; a term that comes from exp costs 9 roundings instead of 1, since a running softmax
                    multiplies the sum by a call (4 ULP = 8 u) and a rounding whenever the maximum rises
    a * b           E = |a| Eb + |b| Ea + Ea Eb + 2 u M + t,  M = max(Ma |b|, |a| Mb): a product may be distributed over
                    the sum in one of its factors; 2 u covers a quotient written as a product
    a / b           E = (Ea + |a/b| Eb) / (|b| - Eb) + 2 u M + t,  M = Ma / |b|; no bound where Eb >= |b|
    t_i / sum t_j   of terms t = exp(s) as in a softmax: the rule of `shares.py`, where it is sharper: a relative error,
                    and never more than between 0 and 1
    f(a)            what f does to the ends of [a - Ea, a + Ea], and 4 ULP (8 u |f(a)|) + t for the call; M = |f(a)|.
                    No bound where the interval leaves the domain of f. sqrt: 2 u
    max, min        the ends of both intervals; nothing is rounded
    comparison      uncertain where the intervals meet; if_then_else with an uncertain condition: the distance of its
                    two values and the larger of their errors. floor, round, conversion to an integer: by intervals too
    literal         its distance from the nearest value of the type it is converted to
    store, cast     one rounding in the stored type, where it is narrower

Nothing is rounded where all operands are exact multiples of a power of two g = 2^-(p//3) and M <= 2^p g, p the
significant bits of the type: small integers are exact in any order, and a program that uses nothing else must be exact.
Where such a value meets another one, or an operation leaves the multiples of g, the roundings that the operations on
the way may take count again: written otherwise, the expression rounds there. They are remembered through temporaries
that are stored to, which could stand in the expression themselves, but not of accumulations, which could not. A form
that distributes several factors of a product has larger terms than M says; in programs of the source families these are
exact too (`tests/stepTP/test_verify_grid.py` counts them).
A value beyond the largest number of its type has no bound, nor has a sum that some order takes there: the terms of one
sign add up to (|x| + M) / 2 at most. An exact infinity has the error 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepTP.verify.formats import Format, rounded

Array = NDArray[Any]
Number = Array | float

CALL_ROUNDINGS = 8.0  # a call is within 4 units in the last place, 2 u each
OPERATION_ROUNDINGS = 2.0  # of a product or quotient: it may be formed in two operations
RESCALED_TERM_ROUNDINGS = 9.0  # of a term from exp in a sum: a call and a product


@dataclass(frozen=True, slots=True)
class Running:
    """A value with its bound; see the module's description. All parts broadcast together.

    `gridded`: all terms are exact multiples of the type's g. `left_out`: the roundings of operations that do not
    count for that; they do once the value meets others or leaves the grid. `from_exp`: a product with a value of exp.
    `log_error`: of a positive value, a bound on |log(x~/x)| but for underflow; it may be finite where E is larger than
    x, not where x overflows. Booleans are values 0 and 1 whose error is 1 where they are uncertain. `settled` makes the
    whole bound the error.
    """

    value: Number
    error: Number = 0.0
    magnitude: Number = 0.0
    terms: Number = 1.0
    gridded: Array | bool = False
    from_exp: bool = False
    log_error: Number | None = None
    left_out: Number = 0.0


def exact(value: Number, format: Format | None = None) -> Running:
    """A value without error: an input, an index, a number. `format`: the float type it has, None for integers."""
    return Running(value, 0.0, np.abs(value), gridded=_on_grid(value, format) if format else False)


def literal(value: float, format: Format | None) -> Running:
    """A number of the text as an operand of a float type (None: of an integer type)."""
    if format is None or value == rounded(value, format):
        return exact(value, format)
    return Running(value, abs(value - rounded(value, format)), abs(value))


def settled(a: Running, format: Format | None, cost: float = 1.0) -> Running:
    """The value once its sum is complete: the roundings of the sum are part of the error."""
    if format is None or _is_one(a.terms):
        return a
    roundings = np.maximum(np.asarray(a.terms) - 1.0, 0.0) * (format.roundoff * cost) * a.magnitude
    gridded = a.gridded & (np.asarray(a.magnitude) <= _grid_limit(format))
    error = np.where(gridded, a.error, a.error + (roundings + a.left_out))
    left_out = np.where(gridded, a.left_out + roundings, 0.0)
    size = np.abs(a.value)
    overflows = (np.asarray(a.terms) > 1) & np.isfinite(size) & ((size + a.magnitude) / 2 + error > format.largest)
    error = np.where(overflows, np.inf, error)
    return _bounded(replace(a, error=error, terms=1.0, gridded=gridded, left_out=left_out), a.error, format)


def add(a: Running, b: Running, format: Format | None, sign: float = 1.0) -> Running:
    """a + sign * b: the sum goes on, see `settled`."""
    if format is None:
        return exact(a.value + b.value if sign > 0 else np.subtract(a.value, b.value))
    a, b = _met(a, b)
    return _bounded(
        Running(
            a.value + b.value if sign > 0 else a.value - b.value,
            a.error + b.error,
            a.magnitude + b.magnitude,
            a.terms + b.terms,
            a.gridded & b.gridded,
            a.from_exp and b.from_exp,
            left_out=a.left_out + b.left_out,
        ),
        a.error + b.error,
        format,
    )


def multiply(a: Running, b: Running, format: Format | None) -> Running:
    a, b = settled(a, format), settled(b, format)
    value = a.value * b.value
    if format is None:
        return exact(value)
    a, b = _met(a, b)
    size_a, size_b = np.abs(a.value), np.abs(b.value)
    magnitude = np.maximum(_product(a.magnitude, size_b), _product(size_a, b.magnitude))
    carried = _product(size_a, b.error) + _product(size_b, a.error) + _product(a.error, b.error)
    gridded = a.gridded & b.gridded
    if np.any(gridded):
        gridded = gridded & _on_grid(value, format) & (np.asarray(magnitude) <= _grid_limit(format))
    left_out = _product(size_a, b.left_out) + _product(size_b, a.left_out)
    product = Running(value, carried, magnitude, 1.0, gridded, a.from_exp or b.from_exp, left_out=left_out)
    return _rounded_once(product, OPERATION_ROUNDINGS, carried, format)


def divide(a: Running, b: Running, format: Format) -> Running:
    a, b = settled(a, format), settled(b, format)
    a, b = _counted(a), _counted(b)
    value, size = np.divide(a.value, b.value), np.abs(b.value)
    room = size - b.error
    carried = np.where(room > 0, (a.error + _product(np.abs(value), b.error)) / room, np.inf)
    carried = np.where((room == 0) & (np.asarray(b.error) == 0) & (np.abs(a.value) > a.error), 0.0, carried)
    carried = np.where((np.asarray(a.error) == 0) & (np.asarray(a.value) == 0) & (room > 0), 0.0, carried)
    carried = np.where(np.isinf(b.value) & np.isfinite(a.value), 0.0, carried)
    quotient = Running(value, carried, np.divide(a.magnitude, size), from_exp=a.from_exp)
    return _rounded_once(quotient, OPERATION_ROUNDINGS, carried, format)


def _met(a: Running, b: Running) -> tuple[Running, Running]:
    """Two operands: where one is on the grid and the other is not, what was left out of the first counts."""
    both = a.gridded & b.gridded
    return _counted(a, both), _counted(b, both)


def _counted(a: Running, unless: Array | bool = False) -> Running:
    """A value with what was left out as part of its error, but where `unless` holds."""
    if unless is True or not np.any(a.left_out):
        return a
    return replace(a, error=a.error + np.where(unless, 0.0, a.left_out), left_out=np.where(unless, a.left_out, 0.0))


def negate(a: Running) -> Running:
    return replace(a, value=np.negative(a.value), log_error=None)


def maximum(a: Running, b: Running, format: Format | None) -> Running:
    a, b = settled(a, format), settled(b, format)
    value = np.maximum(a.value, b.value)
    magnitude = np.where(np.asarray(a.value) >= b.value, a.magnitude, b.magnitude)
    if _is_exact(a) and _is_exact(b):
        return Running(value, 0.0, magnitude, 1.0, a.gridded & b.gridded)
    above = np.maximum(_high(a), _high(b))
    below = np.maximum(_low(a), _low(b))
    error = _distance(value, below, above)
    return _bounded(Running(value, error, magnitude), a.error + b.error, format)


def minimum(a: Running, b: Running, format: Format | None) -> Running:
    return negate(maximum(negate(a), negate(b), format))


def select(condition: Running, a: Running, b: Running, format: Format | None) -> Running:
    a, b = settled(a, format), settled(b, format)
    chosen = np.asarray(condition.value) != 0
    value = np.where(chosen, a.value, b.value)
    error = np.where(chosen, a.error, b.error)
    magnitude = np.where(chosen, a.magnitude, b.magnitude)
    if not _is_exact(condition):
        apart = np.where(np.asarray(a.value) == b.value, 0.0, np.abs(np.subtract(a.value, b.value, dtype=float)))
        either = apart + np.maximum(a.error, b.error)
        uncertain = np.asarray(condition.error) != 0
        error, magnitude = np.where(uncertain, either, error), np.where(uncertain, magnitude + apart, magnitude)
    return Running(value, error, magnitude, 1.0, a.gridded & b.gridded, a.from_exp or b.from_exp)


def compare(op: Callable[[Any, Any], Any], a: Running, b: Running, format: Format | None) -> Running:
    """A comparison, `op` a NumPy function: 1 or 0, with the error 1 where rounding can turn it."""
    a, b = settled(a, format), settled(b, format)
    value = np.asarray(op(a.value, b.value)).astype(np.int64)
    if _is_exact(a) and _is_exact(b):
        return Running(value, 0.0, np.abs(value))
    reach = np.asarray(a.error + b.error)
    near = np.abs(np.subtract(a.value, b.value, dtype=float)) <= reach
    return Running(value, np.where((reach > 0) & near, 1.0, 0.0), np.abs(value))


def absolute(a: Running, format: Format | None) -> Running:
    a = settled(a, format)
    return replace(a, value=np.abs(a.value))


def monotone(f: Callable[[Number], Number], a: Running, format: Format, low: float = -math.inf) -> Running:
    """A call of an increasing function with domain [low, inf)."""
    a = settled(a, format)
    value = f(a.value)
    carried = _carried(f, value, np.where(np.asarray(_low(a)) < low, np.nan, _low(a)), _high(a), a)
    if f is np.log and a.log_error is not None:
        carried = np.where(np.asarray(a.value) > format.smallest * 2.0**40, np.fmin(carried, a.log_error), carried)
    result = _rounded_once(Running(value, carried, np.abs(value)), CALL_ROUNDINGS, carried, format)
    if f is np.exp:
        log_error = a.error - math.log1p(-CALL_ROUNDINGS * format.roundoff)
        return replace(result, from_exp=True, log_error=unless_overflow(log_error, value, format))
    return result


def unless_overflow(log_error: Number, value: Number, format: Format) -> Array:
    """The log error of positive values; infinite where they reach beyond the largest number, and so become infinite.

    An error by more than a factor of e counts as one of e. Those are of scores whose exp a program takes relative to
    the largest that it has found itself, so that they do not overflow for being off.
    """
    return np.where(value * np.exp(np.minimum(log_error, 1.0)) <= format.largest, log_error, np.inf)


def square_root(a: Running, format: Format) -> Running:
    """A root is one operation, rounded correctly everywhere; no bound where rounding can make its argument negative."""
    a = settled(a, format)
    value = np.sqrt(a.value)
    carried = _carried(np.sqrt, value, np.where(np.asarray(_low(a)) < 0, np.nan, _low(a)), _high(a), a)
    return _rounded_once(Running(value, carried, np.abs(value)), OPERATION_ROUNDINGS, carried, format)


def lipschitz(f: Callable[[Number], Number], a: Running, format: Format) -> Running:
    """A call of a function whose slope is at most 1 (sin, cos)."""
    a = settled(a, format)
    value = f(a.value)
    carried = np.minimum(a.error, 2.0)
    return _rounded_once(Running(value, carried, np.abs(value)), CALL_ROUNDINGS, carried, format)


def stepped(f: Callable[[Number], Number], a: Running, format: Format | None) -> Running:
    """floor, round, or truncation: exact but for the jumps that the interval holds."""
    a = settled(a, format)
    value = f(a.value)
    error = 0.0 if _is_exact(a) else _carried(f, value, _low(a), _high(a), a)
    return Running(value, error, np.abs(value))


def power(a: Running, b: Running, format: Format) -> Running:
    """a ** b. A base whose interval holds 0 has a bound only for a positive integer exponent."""
    a, b = settled(a, format), settled(b, format)
    value = np.power(np.asarray(a.value, dtype=float), b.value)
    polynomial = (np.asarray(b.error) == 0) & (np.asarray(b.value) > 0) & (np.rint(b.value) == b.value)
    a = _counted(a, ~polynomial)
    if _is_exact(a) and _is_exact(b):
        carried: Number = np.zeros(())
    else:
        corners = [np.power(x, y) for x in (np.asarray(_low(a)), np.asarray(_high(a))) for y in (_low(b), _high(b))]
        carried = _distance(value, *corners)
        crosses = (np.asarray(_low(a)) <= 0) & (np.asarray(_high(a)) >= 0)
        carried = np.where(
            crosses & polynomial, np.abs(value) + np.maximum.reduce([np.abs(c) for c in corners]), carried
        )
        carried = np.where(
            crosses & ~polynomial & ((np.asarray(a.error) > 0) | (np.asarray(b.error) > 0)), np.inf, carried
        )
    return _rounded_once(Running(value, carried, np.abs(value)), CALL_ROUNDINGS, carried, format)


def stored(a: Running, computed: Format | None, kept: Format | None) -> Running:
    """A complete value as it is stored in, or cast to, a float type."""
    a = settled(a, computed)
    if kept is None or (computed is not None and computed.bits <= kept.bits):
        return a
    on_grid = (np.asarray(a.error) == 0) & _on_grid(a.value, kept)
    if np.all(on_grid):
        return replace(a, gridded=on_grid)
    log_error = a.log_error
    if log_error is not None:
        log_error = unless_overflow(log_error - math.log1p(-kept.roundoff), a.value, kept)
    return _rounded_once(replace(a, gridded=on_grid, log_error=log_error), 1.0, a.error, kept)


def _rounded_once(a: Running, roundings: float, carried: Number, format: Format) -> Running:
    """`a` with the error of one operation added to what it carries, but where it is exact."""
    rounding = format.roundoff * roundings * (a.magnitude + carried) + format.smallest + a.left_out
    error = carried + rounding
    if a.gridded is not False:
        error = np.where(a.gridded, carried, error)
        a = replace(a, left_out=np.where(a.gridded, rounding, 0.0))
    return _bounded(replace(a, error=error), carried, format)


def _bounded(a: Running, carried: Number, format: Format | None) -> Running:
    """Exact infinities have no error; values past the largest number, and NaN, have no bound."""
    size = np.abs(a.value)
    infinite = np.isinf(size)
    if bool(np.any(infinite)):
        sound = np.isfinite(carried)
        error = np.where(infinite, np.where(sound, 0.0, np.inf), a.error)
        a = replace(a, error=error, magnitude=np.where(infinite, 0.0, a.magnitude))
    if format is not None:
        lost = (~infinite & ~(size + a.error <= format.largest)) | np.isnan(size)
        if bool(np.any(lost)):
            a = replace(a, error=np.where(lost, np.inf, a.error))
    return a


def _carried(f: Callable[[Number], Number], value: Number, low: Number, high: Number, a: Running) -> Number:
    if _is_exact(a):
        return np.zeros(())
    return np.where(np.asarray(a.error) == 0, 0.0, _distance(value, f(low), f(high)))


def _distance(value: Number, *ends: Number) -> Number:
    """The largest distance of `value` from any end; equal infinities are at distance 0, NaN is infinitely far."""
    apart = [np.where(np.equal(value, end), 0.0, np.abs(np.subtract(value, end, dtype=float))) for end in ends]
    return np.nan_to_num(np.maximum.reduce(apart), nan=np.inf, posinf=np.inf)


def _low(a: Running) -> Number:
    return np.where(np.asarray(a.error) == 0, a.value, np.subtract(a.value, a.error))


def _high(a: Running) -> Number:
    return np.where(np.asarray(a.error) == 0, a.value, np.add(a.value, a.error))


def _product(a: Number, b: Number) -> Number:
    """a * b for sizes and errors, where 0 times infinity is 0: a factor that is exactly 0 hides the other's error."""
    product = np.multiply(a, b)
    return np.nan_to_num(product, nan=0.0, posinf=np.inf) if not np.all(np.isfinite(product)) else product


def _is_exact(a: Running) -> bool:
    return (isinstance(a.error, float) and a.error == 0.0) or not np.any(a.error)


def _is_one(terms: Number) -> bool:
    return isinstance(terms, float) and terms == 1.0


def _grid_limit(format: Format) -> float:
    return 2.0**format.bits * format.grid


def _on_grid(value: Number, format: Format) -> Array:
    scaled = np.divide(value, format.grid)
    return (np.rint(scaled) == scaled) & (np.abs(value) <= _grid_limit(format))
