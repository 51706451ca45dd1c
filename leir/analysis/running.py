"""The running maximum of a sum's terms: whether a program keeps one, and its elements where the sum reads them."""

from dataclasses import dataclass

from leir.analysis.box import Sum, as_sum, plus
from leir.analysis.definitions import (
    Definitions,
    Frame,
    Opening,
    Values,
    Wanted,
    shared_levels,
    solution,
    subscript_pairs,
)
from leir.analysis.model import Statement
from leir.analysis.reduction import writes_apart
from leir.analysis.types import is_float
from leir.edit import accesses, sole_equation, statement_at, variables_of
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
    reads,
)


@dataclass(frozen=True, slots=True)
class RunningMaximum:
    """In the variables of a sum of exp(value-subtracted): its running maximum `previous` to a term, `current` at it and
    `last` in its row, made by the equation at `path`.

    `changed`: why an operand may have changed since; empty if none has. `term`: the number of the term among the
    operands of that equation's max.
    """

    path: Path
    value: Expr
    subtracted: Access
    previous: Access
    current: Access
    last: Access
    changed: str
    term: int


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """M_{..,y}=max(if_then_else(y>0,M_{..,y-1},-inf),value): the equation, its loop y and where that stands."""

    statement: Statement
    target: Access
    value: Expr
    loop: Loop
    place: int
    term: int


def running_maximum(program: Program, nest: Path, loop: Loop) -> RunningMaximum | str:
    """The running maximum of the terms that the sum of a nest takes along a loop; why there is none.

    Terms are compared as they are written, then with those opened that were made ahead.
    """
    plain = _running_maximum(program, nest, loop, opened=False)
    return plain if isinstance(plain, RunningMaximum) else _running_maximum(program, nest, loop, opened=True)


def _running_maximum(program: Program, nest: Path, loop: Loop, *, opened: bool) -> RunningMaximum | str:
    found = sole_equation(statement_at(program, nest), nest)
    assert found is not None
    path, equation = found
    text = statement_text(equation)
    definitions = Definitions(program)
    frame = definitions.frame(path)
    wanted = _spread_terms(definitions, {loop.variable}) if opened else _nothing
    opening = Opening(definitions, wanted)
    identity: dict[str, Expr] = {name: Variable(name) for name, _, _ in frame.variables}
    match opening.expression(equation.value, identity, path, frame):
        case Call("exp", (Binary("-", value, Access() as subtracted),)):
            pass
        case _:
            return f"{text} is no sum of exp(a-D)"
    last = _opened(definitions, subtracted, path, frame)
    recurrence = _recurrence(definitions, last.tensor)
    if recurrence is None:
        return f"{expression_text(last)} in {text} is no element of a running maximum"
    common = shared_levels(recurrence.statement.path, path)
    if recurrence.statement.path[common] >= path[common]:
        return f"{recurrence.target.tensor} is made after {text}"
    place = as_sum(recurrence.target.indices[recurrence.place])
    end = place.constant + recurrence.loop.first + recurrence.loop.extent - 1
    at, from_first = last.indices[recurrence.place], recurrence.loop.first
    if not frame.equal(at, Integer(end)):
        return f"{expression_text(last)} is not the last maximum of a row, which is number {end}"
    values = _in_frame(recurrence, last, path, frame)
    if values is None:
        return f"the row of {expression_text(last)} is not known by its subscripts"
    values = _solved(recurrence, values, value, frame)
    if values is None or not frame.equal(substitute_in(recurrence.value, values), value):
        return (
            f"the terms of {text} are not those of {statement_text(statement_at(program, recurrence.statement.path))}"
        )
    along = Sum({Variable(loop.variable): 1}, from_first - loop.first)
    if as_sum(values[recurrence.loop.variable]) != along or loop.extent != recurrence.loop.extent:
        return f"{text} does not go along its terms as {recurrence.target.tensor} does"
    current = substitute_in(recurrence.target, values)
    assert isinstance(current, Access)
    earlier = list(current.indices)
    earlier[recurrence.place] = plus(earlier[recurrence.place], Unary("-", Integer(1)))
    changed = _why_changed(definitions, recurrence, path) or _why_spread_changed(definitions, opening, path)
    return RunningMaximum(
        recurrence.statement.path,
        value,
        subtracted,
        Access(current.tensor, tuple(earlier)),
        current,
        last,
        changed,
        recurrence.term,
    )


def _nothing(read: Access, statement: Statement, shared: set[str]) -> bool:
    del read, statement, shared
    return False


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
    assert isinstance(statement.node, Equation)
    target = statement.node.target
    parts = _parts(statement.node)
    if parts is None:
        return None
    name, first, earlier, value = parts
    loop = next((n for _, n in statement.loops if n.variable == name), None)
    if loop is None or loop.first != first or loop.kind not in ("L", "U"):
        return None
    apart = [as_sum(Binary("-", a, b)) for a, b in zip(target.indices, earlier.indices, strict=True)]
    differ = [number for number, total in enumerate(apart) if total != Sum()]
    if len(differ) != 1 or apart[differ[0]] != Sum({}, 1):
        return None
    own = as_sum(target.indices[differ[0]])
    if dict(own.terms) != {Variable(name): 1}:
        return None
    if not writes_apart(definitions.program, statement.path):
        return None
    node = statement.node.value
    assert isinstance(node, Call)
    return _Recurrence(statement, target, value, loop, differ[0], 1 if node.arguments[1] is value else 0)


def _parts(equation: Equation) -> tuple[str, int, Access, Expr] | None:
    """y, its first value, M_{..,y-1} and the term of M_{..,y}=max(if_then_else(y>0,M_{..,y-1},-inf),term)."""
    match equation:
        case Equation(_, "=", Call("max", (one, other))):
            pass
        case _:
            return None
    for before, value in ((one, other), (other, one)):
        match before:
            case Select(Binary(">" | "<" as op, left, right), Access() as earlier, Unary("-", Real(infinity))) if (
                infinity == float("inf") and earlier.tensor == equation.target.tensor
            ):
                beyond = as_sum(Binary("-", left, right) if op == ">" else Binary("-", right, left))
            case _:
                continue
        match list(beyond.terms.items()):
            case [(Variable(name), 1)]:
                return name, -beyond.constant, earlier, value
            case _:
                pass
    return None


def _spread_terms(definitions: Definitions, over: set[str]) -> Wanted:
    """Opens what a sum's terms are computed from ahead of it, element by element."""

    def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        node = statement.node
        is_store = isinstance(node, Equation) and node.op == "=" and not reads(node.value, access.tensor)
        return is_store and bool(variables_of(access) & over) and is_float(definitions.dtypes[access.tensor])

    return wanted


def _why_spread_changed(definitions: Definitions, opening: Opening, path: Path) -> str:
    """Why an operand of a term that is computed ahead may have changed before the sum."""
    for access, reader in opening.leaves:
        common = shared_levels(reader, path)
        for writer in definitions.writers.get(access.tensor, []):
            if reader != path and writer[:common] == path[:common] and reader[common] <= writer[common] <= path[common]:
                shown = statement_text(definitions.statements[writer].node)
                return f"{shown} stands between a term and the sum, and writes {access.tensor}"
    return ""


def _solved(recurrence: _Recurrence, rows: Values, value: Expr, frame: Frame) -> dict[str, Expr] | None:
    """The values of the recurrence's variables where its term is the value, by subscripts in the same places."""
    name = recurrence.loop.variable
    pairs = [(own, other) for own, other in subscript_pairs(recurrence.value, value) if name in variables_of(own)]
    found = solution([a for a, _ in pairs], [b for _, b in pairs], rows, {name: recurrence.loop}, frame)
    return found if found is not None and name in found else None


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
