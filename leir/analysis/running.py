"""The running maximum of a sum's terms: whether a program keeps one, and its elements where the sum reads them."""

from dataclasses import dataclass

from leir.analysis.box import plus
from leir.analysis.definitions import Definitions, Frame, Opening, shared_levels, solution
from leir.analysis.matching import matching_values
from leir.analysis.model import Statement
from leir.edit import accesses, sole_equation, statement_at
from leir.names import substitute_in
from leir.printer import expression_text, statement_text
from leir.syntax import (
    Access,
    Binary,
    Call,
    Equation,
    Expr,
    Integer,
    Loop,
    Path,
    Program,
    Real,
    Select,
    Unary,
    Variable,
)


@dataclass(frozen=True, slots=True)
class RunningMaximum:
    """In the variables of a sum of exp(value-subtracted): its running maximum `previous` to a term, `current` at it and
    `last` in its row, made by the equation at `path`.

    `changed`: why an operand may have changed since; empty if none has.
    """

    path: Path
    value: Expr
    subtracted: Access
    previous: Access
    current: Access
    last: Access
    changed: str


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """M_{..,y}=max(if_then_else(y>0,M_{..,y-1},-inf),value): the equation, its loop y and where that stands."""

    statement: Statement
    target: Access
    value: Expr
    loop: Loop
    place: int


def running_maximum(program: Program, nest: Path, loop: Loop) -> RunningMaximum | str:
    """The running maximum of the terms that the sum of a nest takes along a loop; why there is none."""
    found = sole_equation(statement_at(program, nest), nest)
    assert found is not None
    path, equation = found
    text = statement_text(equation)
    match equation.value:
        case Call("exp", (Binary("-", value, Access() as subtracted),)):
            pass
        case _:
            return f"{text} is no sum of exp(a-D)"
    definitions = Definitions(program)
    frame = definitions.frame(path)
    last = _opened(definitions, subtracted, path, frame)
    recurrence = _recurrence(definitions, last.tensor)
    if recurrence is None:
        return f"{expression_text(last)} in {text} is no element of a running maximum"
    common = shared_levels(recurrence.statement.path, path)
    if recurrence.statement.path[common] >= path[common]:
        return f"{recurrence.target.tensor} is made after {text}"
    end = recurrence.loop.extent - 1
    at, from_first = last.indices[recurrence.place], recurrence.loop.first
    if not frame.equal(at, Integer(end)):
        return f"{expression_text(last)} is not the last maximum of a row, which is number {end}"
    values = _in_frame(recurrence, last, path, frame)
    if values is None:
        return f"the row of {expression_text(last)} is not known by its subscripts"
    pattern = substitute_in(recurrence.value, values)
    own = matching_values((pattern,), (value,), (recurrence.loop.variable,))
    if own is None or not frame.equal(substitute_in(pattern, own), value):
        return (
            f"the terms of {text} are not those of {statement_text(statement_at(program, recurrence.statement.path))}"
        )
    step = own[recurrence.loop.variable]
    if step != Variable(loop.variable) or (loop.first, loop.extent) != (from_first, recurrence.loop.extent):
        return f"{text} does not go along its terms as {recurrence.target.tensor} does"
    values = {**values, **own}
    current = substitute_in(recurrence.target, values)
    assert isinstance(current, Access)
    earlier = list(current.indices)
    earlier[recurrence.place] = plus(earlier[recurrence.place], Unary("-", Integer(1)))
    changed = _why_changed(definitions, recurrence, path)
    return RunningMaximum(
        recurrence.statement.path, value, subtracted, Access(current.tensor, tuple(earlier)), current, last, changed
    )


def _opened(definitions: Definitions, access: Access, path: Path, frame: Frame) -> Access:
    """What a maximum is a copy of: the element of a running maximum, where it is one."""

    def wanted(read: Access, statement: Statement, shared: set[str]) -> bool:
        del statement, shared
        return read.tensor == access.tensor

    opening = Opening(definitions, wanted)
    identity: dict[str, Expr] = {name: Variable(name) for name, _, _ in frame.variables}
    found = opening.expression(access, identity, path, frame)
    return found if isinstance(found, Access) else access


def _recurrence(definitions: Definitions, tensor: str) -> _Recurrence | None:
    """The one equation of a tensor, if it is a running maximum from the first term of each row on."""
    statement = definitions.sole(tensor)
    if statement is None or statement.guards:
        return None
    match statement.node:
        case Equation(
            target,
            "=",
            Call(
                "max",
                (
                    Select(
                        Binary(">", Variable(name), Integer(first)),
                        Access() as earlier,
                        Unary("-", Real(infinity)),
                    ),
                    value,
                ),
            ),
        ) if infinity == float("inf") and earlier.tensor == tensor:
            pass
        case _:
            return None
    loop = next((n for _, n in statement.loops if n.variable == name), None)
    if loop is None or loop.first != first or loop.kind not in ("L", "U"):
        return None
    place = _place(loop)
    differ = [number for number, (a, b) in enumerate(zip(target.indices, earlier.indices, strict=True)) if a != b]
    if differ != [n for n, index in enumerate(target.indices) if index == place][:1] or len(differ) != 1:
        return None
    if earlier.indices[differ[0]] != plus(place, Unary("-", Integer(1))):
        return None
    others = [index for number, index in enumerate(target.indices) if number != differ[0]]
    if any(_place(n) not in others for _, n in statement.loops if n != loop):
        return None  # an element would be written in more than one iteration
    return _Recurrence(statement, target, value, loop, differ[0])


def _place(loop: Loop) -> Expr:
    """The number of a loop's iteration."""
    variable = Variable(loop.variable)
    return Binary("-", variable, Integer(loop.first)) if loop.first else variable


def _in_frame(recurrence: _Recurrence, last: Access, path: Path, frame: Frame) -> dict[str, Expr] | None:
    """The values of the recurrence's row variables in the row whose last maximum is read at a path."""
    common = shared_levels(recurrence.statement.path, path)
    shared = {n.variable for where, n in recurrence.statement.loops if len(where) <= common}
    loops = {n.variable: n for _, n in recurrence.statement.loops if n.variable not in shared and n != recurrence.loop}
    places = [n for n in range(len(last.indices)) if n != recurrence.place]
    patterns, values = ([access.indices[n] for n in places] for access in (recurrence.target, last))
    known: dict[str, Expr] = {name: Variable(name) for name in sorted(shared)}
    return solution(patterns, values, known, loops, frame)


def _why_changed(definitions: Definitions, recurrence: _Recurrence, path: Path) -> str:
    """Why an operand of the terms may have changed between the running maximum and the sum."""
    own = recurrence.statement.path
    common = shared_levels(own, path)
    for tensor in dict.fromkeys(access.tensor for access in accesses(recurrence.value)):
        for writer in definitions.writers.get(tensor, []):
            if writer[:common] == own[:common] and own[common] <= writer[common] <= path[common]:
                shown = statement_text(definitions.statements[writer].node)
                return f"{shown} stands between the running maximum and the sum, and writes {tensor}"
    return ""
