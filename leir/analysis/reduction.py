"""Accumulations over loops: what is reduced, by which levels, and whether an equation writes no element twice."""

from dataclasses import dataclass

from leir.analysis.isl import TooHard, example, question
from leir.analysis.model import domain, lifetimes, statements_of, subscripts
from leir.analysis.types import is_float
from leir.edit import (
    accesses,
    dtypes,
    enclosing,
    equation_paths,
    expressions,
    has_statement,
    perfect_nest,
    sole_equation,
    statement_at,
    variables_of,
    walk,
)
from leir.printer import equation_text
from leir.syntax import Access, AssignOp, Equation, Expr, Guard, Loop, Path, Program, Stmt, Variable

Levels = tuple[Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The equation at `path`, an accumulation, and all its iterations in one lifetime of its tensor.

    `nest`: the outermost statement that belongs to it, the equation itself where no loop does; `levels`: the loops and
    guards from there down; `is_alone`: whether the nest holds nothing else.
    """

    path: Path
    equation: Equation
    nest: Path
    levels: Levels
    is_alone: bool

    def reduced(self) -> tuple[Loop, ...]:
        """The loops over the terms."""
        rows = variables_of(self.equation.target)
        return tuple(n for n in self.levels if isinstance(n, Loop) and n.variable not in rows)

    def divided(self) -> tuple[Levels, Levels]:
        """The levels around a row's work and those of its terms, each in their order.

        A guard belongs to the terms if it reads a variable of them, or a tensor behind a guard that does.
        """
        rows: list[Loop | Guard] = []
        within: list[Loop | Guard] = []
        reduced = {loop.variable for loop in self.reduced()}
        for level in self.levels:
            match level:
                case Loop(variable=variable):
                    inner = variable in reduced
                case Guard(condition):
                    is_protected = any(accesses(condition)) and any(isinstance(n, Guard) for n in within)
                    inner = bool(variables_of(condition) & reduced) or is_protected
            (within if inner else rows).append(level)
        return tuple(rows), tuple(within)


def accumulation_at(program: Program, path: Path) -> Accumulation | None:
    """The accumulation of a nest that holds one equation, or of an equation, with the loops around that it sums over.

    None where the path is that of anything else.
    """
    if not path or not has_statement(program, path):
        return None
    statement = statement_at(program, path)
    if isinstance(statement, Equation):
        around = enclosing(program, path)
        rows = variables_of(statement.target)
        life = lifetimes(program).get(statement.target.tensor, 0)
        loops = [(where, level) for where, level in around if isinstance(level, Loop)][life:]
        nest = next((where for where, loop in loops if loop.variable not in rows), path)
        own = [(where, level) for where, level in around if len(where) >= len(nest)]
        alone = all(len(level.body) == 1 for _, level in own)
        return Accumulation(path, statement, nest, tuple(level for _, level in own), alone)
    found = sole_equation(statement, path)
    if found is None:
        return None
    return Accumulation(*found, path, tuple(level for _, level in perfect_nest(statement, path)), True)


def accumulations(program: Program, op: AssignOp) -> tuple[Path, ...]:
    """The accumulations by an operator: the largest nest of its own that holds its loops, or the equation."""
    result: list[Path] = []
    for path in equation_paths(program):
        equation = statement_at(program, path)
        if not isinstance(equation, Equation) or equation.op != op:
            continue
        nest = path
        while len(nest) > 1 and sole_equation(statement_at(program, nest[:-1])) is not None:
            nest = nest[:-1]
        whole = accumulation_at(program, path)
        assert whole is not None
        holds = whole.nest[: len(nest)] == nest and whole.nest != path
        result.append(nest if holds else path)
    return tuple(result)


def why_not_reduction(program: Program, path: Path, op: AssignOp) -> str:
    """Why what stands at a path is not all of a reduction of floats by an operator, in words; empty if it is.

    It is if it holds one accumulation by the operator, over at least one loop, nothing else writes its tensor, and no
    guard of it reads that.
    """
    found = accumulation_at(program, path)
    if found is None:
        return "the nest holds more than one equation"
    text, tensor = equation_text(found.equation), found.equation.target.tensor
    if found.equation.op != op or not found.reduced():
        return f"{text} is no reduction by {op} over a loop of its nest"
    if not is_float(dtypes(program)[tensor]):
        return f"{tensor} is {dtypes(program)[tensor]}, not a float"
    if sum(isinstance(s, Equation) and s.target.tensor == tensor for _, s in walk(program)) > 1:
        return f"{text} is not the only equation that writes {tensor}"
    if any(a.tensor == tensor for level in found.levels for e in expressions(level) for a in accesses(e)):
        return f"a guard around {text} reads {tensor}"
    return ""


def why_read_early(program: Program, found: Accumulation) -> str:
    """Which statement may see a result of an accumulation before it has all its terms; empty if none does.

    All its terms are taken in one iteration of the loops around `found.nest`, which tell elements or lifetimes apart.
    """
    tensor = found.equation.target.tensor
    for path, statement in walk(program):
        if path == found.path or not any(a.tensor == tensor for e in _evaluated(statement) for a in accesses(e)):
            continue
        if path[: len(found.nest)] <= found.nest:
            return f"{equation_text(statement)} reads {tensor} before {equation_text(found.equation)} is through"
    return ""


def _evaluated(statement: Stmt) -> tuple[Expr, ...]:
    """What a statement itself reads: the value and the target's subscripts of an equation, a guard's condition."""
    if isinstance(statement, Equation):
        return (*statement.target.indices, statement.value)
    return expressions(statement)


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
