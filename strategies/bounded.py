"""The ranges that identities rest on: of inputs that are finite, and of ordinary size.

Inputs of a float type are taken to be finite, and at most `LARGEST_INPUT` in magnitude (f16: any finite number).
Whatever is proved holds for such inputs; where bounds would be others for smaller inputs, evidence says so.
"""

from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import lru_cache

from leir.analysis.intervals import Range, largest, span
from leir.analysis.ranges import ranges
from leir.analysis.types import computing_type, is_float
from leir.analysis.values import Ranges
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import Expr, Program, Real

LARGEST_INPUT = 2.0**20  # of f32, bf16 and f64: far beyond what models are fed, far below where products overflow
ASSUMING = f"for inputs of at most {LARGEST_INPUT:.0f} in magnitude, "

RangeOf = Callable[[Expr], Range]


@remembered
@lru_cache(maxsize=32)
def bounded(program: Program) -> Ranges:
    """The ranges of a program for inputs that are finite and not huge."""
    return _ranges(program, LARGEST_INPUT)


@remembered
@lru_cache(maxsize=32)
def bounded_closer(program: Program) -> Ranges:
    """The ranges for inputs of half that size: bounds that differ from those of `bounded` rest on the size."""
    return _ranges(program, LARGEST_INPUT / 2)


def _ranges(program: Program, most: float) -> Ranges:
    assume: dict[str, Range] = {}
    for declaration in program.inputs:
        if is_float(declaration.dtype):
            size = min(most, largest(declaration.dtype))
            assume[declaration.tensor] = span(-size, size, computing_type(declaration.dtype))
    return ranges(program, assume)


def bounds_text(expressions: Iterable[Expr], range_of: RangeOf, closer: RangeOf) -> str:
    """What expressions lie in, one clause each, literals left out; `closer`: their ranges by `bounded_closer`."""
    found = {each: range_of(each) for each in expressions if not isinstance(each, Real)}
    shown = "; ".join(f"{expression_text(each)} is in {bounds}" for each, bounds in found.items())
    return assumed(any(closer(each) != bounds for each, bounds in found.items())) + shown


def assumed(rests: bool) -> str:
    """How a clause begins that holds for inputs of ordinary size; empty where it does not rest on their size."""
    return ASSUMING if rests else ""


def at_most(value: float) -> str:
    """An upper bound in three digits, rounded up: no more is said to hold than does."""
    return _rounded(value, ROUND_CEILING)


def at_least(value: float) -> str:
    """A lower bound in three digits, rounded down."""
    return _rounded(value, ROUND_FLOOR)


def _rounded(value: float, how: str) -> str:
    return f"{float(Context(prec=3, rounding=how).create_decimal_from_float(value)):.3g}"
