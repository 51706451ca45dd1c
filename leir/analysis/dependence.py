"""Dependences: two instances that touch one element, at least one of them writing.

Storage is expanded by lifetime, so that temporaries private to an iteration never conflict. Memory-based: a value that
is overwritten in between still counts. An accumulation's dependence on itself is told apart, as `reduction`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from leir.analysis.affine import is_exact
from leir.analysis.isl import TooHard, example, question
from leir.analysis.model import (
    Statement,
    Use,
    element_text,
    lifetimes,
    names_at,
    reach,
    statements_of,
    subscripts,
)
from leir.edit import statement_at
from leir.printer import expression_text
from leir.syntax import Loop, Path, Place, Program, Variable

Kind = Literal["flow", "anti", "output", "reduction"]
Iteration = tuple[tuple[str, int], ...]  # loop variables with their values, outside first


class Touch(NamedTuple):
    """An access of a statement."""

    statement: Statement
    use: Use


@dataclass(frozen=True, slots=True)
class Violation:
    """Two instances that conflict; `source` runs first. `exact` is False where isl could only not rule them out.

    `element` is the one that both touch, as text; empty where it is not known.
    """

    tensor: str
    kind: Kind
    source: Place
    target: Place
    source_iteration: Iteration
    target_iteration: Iteration
    source_text: str
    target_text: str
    element: str
    exact: bool

    def __str__(self) -> str:
        first = f"{self.source_text}{at(self.source_iteration)}"
        second = f"{self.target_text}{at(self.target_iteration)}"
        if self.exact:
            return f"{_VERBS[self.kind].format(first, second)}: both are {self.element}"
        return f"{first} and {second} may touch the same element of {self.tensor}: not provable otherwise"


_VERBS = {
    "flow": "{1} reads what {0} wrote",
    "anti": "{1} overwrites what {0} read",
    "output": "{1} overwrites what {0} wrote",
    "reduction": "{0} and {1} accumulate",
}


def at(iteration: Iteration) -> str:
    """` at i=3, j=4`, or nothing outside loops."""
    return f" at {', '.join(f'{variable}={value}' for variable, value in iteration)}" if iteration else ""


def carries_dependence(program: Program, loop_path: Path) -> Violation | None:
    """A dependence between two iterations of the loop at `loop_path`, in one iteration of the loops around it.

    A reduction across the loop is reported only where there is no other dependence.
    """
    loop = statement_at(program, loop_path)
    if not isinstance(loop, Loop):
        raise ValueError(f"{loop_path} is not a loop")
    life = lifetimes(program)
    reductions: list[tuple[Touch, Touch]] = []
    for touches in touches_by_tensor(program, loop_path).values():
        depth = loop_number(touches[0].statement, loop_path)
        if life.get(touches[0].use.access.tensor, 0) > depth:
            continue  # each iteration has its own
        for first, second in pairs(touches):
            if index_alone(first, depth) & index_alone(second, depth):
                continue  # both name the iteration in one subscript
            if is_reduction(first, second):
                reductions.append((first, second))
            elif found := _carried(first, second, depth, life):
                return found
    for first, second in reductions:
        depth = loop_number(first.statement, loop_path)
        if found := _carried(first, second, depth, life):
            return found
    return None


def _carried(first: Touch, second: Touch, depth: int, life: dict[str, int]) -> Violation | None:
    return conflict(first, second, depth, life, [f"x{depth} < y{depth}"])


def touches_by_tensor(program: Program, path: Path = ()) -> dict[str, list[Touch]]:
    """The accesses at and below a path, for each tensor that is written there."""
    result: dict[str, list[Touch]] = {}
    written: set[str] = set()
    for statement in statements_of(program):
        if statement.path[: len(path)] == path:
            for use in statement.uses:
                result.setdefault(use.access.tensor, []).append(Touch(statement, use))
                if use.mode != "read":
                    written.add(use.access.tensor)
    return {tensor: touches for tensor, touches in result.items() if tensor in written}


def pairs(touches: Sequence[Touch]) -> Iterator[tuple[Touch, Touch]]:
    """Every ordered pair of which at least one writes; an access with itself too."""
    for first in touches:
        for second in touches:
            if first.use.mode != "read" or second.use.mode != "read":
                yield first, second


def is_reduction(first: Touch, second: Touch) -> bool:
    """Whether both are accumulations with one operator, whose order is free but for rounding."""
    return first.use.mode == second.use.mode == "update" and first.use.op == second.use.op


def loop_number(statement: Statement, loop_path: Path) -> int:
    """The position of a loop among the loops around a statement."""
    return next(number for number, (path, _) in enumerate(statement.loops) if path == loop_path)


def index_alone(touch: Touch, number: int) -> set[int]:
    """The subscripts that are exactly the variable of one loop around the statement."""
    variable = touch.statement.loops[number][1].variable
    if touch.statement.names("x")[variable] != f"x{number}":
        return set()  # shadowed
    return {n for n, index in enumerate(touch.use.access.indices) if index == Variable(variable)}


def conflict(first: Touch, second: Touch, shared: int, life: dict[str, int], extra: Iterable[str]) -> Violation | None:
    """Instances of both accesses that touch one element, where the values of the first `shared` loops agree.

    `extra`: further constraints on the loop values: `s<n>` of shared loops, `x<n>` of the first, `y<n>` of the second.
    """
    where = [*reach(first.statement, first.use, "x", shared), *reach(second.statement, second.use, "y", shared)]
    where += same_element(first, second, shared, life)
    where += extra
    xs, ys = first.statement.dimensions("x", shared), second.statement.dimensions("y", shared)
    dimensions = [*xs, *ys[shared:]]
    exact = is_known(first) and is_known(second)
    try:
        point = example(question(dimensions, where))
    except TooHard:
        return _violation(first, second, (), (), False)
    if point is None:
        return None
    values = dict(zip(dimensions, point, strict=True))
    source, target = tuple(values[x] for x in xs), tuple(values[y] for y in ys)
    if _moment(second.statement, target) < _moment(first.statement, source):
        return _violation(second, first, target, source, exact)
    return _violation(first, second, source, target, exact)


def _moment(statement: Statement, values: tuple[int, ...]) -> tuple[int, ...]:
    """When an instance runs: list positions and loop values in turn."""
    chosen = dict(zip((path for path, _ in statement.loops), values, strict=True))
    result: list[int] = []
    for length in range(1, len(statement.path) + 1):
        path = statement.path[:length]
        result += [path[-1], *([chosen[path]] if path in chosen else [])]
    return tuple(result)


def same_element(first: Touch, second: Touch, shared: int, life: dict[str, int]) -> list[str]:
    """isl constraints: one lifetime and equal subscripts, as far as both are quasi-affine."""
    alive = min(life.get(first.use.access.tensor, 0), len(first.statement.loops), len(second.statement.loops))
    result = [f"x{n} = y{n}" for n in range(shared, alive)]
    left = subscripts(first.use, first.statement.names("x", shared))
    right = subscripts(second.use, second.statement.names("y", shared))
    for a, b in zip(left, right, strict=False):
        if a is not None and b is not None and a != b:
            result.append(f"{a} = {b}")
    return result


def is_known(touch: Touch) -> bool:
    """Whether subscripts and conditions of an access are all quasi-affine."""
    statement, use = touch
    names = statement.names("x")
    return (
        None not in subscripts(use, names)
        and all(is_exact(guard.condition, names_at(statement, path, "x")) for path, guard in statement.guards)
        and all(is_exact(condition, names) for condition, _ in use.conditions)
    )


def _violation(first: Touch, second: Touch, source: tuple[int, ...], target: tuple[int, ...], exact: bool) -> Violation:
    source_iteration, target_iteration = iteration(first.statement, source), iteration(second.statement, target)
    return Violation(
        first.use.access.tensor, _kind(first, second), first.use.place, second.use.place,
        source_iteration, target_iteration, expression_text(first.use.access), expression_text(second.use.access),
        element_text(first.use.access, dict(source_iteration)) if exact else "", exact,
    )  # fmt: skip


def iteration(statement: Statement, values: Iterable[int]) -> Iteration:
    """Loop values with the names of their variables."""
    return tuple((loop.variable, value) for (_, loop), value in zip(statement.loops, values, strict=False))


def _kind(first: Touch, second: Touch) -> Kind:
    if is_reduction(first, second):
        return "reduction"
    if second.use.mode != "write" and first.use.mode != "read":
        return "flow"
    return "anti" if first.use.mode == "read" else "output"
