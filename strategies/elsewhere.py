"""What other equations of a program say of an expression: what made it, who computes it too, who joins it with what.

Answers hold in the loops around the statement that asks, and are proved by `leir.analysis.solving`.
"""

from collections.abc import Callable, Iterable, Iterator

from leir.analysis.definitions import Definitions, Opening, definitions_of, why_written_between
from leir.analysis.matching import shape_of
from leir.analysis.model import Statement
from leir.analysis.solving import moved, term_values
from leir.edit import accesses, subexpressions, variables_of
from leir.syntax import Access, Equation, Expr, Path, Place, Program


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
    for path, statement in definitions.statements.items():
        assert isinstance(statement.node, Equation)
        for part in subexpressions(statement.node.value) if path != place.path else ():
            if shape_of(part) == shape_of(expression) and _serves(definitions, (path, part), (place.path, expression)):
                return path
    return None


def partners(
    program: Program, path: Path, expression: Expr, halves: Callable[[Expr], Iterable[tuple[Expr, Expr]]]
) -> Iterator[Expr]:
    """What other equations join an expression with, in the loops around the statement at a path.

    `halves`: of a part of an equation's value, the pairs of which the first may be the expression.
    """
    definitions = definitions_of(program)
    frame = definitions.frame(path)
    for other, statement in definitions.statements.items():
        assert isinstance(statement.node, Equation)
        shared = definitions.shared(other, path)
        known = {name: value for name, value in definitions.identity(path).items() if name in shared}
        loops = {n.variable: n for _, n in statement.loops if n.variable not in shared}
        joined = (pair for part in subexpressions(statement.node.value) for pair in halves(part))
        for one, partner in joined if other != path else ():
            values = (
                term_values(one, expression, known, loops, frame) if shape_of(one) == shape_of(expression) else None
            )
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
