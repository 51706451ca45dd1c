"""Reductions as running results: what the strategies that turn one into a prefix form share."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from leir.analysis.box import plus
from leir.analysis.kernels import BYTES
from leir.analysis.reduction import writes_apart
from leir.edit import (
    accesses,
    dtypes,
    insert_at,
    loops_around,
    nested,
    perfect_nest,
    sole_equation,
    statement_at,
    statements_at,
    variables_of,
    walk,
)
from leir.printer import expression_text, header_text
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Real,
    Stmt,
    Unary,
    Variable,
)
from strategies.base import Fact, path_text

MINUS_INFINITY = Unary("-", Real(math.inf))


@dataclass(frozen=True, slots=True)
class Scan:
    """A reduction over one loop. `around`: the loops around its nest; `rows`: the levels of the nest but for `loop`."""

    around: tuple[Loop, ...]
    rows: tuple[Loop | Guard, ...]
    loop: Loop
    equation: Equation

    def element(self, tensor: str, shift: int) -> Access:
        """A row's running result, so many terms after the one at hand; every row has its own."""
        return Access(tensor, (*self._row(), plus(_place(self.loop), _integer(shift))))

    def last(self, tensor: str) -> Access:
        """A row's running result with all terms."""
        return Access(tensor, (*self._row(), Integer(self.loop.extent - 1)))

    def has_earlier(self) -> Expr:
        """Whether the row has a term before the one at hand."""
        return Binary(">", Variable(self.loop.variable), Integer(self.loop.first))

    def nests(self, running: Equation, result: Equation) -> tuple[Stmt, ...]:
        """A nest that makes the running results, and one that stores the last of each row."""
        return (*nested((*self.rows, self.loop), (running,)), *nested(self.rows, (result,)))

    def shape(self) -> tuple[int, ...]:
        """The shape of the running results."""
        return (*(loop.extent for loop in self._loops()), self.loop.extent)

    def _row(self) -> tuple[Expr, ...]:
        return tuple(_place(loop) for loop in self._loops())

    def _loops(self) -> tuple[Loop, ...]:
        return (*self.around, *(level for level in self.rows if isinstance(level, Loop)))


def _integer(value: int) -> Expr:
    return Integer(value) if value >= 0 else Unary("-", Integer(-value))


def _place(loop: Loop) -> Expr:
    """The number of a loop's iteration."""
    variable = Variable(loop.variable)
    return Binary("-", variable, Integer(loop.first)) if loop.first else variable


def scan_at(program: Program, nest: Path) -> Scan:
    """The reduction of a nest; `why_not_scan` is empty."""
    found = sole_equation(statement_at(program, nest))
    assert found is not None
    levels = tuple(level for _, level in perfect_nest(statement_at(program, nest)))
    (loop,) = _reduced(levels, found[1])
    return Scan(loops_around(program, nest), tuple(n for n in levels if n != loop), loop, found[1])


def why_not_scan(program: Program, nest: Path) -> str:
    """Why the terms of a reduction, which is all of its nest, do not follow one another in one loop; empty if so."""
    found = sole_equation(statement_at(program, nest))
    assert found is not None
    levels = tuple(level for _, level in perfect_nest(statement_at(program, nest)))
    reduced = _reduced(levels, found[1])
    shown = header_text(reduced)
    if len(reduced) != 1:
        return f"{shown} are {len(reduced)} loops over the terms, not one"
    (loop,) = reduced
    if loop.kind not in ("L", "U"):
        return f"{shown} is no serial loop"
    for guard in (level for level in levels if isinstance(level, Guard)):
        if loop.variable in variables_of(guard.condition) or any(True for _ in accesses(guard.condition)):
            return f"({expression_text(guard.condition)}) decides term by term, or by a tensor"
    return ""


def _reduced(levels: Iterable[Loop | Guard], equation: Equation) -> list[Loop]:
    rows = variables_of(equation.target)
    return [level for level in levels if isinstance(level, Loop) and level.variable not in rows]


def nests_of(program: Program, op: AssignOp) -> list[tuple[Path, Equation]]:
    """The largest nests with nothing but one accumulation by an operator, with their equations."""
    result: list[tuple[Path, Equation]] = []
    for path in [(), *(path for path, node in walk(program) if isinstance(node, Loop | Guard))]:
        statements = statements_at(program, path)
        for number, statement in enumerate(statements if not path or len(statements) > 1 else ()):
            found = sole_equation(statement)
            if found is not None and found[1].op == op:
                result.append(((*path, number), found[1]))
    return result


def declared(program: Program, tensor: str, dtype: DType, shape: tuple[int, ...]) -> Program:
    """The program with a global tensor declared, where it is not of the type that undeclared ones have."""
    return program if dtypes(program)[tensor] == dtype else insert_at(program, (0,), Alloc(tensor, dtype, "g", shape))


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
    return {
        "path": path_text(nest),
        "result": expression_text(scan.equation.target),
        "term": expression_text(scan.equation.value),
        "loop": header_text([scan.loop]),
        "extent": str(scan.loop.extent),
        "running": running,
        "element": expression_text(scan.element(running, 0)),
        "earlier": expression_text(scan.element(running, -1)),
        "last": expression_text(scan.last(running)),
        "elements": f"{'x'.join(map(str, scan.shape()))} elements",
        "bytes": f"{size * BYTES[dtype]} bytes",
    }


def has_exponential(program: Program, expression: Expr) -> bool:
    """Whether an expression is exp of something, or reads what may be one: cheap, and no proof."""
    match expression:
        case Call("exp", _):
            return True
        case Access(tensor):
            equations = (s for _, s in walk(program) if isinstance(s, Equation) and s.target.tensor == tensor)
            return any(isinstance(s.value, Call) and s.value.function == "exp" for s in equations)
        case _:
            return False
