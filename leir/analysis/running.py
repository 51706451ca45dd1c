"""The running maximum of a sum's terms: whether a program keeps one, and its elements where the sum reads them.

A running maximum is a recurrence: an equation M=max(M',a), where M' is what the same equation stored one term before,
and -inf at the first term of a row. Its terms, its loops and the layout of M may be written in any way: which instance
belongs to a term of the sum is solved from the subscripts, and proved.
"""

from dataclasses import dataclass

from leir.analysis.affine import affine, is_exact
from leir.analysis.definitions import Definitions, Opening, Wanted, definitions_of, is_ahead, why_written_between
from leir.analysis.frames import Frame
from leir.analysis.model import Statement
from leir.analysis.solving import Values, moved, solution, term_values
from leir.analysis.terms import taken_out
from leir.analysis.types import is_kept
from leir.analysis.weights import factors_of, product_of
from leir.edit import accesses, statement_at, variables_of
from leir.names import substitute_in, unused_variable
from leir.printer import equation_text, expression_text
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
class Along:
    """The terms of a row of a sum: the loops over them, the number of each in these, from 0 on, and their count."""

    loops: tuple[Loop, ...]
    number: Expr
    count: int


@dataclass(frozen=True, slots=True)
class RunningMaximum:
    """In the variables of a sum of exp(value-subtracted)*weight: its running maximum `previous` to a term, `current` at
    it and `last` in its row, made by the equation at `path`.

    `term`: the value at the recurrence, in its own variables; `changed`: why an operand may have changed since, empty
    if none has.
    """

    path: Path
    value: Expr
    weight: Expr
    subtracted: Access
    previous: Access
    current: Access
    last: Access
    term: Expr
    changed: str


@dataclass(frozen=True, slots=True)
class _Recurrence:
    """M=max(M',value): the equation's statement, M, M' where `goes_on` holds, and the value, with the rest opened."""

    statement: Statement
    target: Access
    earlier: Access
    goes_on: Expr
    value: Expr
    opening: Opening

    @property
    def text(self) -> str:
        return equation_text(self.statement.node)


def running_maximum(program: Program, path: Path, along: Along) -> RunningMaximum | str:
    """The running maximum of the terms that the sum at a path takes, one after the other; why there is none.

    Terms are compared as they are written, then with those opened that were made ahead.
    """
    plain = _running_maximum(program, path, along, opened=False)
    return plain if isinstance(plain, RunningMaximum) else _running_maximum(program, path, along, opened=True)


def _running_maximum(program: Program, path: Path, along: Along, *, opened: bool) -> RunningMaximum | str:
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    text, definitions = equation_text(equation), definitions_of(program)
    frame = definitions.frame(path)
    if not all(is_exact(test, frame.names()) for test in frame.where):
        return f"a guard of {text} is not quasi-affine"
    opening = Opening(definitions, _made_ahead(definitions, opened=opened))
    term = opening.expression(equation.value, definitions.identity(path), path, frame)
    parts = _exponential_of(definitions, term)
    if parts is None:
        return f"{text} is no sum of exp(a-D), nor of products with it, with D an element of a running maximum"
    value, subtracted, weight = parts
    recurrence = _recurrence(definitions, subtracted.tensor, opened=opened)
    if recurrence is None or not is_ahead(recurrence.statement.path, path):
        return f"{expression_text(subtracted)} in {text} is no element of a running maximum"
    values = _instance(definitions, recurrence, value, subtracted, path, frame)
    if values is None:
        return f"the terms of {text} are not those of {recurrence.text}"
    current, previous = (moved(access, values) for access in (recurrence.target, recurrence.earlier))
    assert isinstance(current, Access) and isinstance(previous, Access)
    if why := _why_no_chain(recurrence, values, subtracted, along, frame):
        return f"{why} the terms of {text} in their order"
    leaves = [*opening.leaves, *recurrence.opening.leaves]
    places = (recurrence.statement.path, path)
    reasons = (why_written_between(definitions, access.tensor, at, to) for access, at in leaves for to in places)
    return RunningMaximum(
        recurrence.statement.path,
        value,
        weight,
        subtracted,
        previous,
        current,
        subtracted,
        recurrence.value,
        next((reason for reason in reasons if reason), ""),
    )


def _exponential_of(definitions: Definitions, term: Expr) -> tuple[Expr, Access, Expr] | None:
    """a, D and the weight of a product with one exp(a-D) in it, where D is an element of a recurrence."""

    def is_element(expression: Expr) -> bool:
        return isinstance(expression, Access) and _is_recurrent(definitions, expression.tensor)

    factors = list(factors_of(term, False))
    for number, (factor, inverse) in enumerate(factors):
        if inverse or not isinstance(factor, Call) or factor.function != "exp":
            continue
        found = taken_out(factor.arguments[0], is_element, subtracted=True)
        if found is not None and found[0] is not None:
            value, subtracted = found[0], found[1]
            assert isinstance(subtracted, Access)
            return value, subtracted, product_of([*factors[:number], *factors[number + 1 :]])
    return None


def _made_ahead(definitions: Definitions, *, opened: bool) -> Wanted:
    """Opens what depends on a running maximum, copies of it if exact; if `opened`, other stores that are exact too."""

    def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        node = statement.node
        assert isinstance(node, Equation)
        if node.op != "=" or _is_recurrent(definitions, access.tensor):
            return False
        kept = is_kept(node.value, definitions.dtypes[access.tensor], definitions.dtypes)
        follows = definitions.depends_on(access.tensor, lambda e: _is_recurrent(definitions, e.target.tensor))
        return (kept and (opened or follows)) or (follows and not isinstance(node.value, Access))

    return wanted


def _is_recurrent(definitions: Definitions, tensor: str) -> bool:
    """Whether a tensor has one equation, which depends on the tensor itself."""
    statement = definitions.sole(tensor)
    if statement is None or not isinstance(statement.node, Equation):
        return False
    read = dict.fromkeys(access.tensor for access in accesses(statement.node.value))
    return any(definitions.depends_on(name, lambda e: e.target.tensor == tensor) for name in read)


def _recurrence(definitions: Definitions, tensor: str, *, opened: bool) -> _Recurrence | None:
    """The one equation of a tensor, if it stores the maximum of a term and of what it stored before."""
    statement = definitions.sole(tensor)
    if statement is None or not definitions.stores_once(tensor):
        return None
    equation, path = statement.node, statement.path
    assert isinstance(equation, Equation)
    frame = definitions.frame(path)
    if not all(is_exact(test, frame.names()) for test in frame.where):
        return None
    opening = Opening(definitions, _operands(definitions, tensor, opened=opened))
    match opening.expression(equation.value, definitions.identity(path), path, frame):
        case Call("max", (one, other)):
            pass
        case _:
            return None
    for before, value in ((one, other), (other, one)):
        found = _before(before, tensor)
        if found is not None and tensor not in {access.tensor for access in accesses(value)}:
            return _Recurrence(statement, equation.target, *found, value, opening)
    return None


def _operands(definitions: Definitions, tensor: str, *, opened: bool) -> Wanted:
    """Opens what stands between an equation and what it stored before, and its terms if they are to be `opened`."""

    def wanted(access: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        node = statement.node
        assert isinstance(node, Equation)
        if node.op != "=" or access.tensor == tensor:
            return False
        back = definitions.depends_on(access.tensor, lambda e: e.target.tensor == tensor)
        return (opened or back) and is_kept(node.value, definitions.dtypes[access.tensor], definitions.dtypes)

    return wanted


def _before(expression: Expr, tensor: str) -> tuple[Access, Expr] | None:
    """M' and the condition of if_then_else(condition,M',-inf), or of the same the other way round."""
    match expression:
        case Select(test, Access() as earlier, Unary("-", Real(infinity))) if infinity == float("inf"):
            found = earlier, test
        case Select(test, Unary("-", Real(infinity)), Access() as earlier) if infinity == float("inf"):
            found = earlier, Unary("!", test)
        case _:
            return None
    return found if found[0].tensor == tensor else None


def _instance(
    definitions: Definitions, recurrence: _Recurrence, value: Expr, last: Access, path: Path, frame: Frame
) -> dict[str, Expr] | None:
    """The values of the recurrence's variables where its term is the sum's value.

    Rows on which terms do not depend are those of the last maximum.
    """
    shared = definitions.shared(recurrence.statement.path, path)
    known: Values = {name: Variable(name) for name in sorted(shared)}
    loops = {n.variable: n for _, n in recurrence.statement.loops if n.variable not in shared}
    inside = variables_of(recurrence.value) - shared
    other = {name: loop for name, loop in loops.items() if name not in inside}
    rows: dict[str, Expr] | None = dict(known)
    if other:
        pairs = list(zip(recurrence.target.indices, last.indices, strict=True))
        pairs = [(p, v) for p, v in pairs if variables_of(p) & other.keys() and not variables_of(p) & inside]
        rows = solution([p for p, _ in pairs], [v for _, v in pairs], known, other, frame)
    if rows is None or not other.keys() <= rows.keys():
        return None
    own = {name: loop for name, loop in loops.items() if name in inside}
    values = term_values(recurrence.value, value, rows, own, frame)
    return values if values is not None and loops.keys() <= values.keys() else None


def _why_no_chain(recurrence: _Recurrence, values: dict[str, Expr], last: Access, along: Along, frame: Frame) -> str:
    """Why the instances of a recurrence that belong to the terms of a row do not follow one another to its last.

    The first takes nothing from before; each other, what the one before it stored; what the last stored is `last`.
    """
    names, text = frame.names(), recurrence.text
    number = affine(along.number, names)
    goes_on = substitute_in(recurrence.goes_on, values)
    if number is None or not is_exact(goes_on, names):
        return f"{text} goes on under a condition that is not quasi-affine"
    first, end = Integer(0), Integer(along.count - 1)
    is_first, is_last = (Binary("==", along.number, place) for place in (first, end))
    starts = Frame(frame.variables, (*frame.where, is_first))
    continues = Frame(frame.variables, (*frame.where, Binary(">", along.number, first)))
    if not starts.nowhere(goes_on):
        return f"{text} does not start at the first of"
    if not continues.always(goes_on):
        return f"{text} starts anew within"
    if not Frame(frame.variables, (*frame.where, is_last)).equal(substitute_in(recurrence.target, values), last):
        return f"{expression_text(last)} is not the last maximum of {text} for"
    if not _follows(recurrence, values, along, frame):
        return f"{text} does not go along"
    return ""


def _follows(recurrence: _Recurrence, values: dict[str, Expr], along: Along, frame: Frame) -> bool:
    """Whether each term's recurrence reads what that of the term before it stored, in the same row of the sum."""
    taken = {*frame.names(), *(loop.variable for _, loop in recurrence.statement.loops)}
    before: dict[str, Expr] = {}
    for loop in along.loops:
        fresh = unused_variable(taken)
        taken.add(fresh)
        before[loop.variable] = Variable(fresh)
    copies = tuple(
        (e.name, n.first, n.extent)
        for e, n in zip(before.values(), along.loops, strict=True)
        if isinstance(e, Variable)
    )
    one_less = Binary("==", substitute_in(along.number, before), Binary("-", along.number, Integer(1)))
    there = tuple(substitute_in(test, before) for test in frame.where)
    both = Frame((*frame.variables, *copies), (*frame.where, *there, one_less))
    stored = substitute_in(substitute_in(recurrence.target, values), before)
    return both.equal(stored, substitute_in(recurrence.earlier, values))
