"""Whether expressions, and the headers of nests, are the same under some choice of loop variables."""

from collections.abc import Iterator
from functools import lru_cache

from leir.edit import perfect_nest, variables_of, with_operands
from leir.names import substitute_in
from leir.syntax import (
    BINARY_FUNCTIONS,
    Access,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Expr,
    Guard,
    Integer,
    Loop,
    Real,
    Select,
    Stmt,
    Unary,
    Variable,
    operands,
)


def common_levels(one: Stmt, other: Stmt) -> list[Loop | Guard]:
    """The levels of two perfect nests, from the outside in, that are equal but for the names of their loops."""
    nests = [[level for _, level in perfect_nest(nest)] for nest in (one, other)]
    names: dict[str, Expr] = {}
    common: list[Loop | Guard] = []
    for a, b in zip(*nests, strict=False):
        match a, b:
            case Loop(), Loop():
                axes_agree = a.kind != "B" or a.variable[:2] == b.variable[:2]
                if (a.kind, a.extent, a.first) != (b.kind, b.extent, b.first) or not axes_agree:
                    return common
                names[b.variable] = Variable(a.variable)
            case Guard(), Guard():
                if substitute_in(b.condition, names) != a.condition:
                    return common
            case _:
                return common
        common.append(a)
    return common


COMMUTING = ("+", "*", "==", "!=")
MIRRORED: dict[BinaryOp, BinaryOp] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def pairings(one: Expr, other: Expr) -> Iterator[tuple[tuple[Expr, Expr], ...]]:
    """The ways in which two expressions are one computation but for the values of loop variables.

    Each is the pairs of integer expressions of loop variables, subscripts mostly, that must then be equal. Operands of
    sums, products, maxima and comparisons may have changed sides: no result, and no rounding, depends on that.
    """
    if one == other and not variables_of(one):
        yield ()
        return
    if is_of_indices(one) and is_of_indices(other):
        yield ((one, other),)
        return
    match one, other:
        case Access(tensor, indices), Access(same, others) if tensor == same and len(indices) == len(others):
            yield from _all_paired(indices, others)
        case Binary(op, left, right), Binary(same, a, b):
            if op == same:
                yield from _all_paired((left, right), (a, b))
            if (op == same and op in COMMUTING) or MIRRORED.get(op) == same:
                yield from _all_paired((left, right), (b, a))
        case Call(function, arguments), Call(same, others) if function == same:
            yield from _all_paired(arguments, others)
            if function in BINARY_FUNCTIONS:
                yield from _all_paired(arguments, others[::-1])
        case ((Unary() | Cast() | Select()), (Unary() | Cast() | Select())):
            below = operands(one)
            if type(one) is type(other) and with_operands(other, below) == one:
                yield from _all_paired(below, operands(other))
        case _:
            pass


def _all_paired(one: tuple[Expr, ...], other: tuple[Expr, ...]) -> Iterator[tuple[tuple[Expr, Expr], ...]]:
    if not one:
        yield ()
        return
    for first in pairings(one[0], other[0]):
        yield from ((*first, *rest) for rest in _all_paired(one[1:], other[1:]))


def is_of_indices(expression: Expr) -> bool:
    """Whether an expression is integer arithmetic on loop variables and literals, as subscripts are."""
    match expression:
        case Integer() | Variable():
            return True
        case Unary("-") | Binary("+" | "-" | "*" | "//" | "%") | Call("max" | "min" | "abs"):
            return all(map(is_of_indices, operands(expression)))
        case _:
            return False


@lru_cache(maxsize=4096)
def shape_of(expression: Expr) -> str:
    """A text by which to group expressions: `pairings` has a way to pair those of equal texts, and only those, but that
    a literal subscript may also be paired with one of variables."""
    if is_of_indices(expression) and variables_of(expression):
        return "#"
    below = [shape_of(operand) for operand in operands(expression)]
    match expression:
        case Access(tensor):
            return f"{tensor}[{','.join(below)}]"
        case Binary(op):
            if op in MIRRORED:
                op, below = (op, below) if op[0] == "<" else (MIRRORED[op], below[::-1])
            return f"({op} {' '.join(sorted(below) if op in COMMUTING else below)})"
        case Call(function):
            return f"{function}({','.join(sorted(below))})"
        case Unary(op):
            return f"({op}{below[0]})"
        case Cast(dtype):
            return f"{dtype}({below[0]})"
        case Select():
            return f"if({','.join(below)})"
        case Integer(value) | Real(value):
            return repr(value)
        case Variable():
            return "#"
