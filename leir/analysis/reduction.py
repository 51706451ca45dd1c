"""Whether a nest reduces rows, and whether an equation writes no element twice."""

from leir.analysis.isl import TooHard, example, question
from leir.analysis.model import domain, lifetimes, statements_of, subscripts
from leir.analysis.types import is_float
from leir.edit import accesses, dtypes, expressions, perfect_nest, sole_equation, statement_at, variables_of, walk
from leir.printer import statement_text
from leir.syntax import Access, AssignOp, Equation, Loop, Path, Program, Variable


def why_not_reduction(program: Program, nest: Path, op: AssignOp) -> str:
    """Why the nest at a path is not all of a reduction of floats by an operator, in words; empty if it is.

    It is if it holds one accumulation by the operator, over at least one loop of the nest, nothing else writes its
    tensor, and no guard around reads it.
    """
    levels = perfect_nest(statement_at(program, nest), nest)
    found = sole_equation(statement_at(program, nest), nest)
    if found is None:
        return "the nest holds more than one equation"
    _, equation = found
    text, tensor = statement_text(equation), equation.target.tensor
    rows = variables_of(equation.target)
    if equation.op != op or all(level.variable in rows for _, level in levels if isinstance(level, Loop)):
        return f"{text} is no reduction by {op} over a loop of its nest"
    if not is_float(dtypes(program)[tensor]):
        return f"{tensor} is {dtypes(program)[tensor]}, not a float"
    if sum(isinstance(s, Equation) and s.target.tensor == tensor for _, s in walk(program)) > 1:
        return f"{text} is not the only equation that writes {tensor}"
    if any(a.tensor == tensor for _, level in levels for e in expressions(level) for a in accesses(e)):
        return f"a guard around {text} reads {tensor}"
    return ""


def writes_apart(program: Program, equation: Path) -> bool:
    """Whether no two instances of an equation write one element in one lifetime; False where it cannot be proved."""
    statement = next(s for s in statements_of(program) if s.path == equation)
    assert isinstance(statement.node, Equation)
    target = statement.uses[-1]
    life = lifetimes(program).get(statement.node.target.tensor, 0)
    apart = [
        number
        for number, (_, loop) in enumerate(statement.loops)
        if number >= life and not _is_subscript(target.access, loop.variable)
    ]
    if not apart:
        return True
    sides = [subscripts(target, statement.names(tag, life)) for tag in ("a", "b")]
    if None in sides[0]:
        return False
    equal = [f"{one} = {other}" for one, other in zip(*sides, strict=True)]
    names = [statement.dimensions(tag, life) for tag in ("a", "b")]
    dimensions = [*names[0], *names[1][life:]]
    where = [*domain(statement, "a", life), *domain(statement, "b", life), *equal]
    try:
        return all(example(question(dimensions, [*where, f"{names[0][n]} < {names[1][n]}"])) is None for n in apart)
    except TooHard:
        return False


def _is_subscript(access: Access, variable: str) -> bool:
    """Whether one subscript is the variable itself: then equal elements mean equal values."""
    return Variable(variable) in access.indices
