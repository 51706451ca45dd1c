"""Every divisor of // and % is proven nonzero: a literal, a range without zero, or a guard."""

from collections.abc import Iterator
from functools import lru_cache

from leir.analysis.ranges import ranges
from leir.analysis.types import is_integer, type_of
from leir.check.diagnostic import Diagnostic
from leir.edit import dtypes, expressions, walk_expression, walk_with
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Path, Place, Program, Stmt


def check_divisors(program: Program) -> Iterator[Diagnostic]:
    """The divisors that may be zero. Divisors that are no integers are another finding."""
    types = dtypes(program)
    for number, statement in enumerate(program.body):
        for path, within, op, divisor in _questionable(statement):
            if is_integer(type_of(divisor, types)):
                at = Place((number, *path), (*within, 1))
                bounds = ranges(program).at(at)
                if bounds.zero:
                    text = expression_text(divisor)
                    message = f"the divisor {text} of {op} is in {bounds} and may be zero: guard it, or max({text},1)"
                    yield Diagnostic("divisor-maybe-zero", message, at)


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _questionable(outermost: Stmt) -> tuple[tuple[Path, Path, str, Expr], ...]:
    """The divisions of // and % in an outermost statement by what is no literal, with their places from there."""
    found: list[tuple[Path, Path, str, Expr]] = []
    for path, statement in walk_with(outermost):
        for number, whole in enumerate(expressions(statement)):
            for within, expression in walk_expression(whole, (number,)):
                match expression:
                    case Binary("//" | "%" as op, _, divisor):
                        if not isinstance(divisor, Integer) or divisor.value == 0:
                            found.append((path, within, op, divisor))
                    case _:
                        pass
    return tuple(found)
