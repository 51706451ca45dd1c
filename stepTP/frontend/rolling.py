"""Python loops that tracing wrote out, rolled up again: a run of equal segments becomes one serial loop.

`for t in range(T): h = cell(x[:, t], h)` reaches the translator as T copies of a few nests that differ in constant
subscripts and in the names of temporaries. Four copies or more in a row are rolled where

- constants in subscripts grow by the same amount from copy to copy, and all other constants are equal;
- a temporary that each copy has of its own gets a leading axis, one row a copy, and copy t writes row t;
- what a copy reads of an earlier one is always so many copies back. What the first copies read there is put into rows
  before those of the loop.

The loop runs the statements in the order in which they stood, so nothing about dependences needs proof; each statement
touches the elements it touched before. What fits no rule stays written out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from leir.edit import accesses, expressions, walk
from leir.names import rename_tensors, tensor_sequence
from leir.syntax import Alloc, Equation, Program, Stmt
from stepTP.frontend.segments import Kinds, Misfit, Segments, Shape, shape_of

FEWEST_COPIES = 4
LONGEST_SEGMENT = 400  # statements
_RUNS_TRIED = 24
_TURNS_TRIED = 16  # statements of a segment at which it may begin
_PARTS_TRIED = 16


def rolled(program: Program, kinds: Kinds) -> Program:
    """The program with every run of equal segments as a loop. `kinds`: dtype and shape of each of its tensors."""
    kinds, result = dict(kinds), program
    while (shorter := _rolled_once(result, kinds)) is not None:
        result = shorter
    return result if result is program else _with_names_in_order(result)


def _with_names_in_order(program: Program) -> Program:
    """The program with its temporaries named by first appearance."""
    signature = {d.tensor for d in (*program.inputs, *program.outputs)}
    free = (name for name in tensor_sequence() if name not in signature)
    appearing = (tensor for _, s in walk(program) for tensor in _tensors_of(s))
    return rename_tensors(program, {t: next(free) for t in dict.fromkeys(appearing) if t not in signature})


def _tensors_of(statement: Stmt) -> Iterator[str]:
    if isinstance(statement, Alloc):
        yield statement.tensor
    for expression in expressions(statement):
        yield from (access.tensor for access in accesses(expression))


def _rolled_once(program: Program, kinds: Kinds) -> Program | None:
    """The program with one more run as a loop; None where no run fits."""
    statements = [s for s in program.body if not isinstance(s, Alloc)]
    if len(statements) < FEWEST_COPIES:
        return None
    shapes = [shape_of(statement) for statement in statements]
    numbers: dict[object, int] = {}
    same = [numbers.setdefault(shape.skeleton, len(numbers)) for shape in shapes]
    for run in _runs(same)[:_RUNS_TRIED]:
        found = list(_fitting(program, kinds, statements, shapes, run))
        if found:
            return min(found, key=lambda way: (_statements(way.program), -way.copies, -way.start)).program
    return None


@dataclass(frozen=True, slots=True)
class _Way:
    """A run as a loop: the first of its copies begins at statement `start`."""

    start: int
    copies: int
    program: Program


def _statements(program: Program) -> int:
    return sum(isinstance(s, Equation | Alloc) for _, s in walk(program))


@dataclass(frozen=True, slots=True)
class _Run:
    """Statements from `start` on, `length` of them, each like the one `period` before it."""

    start: int
    period: int
    length: int


def _fitting(
    program: Program, kinds: Kinds, statements: Sequence[Stmt], shapes: Sequence[Shape], run: _Run
) -> Iterator[_Way]:
    """The run, or a part of it, as a loop: for each statement at which a segment may begin.

    Where a copy differs from those before it, the run is cut there and both parts are tried.
    """
    for turn in (*range(min(run.period, _TURNS_TRIED)), run.period):
        parts = [(run.start + turn, (run.length - turn) // run.period)]
        for start, copies in parts:
            if copies < FEWEST_COPIES:
                continue
            try:
                whole = Segments(program, kinds, statements, shapes, start, run.period, copies).program()
                yield _Way(start, copies, whole)
                break
            except Misfit as misfit:
                if 0 < misfit.copy < copies and len(parts) < _PARTS_TRIED:
                    parts.append((start, misfit.copy))
                    parts.append((start + misfit.copy * run.period, copies - misfit.copy))


def _runs(kinds: Sequence[int]) -> list[_Run]:
    """The runs of equal segments, those that cover most statements first."""
    found: list[_Run] = []
    for period in range(1, min(LONGEST_SEGMENT, len(kinds) // FEWEST_COPIES) + 1):
        start = 0
        for position in range(len(kinds) - period + 1):
            if position < len(kinds) - period and kinds[position] == kinds[position + period]:
                continue
            length = position - start + period
            if length >= FEWEST_COPIES * period:
                found.append(_Run(start, period, length))
            start = position + 1
    return sorted(found, key=lambda run: (-run.length, run.period, run.start))
