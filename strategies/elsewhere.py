"""What other equations of a program say of an expression: what made it, who computes it too, who joins it with what.

Answers hold in the loops around the statement that asks, and are proved by `leir.analysis.solving`.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from leir.analysis.definitions import Definitions, Opening, definitions_of, why_written_between
from leir.analysis.matching import shape_of
from leir.analysis.model import Statement
from leir.analysis.solving import moved, term_values
from leir.edit import accesses, subexpressions, variables_of
from leir.remembered import remembered
from leir.syntax import Access, Equation, Expr, Path, Place, Program

Halves = Callable[[Expr], Iterable[tuple[Expr, Expr]]]


class _ByShape:
    """The parts of a program's values by their shape, in the order of the text; what is the same has one shape."""

    def __init__(self, program: Program) -> None:
        self._parts: list[tuple[Path, Expr]] = []
        for path, statement in definitions_of(program).statements.items():
            assert isinstance(statement.node, Equation)
            self._parts += [(path, part) for part in subexpressions(statement.node.value)]
        self._alone: dict[str, list[tuple[Path, Expr]]] = {}
        for path, part in self._parts:
            self._alone.setdefault(shape_of(part), []).append((path, part))
        self._joined: dict[Halves, dict[str, list[tuple[Path, Expr, Expr]]]] = {}

    def parts(self, expression: Expr) -> list[tuple[Path, Expr]]:
        """The parts with the shape of an expression."""
        return self._alone.get(shape_of(expression), [])

    def pairs(self, expression: Expr, halves: Halves) -> list[tuple[Path, Expr, Expr]]:
        """The halves of parts of which the first has the shape of an expression."""
        if halves not in self._joined:
            found = self._joined[halves] = {}
            for path, part in self._parts:
                for one, partner in halves(part):
                    found.setdefault(shape_of(one), []).append((path, one, partner))
        return self._joined[halves].get(shape_of(expression), [])


@remembered
def _by_shape(program: Program) -> _ByShape:
    return _ByShape(program)


@lru_cache(maxsize=1024)  # asked for each part of an equation that reads the element
def definition(program: Program, access: Access, at: Path) -> Expr | None:
    """What the one equation stores that writes an element which the statement at a path reads, in the loops there."""
    definitions = definitions_of(program)

    def wanted(read: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        return read == access and isinstance(statement.node, Equation) and statement.node.op == "="

    opening = Opening(definitions, wanted)
    found = opening.expression(access, definitions.identity(at), at, definitions.frame(at))
    return None if found == access else found


def occurs_elsewhere(program: Program, expression: Expr, place: Place) -> Path | None:
    """The path of another equation that computes the same: the first of both in the text can serve the other."""
    definitions = definitions_of(program)
    for path, part in _by_shape(program).parts(expression):
        if path != place.path and _serves(definitions, (path, part), (place.path, expression)):
            return path
    return None


def partners(program: Program, path: Path, expression: Expr, halves: Halves) -> Iterator[Expr]:
    """What other equations join an expression with, in the loops around the statement at a path.

    `halves`: of a part of an equation's value, the pairs of which the first may be the expression.
    """
    definitions = definitions_of(program)
    for other, one, partner in _by_shape(program).pairs(expression, halves):
        if other == path:
            continue
        shared = definitions.shared(other, path)
        known = {name: value for name, value in definitions.identity(path).items() if name in shared}
        loops = {n.variable: n for _, n in definitions.statements[other].loops if n.variable not in shared}
        values = term_values(one, expression, known, loops, definitions.frame(path))
        if values is not None and variables_of(partner) <= values.keys():
            yield moved(partner, values)


def _serves(definitions: Definitions, one: tuple[Path, Expr], other: tuple[Path, Expr]) -> bool:
    """Whether the first in the text of two expressions has every value of the other in some iteration of its own.

    Their operands have not changed in between.
    """
    (first, pattern), (second, value) = sorted((one, other), key=lambda each: each[0])
    shared = definitions.shared(first, second)
    known = {name: found for name, found in definitions.identity(second).items() if name in shared}
    loops = {n.variable: n for _, n in definitions.statements[first].loops if n.variable not in shared}
    found = term_values(pattern, value, known, loops, definitions.frame(second))
    tensors = dict.fromkeys(access.tensor for access in accesses(pattern))
    return found is not None and not any(why_written_between(definitions, name, first, second) for name in tensors)
