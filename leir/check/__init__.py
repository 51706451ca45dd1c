"""Whether a program is well formed: every rule of the language, each proved or reported.

`check` returns every diagnostic that it finds, in the order of the text, and never raises on a bad program. Rules about
names, ranks and types come first; the questions about sets (bounds, definedness, loop kinds) are asked about the
statements that these leave standing.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from leir.check.allocation import check_allocation
from leir.check.bounds import check_bounds, preconditions
from leir.check.codes import CODES
from leir.check.definedness import check_definedness
from leir.check.diagnostic import Diagnostic, IllFormed, Limits, Located
from leir.check.divisors import check_divisors
from leir.check.inputs import input_ranges
from leir.check.kernels import check_kernels
from leir.check.kinds import check_kinds
from leir.check.names import check_names, check_ranks, check_sizes, check_tree, names_and_ranks_agree
from leir.check.overflow import check_overflow
from leir.check.standing import concerns, has_kernels, standing
from leir.check.types import check_types
from leir.edit import accesses, expression_at
from leir.syntax import Program

if TYPE_CHECKING:
    from leir.parser import Source

__all__ = [
    "CODES", "Diagnostic", "IllFormed", "Limits", "Located", "check", "check_source", "input_ranges",
    "preconditions", "require_well_formed",
]  # fmt: skip


def check(program: Program, limits: Limits = Limits()) -> tuple[Diagnostic, ...]:  # noqa: B008 (frozen)
    """Every diagnostic of a program, in the order of the text; empty for a well-formed one."""
    return _checked(program, limits)


@lru_cache(maxsize=1024)
def _checked(program: Program, limits: Limits) -> tuple[Diagnostic, ...]:
    found = [*check_tree(program)]
    if not found:
        if not names_and_ranks_agree(program):
            found += check_names(program)
            found += check_ranks(program)
        found += check_types(program)
        found += list(_check_divisors(program, found))
        found += check_allocation(program)
        found += check_kernels(program, limits)
        found += list(_check_sets(program, found))
    return tuple(sorted(dict.fromkeys(found), key=lambda d: (d.place.path, d.place.within or ())))


def _check_divisors(program: Program, found: list[Diagnostic]) -> Iterator[Diagnostic]:
    """Divisors of the statements that the other findings leave standing, but for what these would have computed."""
    rest = standing(program, found)
    if rest is None:
        return
    remaining, lost = rest
    for diagnostic in check_divisors(remaining):
        divisor = expression_at(remaining, diagnostic.place)
        if lost.isdisjoint(access.tensor for access in accesses(divisor)):
            yield diagnostic


def _check_sets(program: Program, found: list[Diagnostic]) -> Iterator[Diagnostic]:
    """Bounds, definedness and loop kinds of the statements that the other findings leave standing."""
    rest = standing(program, found)
    if rest is None:
        return
    remaining, lost = rest

    def proofs(program: Program) -> Iterator[Diagnostic]:
        yield from check_sizes(program)
        yield from check_bounds(program)
        yield from (d for d in check_definedness(program) if not concerns(d, program, lost))
        if has_kernels(found):
            yield from check_kinds(program)

    objections = [*proofs(remaining)]
    yield from objections or check_overflow(remaining, proofs)


def check_source(source: "Source", limits: Limits = Limits()) -> tuple[Located, ...]:  # noqa: B008 (frozen)
    """Every diagnostic of a parsed text, with its lines and columns."""
    result: list[Located] = []
    for diagnostic in check(source.program, limits):
        span = source.span(diagnostic.place)
        located = Located(diagnostic, source.file, span.line, span.column, span.end_line, span.end_column)
        result.append(located)
    return tuple(result)


def require_well_formed(program: Program, limits: Limits = Limits()) -> None:  # noqa: B008 (frozen)
    """Raises IllFormed with every diagnostic of the program, if it has any."""
    diagnostics = check(program, limits)
    if diagnostics:
        raise IllFormed(diagnostics)
