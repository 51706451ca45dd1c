"""Every divisor of // and % is proven nonzero: a literal, a range without zero, or a guard."""

from collections.abc import Iterator

from leir.analysis.ranges import ranges
from leir.analysis.types import is_integer, type_of
from leir.check.diagnostic import Diagnostic
from leir.edit import dtypes, walk_places
from leir.printer import expression_text
from leir.syntax import Binary, Integer, Place, Program


def check_divisors(program: Program) -> Iterator[Diagnostic]:
    """The divisors that may be zero. Divisors that are no integers are another finding."""
    types = dtypes(program)
    for place, expression in walk_places(program):
        match expression:
            case Binary("//" | "%" as op, _, divisor):
                if (isinstance(divisor, Integer) and divisor.value > 0) or not is_integer(type_of(divisor, types)):
                    continue
                at = Place(place.path, (*(place.within or ()), 1))
                bounds = ranges(program).at(at)
                if bounds.zero:
                    text = expression_text(divisor)
                    message = f"the divisor {text} of {op} is in {bounds} and may be zero: guard it, or max({text},1)"
                    yield Diagnostic("divisor-maybe-zero", message, at)
            case _:
                pass
