"""What an expression gains or loses by being written otherwise, counted: the grounds of an identity's sentences."""

from collections import Counter
from collections.abc import Callable, Iterator
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
from strategies.splits import is_fixed, loop_names


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

    `saved`, `added`: operations, once and `_in_all`; `divisions_saved`, `calls_saved`, `calls_added`; `read`: what the
    text reads, in `reads_before` places and then in `reads_after`; `unread` tensors; `times`: the iterations of the
    equation, where nothing guards them. Of a choice, one value counts when it runs and both do here: what it leaves
    open is said to be at most so much, or not at all. `fixed`: a new part that does not depend on the loops
    `fixed_loops`, as the whole does, and so takes `fixed_times` evaluations. `met`: a new part that the equation has
    at another place too.
    """
    equation = statement_at(program, path)
    assert isinstance(equation, Equation)
    old, kinds = expression_at(program, Place(path, within)), Kinds(dtypes(program))

    def computed(expression: Expr) -> int:
        return operations(expression, kinds)

    result: dict[str, str] = {}
    if computed(old) or computed(new):
        result["operations_before"], result["operations_after"] = (_in_words(each, computed) for each in (old, new))
    guarded = any(isinstance(level, Guard) for _, level in enclosing(program, path))
    times = prod(loop.extent for loop in loops_around(program, path))
    chooses = any(isinstance(part, Select) for each in (old, new) for part in subexpressions(each))
    if not guarded and not chooses and not conditions_of(program, path, within) and times > 1:
        result["times"] = str(times)
    for name, first, second, count, noun in (
        ("saved", old, new, computed, "operation"),
        ("added", new, old, computed, "operation"),
        ("divisions_saved", old, new, divisions, "division"),
        ("calls_saved", old, new, _calls_run, "call"),
        ("calls_added", new, old, _calls_run, "call"),
    ):
        fewer, most = _fewer(first, second, count)
        if fewer > 0:
            result[name] = most + ("one call" if noun == "call" and fewer == 1 else counted(fewer, noun))
            if "times" in result:
                result[f"{name}_in_all"] = counted(fewer * times, noun)
    reads = [list(accesses(each)) for each in (old, new)]
    if len(reads[0]) != len(reads[1]):
        result["reads_before"], result["reads_after"] = (counted(len(found), "place") for found in reads)
        alone = dict.fromkeys(reads[0] + reads[1])
        result["read"] = expression_text(next(iter(alone))) if len(alone) == 1 else "tensors"
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


def _in_words(expression: Expr, count: Callable[[Expr], int]) -> str:
    """How many operations an expression takes; with a choice of some, at most."""
    most = "at most " if _choices(expression, count) else ""
    return most + counted(count(expression), "operation") if count(expression) else "no operation"


def _fewer(old: Expr, new: Expr, count: Callable[[Expr], int]) -> tuple[int, str]:
    """How much less the new expression has of what is counted, and `at most ` where choices may leave less of it.

    0 where they leave open whether it is less: some choices go, and others come.
    """
    before, after = _choices(old, count), _choices(new, count)
    if after - before:
        return 0, ""
    return count(old) - count(new), "at most " if before != after else ""


def _choices(expression: Expr, count: Callable[[Expr], int]) -> Counter[Expr]:
    """The choices of an expression between values with something to count, and how often each stands there."""
    found = (part for part in subexpressions(expression) if isinstance(part, Select))
    return Counter(normal(part) for part in found if any(map(count, operands(part)[1:])))


def _fixed(program: Program, path: Path, old: Expr, parts: list[Expr]) -> dict[str, str]:
    loops = loops_around(program, path)
    moving = [loop for loop in loops if loop.variable in variables_of(old)]
    for part in parts:
        used = variables_of(part)
        still = [loop for loop in moving if loop.variable not in used]
        if still and used & {loop.variable for loop in moving} and is_fixed(program, path, part, still):
            evaluations = prod(loop.extent for loop in loops if loop.variable in used)
            return {
                "fixed": expression_text(part),
                "fixed_loops": loop_names(still),
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
