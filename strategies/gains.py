"""What an expression gains or loses by being written otherwise, counted: the grounds of an identity's sentences."""

from collections.abc import Iterator
from math import prod

from leir.analysis.spelling import normal
from leir.analysis.types import Kinds, Weak, is_float
from leir.edit import (
    accesses,
    dtypes,
    enclosing,
    expression_at,
    loops_around,
    replace_expression_at,
    statement_at,
    subexpressions,
    variables_of,
    walk_expression,
)
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Binary,
    Call,
    Cast,
    Equation,
    Expr,
    Guard,
    Path,
    Place,
    Program,
    Select,
    Unary,
    Variable,
    operands,
)
from strategies.base import counted, listed
from strategies.parts import conditions_of


def operations(expression: Expr, kinds: Kinds) -> int:
    """How many float operations and calls an expression computes, as `leir.analysis.cost` counts them.

    Subscripts, comparisons, integers, and what literals alone give are left out; of a choice, both values count.
    """
    return sum(_is_operation(part, kinds) for part in subexpressions(expression))


def _is_operation(part: Expr, kinds: Kinds) -> bool:
    match part:
        case Binary("+" | "-" | "*" | "/" | "**") | Unary("-") | Call():
            kind = kinds.of(part)
            return not isinstance(kind, Weak) and is_float(kind)
        case _:
            return False


def divisions(expression: Expr) -> int:
    """How many quotients an expression computes, subscripts and what literals alone give left out."""
    return sum(isinstance(part, Binary) and part.op == "/" and _varies(part) for part in subexpressions(expression))


def calls(expression: Expr) -> int:
    """How many functions an expression calls, powers included, subscripts left out."""
    return sum(map(_is_call, subexpressions(expression)))


def _is_call(part: Expr) -> bool:
    return isinstance(part, Call) or (isinstance(part, Binary) and part.op == "**")


def _calls_run(expression: Expr) -> int:
    """How many functions an expression calls when it is computed: what literals alone give is no call then."""
    return sum(_is_call(part) and _varies(part) for part in subexpressions(expression))


def _varies(expression: Expr) -> bool:
    """Whether an expression is no number: it reads a tensor or a loop variable."""
    return any(isinstance(part, Access | Variable) for part in subexpressions(expression))


def gains(program: Program, path: Path, within: Path, new: Expr) -> dict[str, str]:
    """Terms for sentences on a step that puts `new` at a place.

    `saved`, `added`: operations, once and `_in_all`; `divisions_saved`, `calls_saved`, `calls_added`, `reads_before`
    and `reads_after`, `unread` tensors; `times`: the iterations of the equation, where nothing guards them. `fixed`: a
    new part that does not depend on the loops `fixed_loops`, as the whole does, and so takes `fixed_times` evaluations.
    `met`: a new part that the equation has at another place too.
    """
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    old, kinds = expression_at(program, Place(path, within)), Kinds(dtypes(program))
    before, after = operations(old, kinds), operations(new, kinds)
    result: dict[str, str] = {}
    if before or after:
        result["operations_before"] = counted(before, "operation")
        result["operations_after"] = counted(after, "operation")
    guarded = any(isinstance(level, Guard) for _, level in enclosing(program, path))
    times = prod(loop.extent for loop in loops_around(program, path))
    chooses = any(isinstance(part, Select) for each in (old, new) for part in subexpressions(each))
    if not guarded and not chooses and not conditions_of(program, path, within) and times > 1:
        result["times"] = str(times)
    for name, count in (("saved", before - after), ("added", after - before)):
        if count > 0:
            result[name] = counted(count, "operation")
            if "times" in result:
                result[f"{name}_in_all"] = counted(count * times, "operation")
    fewer = divisions(old) - divisions(new)
    if fewer > 0:
        result["divisions_saved"] = counted(fewer, "division")
        if "times" in result:
            result["divisions_saved_in_all"] = counted(fewer * times, "division")
    fewer = _calls_run(old) - _calls_run(new)
    if fewer:
        result["calls_saved" if fewer > 0 else "calls_added"] = "one call" if abs(fewer) == 1 else f"{abs(fewer)} calls"
    reads = [sum(1 for _ in accesses(each)) for each in (old, new)]
    if reads[0] != reads[1]:
        result["reads_before"], result["reads_after"] = counted(reads[0], "element"), counted(reads[1], "element")
    after_it = replace_expression_at(program, Place(path, within), new)
    still = {access.tensor for access in accesses(statement_at(after_it, path))}
    unread = dict.fromkeys(a.tensor for a in accesses(equation) if a.tensor not in still)
    if unread:
        result["unread"] = listed(unread)
    parts = list(_new_parts(old, new))
    result |= _fixed(program, path, old, parts) if "times" in result else {}
    beside = {normal(part) for part in _beside(equation.value, within[1:])}
    met = next((part for part in parts if normal(part) in beside), None)
    if met is not None:
        result["met"] = expression_text(met)
    return result


def _fixed(program: Program, path: Path, old: Expr, parts: list[Expr]) -> dict[str, str]:
    loops = loops_around(program, path)
    moving = [loop for loop in loops if loop.variable in variables_of(old)]
    for part in parts:
        used = variables_of(part)
        still = [loop.variable for loop in moving if loop.variable not in used]
        if still and used & {loop.variable for loop in moving}:
            evaluations = prod(loop.extent for loop in loops if loop.variable in used)
            return {
                "fixed": expression_text(part),
                "fixed_loops": listed(still),
                "fixed_times": str(evaluations),
            }
    return {}


def _new_parts(old: Expr, new: Expr) -> Iterator[Expr]:
    """The parts of the new expression that compute something from tensors, and that the old one has not, but itself."""
    known = {normal(part) for _, part in walk_expression(old)}
    for within, part in _computed(new):
        if within and any(True for _ in accesses(part)) and normal(part) not in known:
            yield part


def _beside(value: Expr, within: Path) -> Iterator[Expr]:
    """The parts of a value that neither hold a place nor lie in it."""
    for at, part in _computed(value):
        if at[: len(within)] != within and within[: len(at)] != at:
            yield part


def _computed(expression: Expr, within: Path = ()) -> Iterator[tuple[Path, Expr]]:
    """The operations of an expression with their places, subscripts left out."""
    if isinstance(expression, Binary | Call | Unary | Select | Cast):
        yield within, expression
        for number, operand in enumerate(operands(expression)):
            yield from _computed(operand, (*within, number))
