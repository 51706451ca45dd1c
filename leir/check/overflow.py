"""Integers that may leave their type where a proof needs their exact value.

Sets and intervals know integers without end; machines wrap them around, or do as they like. `(a*M)//M`, M being 2^63-1,
is `a` to a proof, and -1 to a machine where `a` is 2. So a program must be well formed even if every operand that may
leave its type has any value at all.

Sums, differences and products that read tensors are left out where they are terms or factors of one of their own type:
a subscript that stays within its tensor is the same number modulo 2^64. So are terms of a wider sum that is a subscript
and whose other terms are small and read nothing: they are as small as those.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

from leir.analysis.affine import Interval, interval
from leir.analysis.ranges import ranges
from leir.analysis.types import Weak, integer_range, is_float, is_integer, type_of
from leir.check.bounds import preconditions
from leir.check.diagnostic import Diagnostic
from leir.edit import (
    accesses,
    dtypes,
    expression_at,
    expressions,
    replace_expression_at,
    tensors_in,
    walk_expression,
    walk_with_enclosed,
)
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Binary,
    Call,
    Cast,
    DType,
    Expr,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Stmt,
    Unary,
    operands,
)

_SMALL = (-(2**30), 2**30)
_RING = ("+", "-", "*")


def check_overflow(program: Program, objections: Callable[[Program], Iterable[Diagnostic]]) -> Iterator[Diagnostic]:
    """The operands that may leave their type, if there are objections to the program once nothing is known of them."""
    found: list[tuple[Place, DType]] = []
    types = dtypes(program)
    for number, outermost in enumerate(program.body):
        own = tuple((name, types[name]) for name in tensors_in(outermost))
        for path, within, dtype in _candidates(outermost, own):
            place = Place((number, *path), within)
            bounds = ranges(program).at(place)
            if (bounds.low, bounds.high) == integer_range(dtype):
                found.append((place, dtype))
    if not found:
        return
    unknown = program
    for place, dtype in sorted(found, key=lambda each: -len(each[0].within or ())):  # inner ones first: places stay
        anything = Cast(dtype, Call("floor", (Cast("f64", expression_at(unknown, place)),)))
        unknown = replace_expression_at(unknown, place, anything)
    needed = {precondition.subscript for precondition in preconditions(program)}
    if any(True for _ in objections(unknown)) or any(p.subscript not in needed for p in preconditions(unknown)):
        for place, dtype in found:
            message = f"{expression_text(expression_at(program, place))} may leave {dtype}, and a proof needs its value"
            yield Diagnostic("integer-overflow", message, place)


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _candidates(outermost: Stmt, types: tuple[tuple[str, DType], ...]) -> tuple[tuple[Path, Path, DType], ...]:
    """The operands in an outermost statement that loop extents alone do not keep within their types.

    As paths from there. `types`: of its tensors. A whole subscript is none: that it stays within its tensor is proved.
    """
    known, found = dict(types), list[tuple[Path, Path, DType]]()
    for path, statement, around in walk_with_enclosed(outermost):
        loops = [node for node in around if isinstance(node, Loop)]
        limits = {loop.variable: (loop.first, loop.first + loop.extent - 1) for loop in loops}
        for number, whole in enumerate(expressions(statement)):
            for within, operand in walk_expression(whole, (number,)):
                if len(within) == 1 or not _computes(operand) or _is_real(operand, known):
                    continue
                kind = type_of(operand, known) if _converts(operand) else "i64"
                if isinstance(kind, Weak) or not is_integer(kind) or _fits(operand, limits, integer_range(kind)):
                    continue
                above = [whole]
                for step in within[1:-1]:
                    above.append(operands(above[-1])[step])
                if not _is_harmless(operand, kind, above, known, limits):
                    found.append((path, within, kind))
    return tuple(found)


def _computes(operand: Expr) -> bool:
    """Whether an operand may be beyond its type while what it is made of is not."""
    match operand:
        case Binary(op):
            return op in (*_RING, "//")
        case Unary("-") | Call("abs"):
            return True
        case _:
            return False


def _is_real(expression: Expr, types: Mapping[str, DType]) -> bool:
    """Whether an expression is seen at once to be no integer: most are not."""
    match expression:
        case Access(tensor):
            return is_float(types[tensor])
        case Binary(_, left, right):
            return _is_real(left, types) or _is_real(right, types)
        case Unary(_, operand):
            return _is_real(operand, types)
        case Real():
            return True
        case _:
            return False


def _converts(expression: Expr) -> bool:
    """Whether an integer expression may be of another type than loop variables."""
    return isinstance(expression, Access | Cast) or any(map(_converts, operands(expression)))


def _fits(expression: Expr, limits: Mapping[str, Interval], ends: tuple[int, int]) -> bool:
    """Whether loop extents alone keep an integer expression between two ends."""
    low, high = interval(expression, limits)
    return ends[0] <= low and high <= ends[1]


def _is_harmless(
    operand: Expr, kind: DType, above: list[Expr], types: Mapping[str, DType], limits: Mapping[str, Interval]
) -> bool:
    """Whether an operand may leave its type; `above` are the expressions around it, outermost first."""
    around = above[-1]
    if isinstance(around, Access):
        return True
    if not isinstance(around, Binary | Unary) or around.op not in _RING or not any(True for _ in accesses(operand)):
        return False
    if type_of(around, types) == kind:
        return True
    term = operand
    for outer in reversed(above):
        if isinstance(outer, Access):
            return True
        if not isinstance(outer, Binary) or outer.op not in ("+", "-"):
            return False
        other = outer.right if outer.left is term else outer.left
        if not _fits(other, limits, _SMALL):
            return False
        term = outer
    return False
