"""Comparing what a program computed with what it should have computed, element by element."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.syntax import DType
from stepTP.verify.formats import FORMATS

Array = NDArray[Any]

_TINY = 2.0**-10  # of the largest element of an output in a draw: smaller elements have no relative error


@dataclass(frozen=True, slots=True)
class Expected:
    """An output as it should be: `value` in float64 (or integers), and how far each element may lie from it."""

    value: Array
    tolerance: Array
    dtype: DType


@dataclass(frozen=True, slots=True)
class Difference:
    """How an output differs from what is expected.

    `problem` is None where every element is within its tolerance. `max_abs` is the largest error and `tolerance` that
    of its element; `bound_used` is the largest error in units of its element's own tolerance, at most 1 where all is
    well. `max_rel` and `max_ulp` (units in the last place of the expected value, in the output's type) are the largest
    of the elements that are not tiny beside the largest: near 0 a relative error says nothing.
    """

    problem: str | None = None
    max_abs: float = 0.0
    tolerance: float = 0.0
    bound_used: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0


def compare(name: str, actual: Array, expected: Expected) -> Difference:
    """NaN equals only NaN, an infinity only itself, and every other element must lie within its tolerance."""
    if actual.shape != expected.value.shape:
        problem = f"{name} has the shape {list(actual.shape)}, not {list(expected.value.shape)}"
        return Difference(problem, max_abs=math.inf, bound_used=math.inf)
    value = np.asarray(actual, dtype=expected.value.dtype)
    with np.errstate(all="ignore"):
        special = ~np.isfinite(expected.value)
        same = (value == expected.value) | (np.isnan(value) & np.isnan(expected.value))
        error = np.where(same, 0.0, np.abs(np.subtract(value, expected.value, dtype=np.float64)))
        error = np.where(special & ~same, np.inf, np.nan_to_num(error, nan=np.inf, posinf=np.inf))
        share = np.where(error == 0, 0.0, np.divide(error, expected.tolerance))
        share = np.nan_to_num(share, nan=np.inf, posinf=np.inf)
        size = np.where(special, 0.0, np.abs(expected.value))
        matters = (size > 0) & (size >= _TINY * size.max(initial=0.0))
        relative = np.divide(error, size)[matters]
        ulp = np.divide(error, _unit(size, expected.dtype))[matters]
    worst = int(np.argmax(share)) if share.size else 0
    problem = None
    if share.size and not float(share.flat[worst]) <= 1.0:
        wrong = int(np.count_nonzero(~(share <= 1.0)))
        where = _element(name, worst, value.shape)
        problem = (
            f"{where} is {value.flat[worst]:.9g}, expected {expected.value.flat[worst]:.9g} "
            f"within {expected.tolerance.flat[worst]:.3g}; {wrong} of {share.size} elements are wrong"
        )
    largest = error.max(initial=0.0)
    return Difference(
        problem,
        float(largest),
        float(expected.tolerance[error == largest].min(initial=np.inf)) if error.size else 0.0,
        float(share.max(initial=0.0)),
        float(relative.max(initial=0.0)),
        float(ulp.max(initial=0.0)),
    )


def distance(a: Array, b: Array) -> Array:
    """How far elements lie apart: 0 where they are equal, infinities too; NaN where either is NaN."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(np.subtract(a, b, dtype=np.float64)))


def worse(a: Difference, b: Difference) -> Difference:
    """Two outputs, or two draws, in one: the larger figures, and the tolerance of the larger error."""
    largest, tightest = max((a.max_abs, -a.tolerance), (b.max_abs, -b.tolerance))
    return Difference(
        a.problem or b.problem,
        largest,
        -tightest,
        max(a.bound_used, b.bound_used),
        max(a.max_rel, b.max_rel),
        max(a.max_ulp, b.max_ulp),
    )


def same_bits(a: Array, b: Array) -> bool:
    """Whether two outputs are equal bit for bit; zeros whatever their sign, and any NaN equals any other."""
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def first_unlike(name: str, a: Array, b: Array) -> str | None:
    """Where two arrays of one shape and dtype are not `same_bits`: the element that is furthest off, and how many are.

    None where they are. Elements are as far apart as can be where one of two is NaN.
    """
    if same_bits(a, b):
        return None
    alike = (a == b) | ((a != a) & (b != b))
    apart = np.where(alike, -1.0, np.nan_to_num(distance(a, b), nan=np.inf, posinf=np.inf))
    worst = int(np.argmax(apart))
    count = int(np.count_nonzero(~alike))
    return (
        f"{_element(name, worst, a.shape)} is {a.flat[worst]:.9g} and {b.flat[worst]:.9g}; "
        f"{count} of {a.size} elements differ"
    )


def _element(name: str, flat: int, shape: tuple[int, ...]) -> str:
    """The element at a flat position, as LEIR writes it."""
    place = ",".join(str(int(index)) for index in np.unravel_index(flat, shape))
    return f"{name}_{{{place}}}" if place else name


def significant(value: float, digits: int = 3) -> float:
    """The number rounded to a few significant digits, as it is recorded; 1e308 for infinity, which JSON lacks."""
    return float(f"{min(value, 1e308):.{digits - 1}e}")


def _unit(size: Array, dtype: DType) -> Array:
    """One unit in the last place of numbers of a size, in a float type; 1 for integers."""
    format = FORMATS.get(dtype)
    if format is None:
        return np.ones_like(size)
    _, exponent = np.frexp(np.maximum(size, format.smallest))
    return np.ldexp(1.0, exponent - format.bits)
