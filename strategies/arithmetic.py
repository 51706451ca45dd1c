"""Arithmetic expressions at their places: what algebraic strategies look at."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from leir.analysis.algebra import Algebra
from leir.analysis.intervals import Range
from leir.analysis.spelling import same_spelling
from leir.analysis.terms import Term, is_sum, term_of, terms_of
from leir.analysis.types import Kinds, Weak
from leir.analysis.values import Ranges, value_of
from leir.edit import dtypes, expressions_to, walk
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Path,
    Place,
    Program,
    Real,
    Select,
    operands,
)
from strategies.base import path_text
from strategies.bounded import bounded, bounded_closer


@dataclass(slots=True)
class Setting:
    """An arithmetic expression at its place, and the algebra of its type."""

    program: Program
    place: Place
    expression: Expr
    parent: Expr | None  # the expression around, None for a whole value
    value: Expr  # of the equation
    algebra: Algebra
    _found: Ranges | None = field(default=None)

    @property
    def dtype(self) -> DType:
        return self.algebra.dtype

    def is_atom(self, expression: Expr) -> bool:
        return self.algebra.is_atom(expression)

    @property
    def is_sum(self) -> bool:
        return is_sum(self.expression, self.is_atom)

    @property
    def is_whole_sum(self) -> bool:
        """Whether the expression is a sum that is no part of a longer one."""
        return self.is_sum and (self.parent is None or not is_sum(self.parent, self.is_atom))

    @property
    def terms(self) -> tuple[Term, ...]:
        return terms_of(self.expression, self.is_atom)

    @property
    def term(self) -> Term:
        return term_of(self.expression, self.is_atom)

    def parts_of(self, expression: Expr) -> Term:
        """A part of the expression as one term."""
        return term_of(expression, self.is_atom)

    def computes_here(self, expression: Expr) -> bool:
        """Whether an expression has the type of the arithmetic at the place, and is none of literals alone."""
        return self.algebra.kinds.of(expression) == self.dtype

    def same(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions are the same operand: up to commuted operands, and sums up to their writing."""
        if same_spelling(left, right):
            return True
        both_sums = is_sum(left, self.is_atom) and is_sum(right, self.is_atom)
        return both_sums and self.algebra.same(left, right)

    def ranges(self) -> Ranges:
        if self._found is None:
            self._found = bounded(self.program)
        return self._found

    def range_of(self) -> Callable[[Expr], Range]:
        """Bounds of any expression, were it evaluated at the place."""
        return self._range_of(self.ranges())

    def closer(self) -> Callable[[Expr], Range]:
        """The same for smaller inputs (`bounded_closer`)."""
        return self._range_of(bounded_closer(self.program))

    def _range_of(self, found: Ranges) -> Callable[[Expr], Range]:
        _, known = found.reached(self.place)
        return lambda expression: value_of(expression, known, found, self.place.path)


@remembered
def kinds_of(program: Program) -> Kinds:
    """The types of expressions at a program's places, for all that ask."""
    return Kinds(dtypes(program))


def places(program: Program) -> tuple[Place, ...]:
    """Where arithmetic stands in the values of equations, subscripts left out, in the order of the text."""
    return tuple(_arithmetic(program))


class _Arithmetic(NamedTuple):
    """An arithmetic expression, the one around it and the equation's value that both are in, and its type."""

    expression: Expr
    parent: Expr | None
    value: Expr
    dtype: DType


@remembered
def _arithmetic(program: Program) -> dict[Place, _Arithmetic]:
    kinds = kinds_of(program)
    found: dict[Place, _Arithmetic] = {}
    for path, node in walk(program):
        if isinstance(node, Equation):
            for within, expression, parent in _computed(node.value, (1,), None):
                dtype = _computes_in(expression, kinds)
                if dtype is not None:
                    found[Place(path, within)] = _Arithmetic(expression, parent, node.value, dtype)
    return found


def _computed(expression: Expr, within: Path, parent: Expr | None) -> Iterator[tuple[Path, Expr, Expr | None]]:
    yield within, expression, parent
    if not isinstance(expression, Access):
        for number, operand in enumerate(operands(expression)):
            yield from _computed(operand, (*within, number), expression)


def _computes_in(expression: Expr, kinds: Kinds) -> DType | None:
    """The type of an expression that arithmetic can rewrite; None for a literal, a condition or an integer quotient."""
    if isinstance(expression, Access | Call | Cast | Select | Real):
        return None
    kind = kinds.of(expression)
    if isinstance(kind, Weak) or kind == "bool":
        return None
    return None if Algebra(kinds, kind).is_atom(expression) else kind


def setting_at(program: Program, place: Place) -> Setting:
    """The expression at a place, which `why_not_arithmetic` has found to be one."""
    found = _arithmetic(program)[place]
    algebra = Algebra(kinds_of(program), found.dtype)
    return Setting(program, place, found.expression, found.parent, found.value, algebra)


def chain_to(program: Program, place: Place) -> list[Expr]:
    """The expressions from an equation's value down to the one at a place; empty where there is none."""
    if (place.within or ())[:1] != (1,):
        return []
    try:
        return expressions_to(program, place)
    except LookupError:
        return []


def why_not_arithmetic(program: Program, place: Place) -> str:
    """Why nothing that arithmetic can rewrite stands at a place; empty if something does."""
    if place in _arithmetic(program):
        return ""
    chain = chain_to(program, place)
    if not chain:
        return f"no part of a value stands at {path_text(place.path)}, {path_text(place.within or ())}"
    text = expression_text(chain[-1])
    if any(isinstance(outer, Access) for outer in chain[:-1]):
        return f"{text} is part of a subscript"
    return f"{text} is no sum, product or quotient"
