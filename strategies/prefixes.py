"""Reductions as running results: what the strategies that turn one into a prefix form share."""

import math
from dataclasses import dataclass

from leir.analysis.affine import affine, is_exact
from leir.analysis.box import plus
from leir.analysis.frames import Frame
from leir.analysis.isl import TooHard, largest, question
from leir.analysis.kernels import BYTES
from leir.analysis.reduction import Accumulation, accumulation_at, why_read_early, writes_apart
from leir.analysis.running import Along
from leir.edit import dtypes, insert_at, loops_around, nested, replace_at, walk
from leir.printer import equation_text, expression_text, header_text
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Variable,
    integer,
)
from strategies.base import Fact, counted, listed, path_text
from strategies.blocks import iteration_number


@dataclass(frozen=True, slots=True)
class Scan:
    """A reduction whose terms follow one another. `around`: the loops around it; `rows`: its levels but for the terms'.

    `along`: the loops over the terms, with the number of a term in its row, and how many there are.
    """

    found: Accumulation
    around: tuple[Loop, ...]
    rows: tuple[Loop | Guard, ...]
    within: tuple[Loop | Guard, ...]
    along: Along

    @property
    def equation(self) -> Equation:
        return self.found.equation

    @property
    def path(self) -> Path:
        return self.found.path

    def element(self, tensor: str, shift: int) -> Access:
        """A row's running result, so many terms after the one at hand; every row has its own."""
        return Access(tensor, (*self._row(), plus(self.along.number, integer(shift))))

    def last(self, tensor: str) -> Access:
        """A row's running result with all terms."""
        return Access(tensor, (*self._row(), Integer(self.along.count - 1)))

    def has_earlier(self) -> Expr:
        """Whether the row has a term before the one at hand."""
        match self.along.loops:
            case (loop,):
                return Binary(">", Variable(loop.variable), Integer(loop.first))
            case _:
                return Binary(">", self.along.number, Integer(0))

    def replaced(self, program: Program, running: Equation, result: Equation) -> Program:
        """The program with the running results in place of the reduction, and the last of each row stored after it.

        A nest of its own is made anew, rows outside; in one that holds more, nothing moves.
        """
        rows = nested(self.rows, (result,))
        if self.found.is_alone:
            return replace_at(program, self.found.nest, *nested((*self.rows, *self.within), (running,)), *rows)
        after = replace_at(program, self.path, running)
        return insert_at(after, (*self.found.nest[:-1], self.found.nest[-1] + 1), *rows)

    def shape(self) -> tuple[int, ...]:
        """The shape of the running results."""
        return (*(loop.extent for loop in self._loops()), self.along.count)

    def _row(self) -> tuple[Expr, ...]:
        return tuple(iteration_number(loop) for loop in self._loops())

    def _loops(self) -> tuple[Loop, ...]:
        return (*self.around, *(level for level in self.rows if isinstance(level, Loop)))


def scan_at(program: Program, path: Path) -> Scan:
    """The reduction at a path; `why_not_scan` is empty."""
    found = accumulation_at(program, path)
    assert found is not None
    rows, within = found.divided()
    along = _along(program, found)
    assert isinstance(along, Along)
    return Scan(found, loops_around(program, found.nest), rows, within, along)


def why_not_scan(program: Program, path: Path) -> str:
    """Why the terms of a reduction do not follow one another, the same number in each row; empty if they do."""
    found = accumulation_at(program, path)
    assert found is not None
    along = _along(program, found)
    return along if isinstance(along, str) else ""


def _along(program: Program, found: Accumulation) -> Along | str:
    """The terms of a reduction, numbered in the order in which they are taken; why they cannot be."""
    loops = found.reduced()
    for loop in loops:
        if loop.kind not in ("L", "U"):
            return f"{header_text([loop])} is no serial loop"
    number: Expr = Integer(0)
    for loop in loops:
        number = plus(Binary("*", number, Integer(loop.extent)), iteration_number(loop))
    _, within = found.divided()
    tests = [level.condition for level in within if isinstance(level, Guard)]
    frame = Frame(tuple((n.variable, n.first, n.extent) for n in loops_around(program, found.path)))
    shown = " and ".join(f"({expression_text(test)})" for test in tests)
    if not all(is_exact(test, frame.names()) for test in tests):
        return f"{shown} decides term by term, or by a tensor"
    whole = math.prod(loop.extent for loop in loops)
    count = _most(frame, tests, number, whole) + 1 if tests else whole
    kept = Frame(frame.variables, (Binary("<", number, Integer(count)),))
    if not all(kept.always(test) for test in tests):
        return f"{shown} leaves terms out before the last of them, or takes another number of terms in other rows"
    return Along(loops, number, count)


def _most(frame: Frame, tests: list[Expr], number: Expr, whole: int) -> int:
    """The largest number of a term; -1 where that is not known."""
    names = frame.names()
    text = affine(number, names)
    points = Frame(frame.variables, tuple(tests)).domain()
    try:
        found = largest(question([*names.values(), "t"], [*points, f"t = {text}"]), len(names))
    except TooHard:
        found = None
    return whole - 1 if found is None else found


def declared(program: Program, tensor: str, dtype: DType, shape: tuple[int, ...]) -> Program:
    """The program with a global tensor declared, where it is not of the type that undeclared ones have."""
    return program if dtypes(program)[tensor] == dtype else insert_at(program, (0,), Alloc(tensor, dtype, "g", shape))


def whole_text(program: Program, path: Path) -> str:
    """What `path` holds of a reduction, as evidence; `why_not_reduction` is empty."""
    found = accumulation_at(program, path)
    assert found is not None
    loops = listed(loop.variable for loop in found.reduced())
    return f"{equation_text(found.equation)} reduces over {loops} and alone writes {found.equation.target.tensor}"


def order_text(scan: Scan) -> str:
    """In which order, and how many, the terms of a row are taken, as evidence."""
    header = header_text(scan.along.loops)
    be = "is" if len(scan.along.loops) == 1 else "are"
    return f"{header} {be} serial, with {counted(scan.along.count, 'term')} in each row"


def read_when_done(program: Program, scan: Scan) -> Fact:
    """The fact that nobody reads a result before it has all its terms."""
    why = why_read_early(program, scan.found)
    return Fact(
        "nobody-reads-early", not why, why or f"{expression_text(scan.equation.target)} is read only when it is done"
    )


def rows_apart(after: Program, target: Access) -> Fact:
    """The fact that no two rows store their result in one element."""
    paths = [path for path, s in walk(after) if isinstance(s, Equation) and s.target == target]
    apart = all(writes_apart(after, path) for path in paths)
    shown = expression_text(target)
    evidence = f"each row has its own {shown}" if apart else f"{shown} may be the element of more than one row"
    return Fact("rows-are-apart", apart, evidence)


def scan_terms(program: Program, nest: Path, running: str, dtype: DType) -> dict[str, str]:
    """What the sentences of both strategies say of a reduction and its running results."""
    scan = scan_at(program, nest)
    size = math.prod(scan.shape())
    alone = {}
    if scan.found.is_alone and scan.rows:
        alone = {"second_nest": f"the one at {path_text(nest)}"}
    return alone | {
        "path": path_text(nest),
        "result": expression_text(scan.equation.target),
        "term": expression_text(scan.equation.value),
        "loop": header_text(scan.along.loops),
        "extent": str(scan.along.count),
        "running": running,
        "element": expression_text(scan.element(running, 0)),
        "earlier": expression_text(scan.element(running, -1)),
        "last": expression_text(scan.last(running)),
        "elements": f"{'x'.join(map(str, scan.shape()))} elements",
        "bytes": f"{size * BYTES[dtype]} bytes",
    }
