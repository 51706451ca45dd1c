"""What the interpreter knows of a program's tensors before it runs: dtype, place, size, fill; and integer intervals.

Its own and deliberately simple reading of the tree: linear forms and interval arithmetic over loop ranges. It shares
nothing with `leir.analysis`, so that the two can check each other.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from leir.edit import accesses, expressions, walk
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
    Scope,
    Select,
    Stmt,
    Unary,
    Variable,
)

Ranges = dict[str, tuple[int, int]]  # loop variable: smallest and largest value
DENSE_LIMIT = 2**26  # elements of an undeclared temporary beyond which its elements are kept one by one


@dataclass(frozen=True, slots=True)
class Tensor:
    """`shape` is the box that holds every index, or None where no bound is known or the box is too large.

    `fill`: the accumulation that is the tensor's first write in the text, if its first write is one.
    `sized`: whether indices beyond `shape` are errors (an undeclared temporary reaches as far as it is used).
    """

    name: str
    dtype: DType
    scope: Scope
    role: Literal["input", "output", "temporary"]
    shape: tuple[int, ...] | None
    rank: int
    fill: AssignOp | None
    sized: bool
    allocated: Path | None


@dataclass(frozen=True, slots=True)
class Linear:
    """`constant` plus the sum of coefficient times variable; no coefficient is zero."""

    coefficients: dict[str, int]
    constant: int


def linear(expression: Expr) -> Linear | None:
    """The expression as a linear form of loop variables, if it is plainly one."""
    match expression:
        case Integer(value):
            return Linear({}, value)
        case Variable(name):
            return Linear({name: 1}, 0)
        case Unary("-", operand):
            form = linear(operand)
            return None if form is None else scaled(form, -1)
        case Binary("+" | "-" | "*" as op, left, right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            if op != "*":
                return added(a, b if op == "+" else scaled(b, -1))
            if a.coefficients and b.coefficients:
                return None
            return scaled(a, b.constant) if a.coefficients else scaled(b, a.constant)
        case _:
            return None


def scaled(form: Linear, factor: int) -> Linear:
    """A linear form times an integer."""
    return Linear({n: c * factor for n, c in form.coefficients.items() if c * factor}, form.constant * factor)


def added(left: Linear, right: Linear) -> Linear:
    """The sum of two linear forms."""
    names = dict.fromkeys((*left.coefficients, *right.coefficients))
    sums = {name: left.coefficients.get(name, 0) + right.coefficients.get(name, 0) for name in names}
    return Linear({name: total for name, total in sums.items() if total}, left.constant + right.constant)


def interval(expression: Expr, ranges: Ranges) -> tuple[int, int] | None:
    """Bounds on an integer expression's value, loop variables within their ranges; None where none are known."""
    form = linear(expression)
    if form is not None and not form.coefficients.keys() <= ranges.keys():
        return None  # a variable that no loop binds: an error where the statement is reached
    if form is not None:
        low = high = form.constant
        for name, coefficient in form.coefficients.items():
            ends = sorted(coefficient * end for end in ranges[name])
            low, high = low + ends[0], high + ends[1]
        return low, high
    match expression:
        case Binary("%", _, Integer(divisor)) if divisor > 0:
            return 0, divisor - 1
        case Binary("//", left, Integer(divisor)) if divisor > 0:
            bounds = interval(left, ranges)
            return None if bounds is None else (bounds[0] // divisor, bounds[1] // divisor)
        case Binary("+" | "-" | "*" as op, left, right):
            a, b = interval(left, ranges), interval(right, ranges)
            if a is None or b is None:
                return None
            if op == "+":
                return a[0] + b[0], a[1] + b[1]
            if op == "-":
                return a[0] - b[1], a[1] - b[0]
            products = [x * y for x in a for y in b]
            return min(products), max(products)
        case Call("max" | "min" as name, (left, right)):
            a, b = interval(left, ranges), interval(right, ranges)
            if a is None or b is None:
                return None
            choose = max if name == "max" else min
            return choose(a[0], b[0]), choose(a[1], b[1])
        case Select(_, then, otherwise):
            a, b = interval(then, ranges), interval(otherwise, ranges)
            return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))
        case _:
            return None


def tensors(program: Program) -> dict[str, Tensor]:
    """Every tensor of the program by name, the signature first."""
    roles: dict[str, tuple[DType, Scope, Literal["input", "output", "temporary"], tuple[int, ...], Path | None]] = {}
    for declaration in program.inputs:
        roles[declaration.tensor] = (declaration.dtype, "g", "input", declaration.shape, None)
    for declaration in program.outputs:
        roles[declaration.tensor] = (declaration.dtype, "g", "output", declaration.shape, None)
    first_writes: dict[str, AssignOp] = {}
    for path, statement in walk(program):
        if isinstance(statement, Alloc):
            roles[statement.tensor] = (statement.dtype, statement.scope, "temporary", statement.shape, path)
        elif isinstance(statement, Equation):
            first_writes.setdefault(statement.target.tensor, statement.op)
    fills: dict[str, AssignOp] = {name: op for name, op in first_writes.items() if op != "="}
    result = {
        name: Tensor(name, dtype, scope, role, shape, len(shape), fills.get(name), True, path)
        for name, (dtype, scope, role, shape, path) in roles.items()
    }
    boxes: dict[str, list[int | None]] = {}
    for access, ranges, written in accesses_with_ranges(program):
        if access.tensor in result:
            continue
        box = boxes.setdefault(access.tensor, [0] * len(access.indices))
        for number, index in enumerate(access.indices[: len(box)]):
            bounds, size = interval(index, ranges), box[number]
            if bounds is not None and size is not None:
                box[number] = max(size, bounds[1] + 1)
            elif written:  # what is read beyond the writes is undefined: reads without bounds need no room
                box[number] = None
    for name, box in boxes.items():
        shape = tuple(size for size in box if size is not None)
        dense = shape if len(shape) == len(box) and math.prod(shape) <= DENSE_LIMIT else None
        dtype = program.outputs[0].dtype
        result[name] = Tensor(name, dtype, "g", "temporary", dense, len(box), fills.get(name), False, None)
    return result


def accesses_with_ranges(program: Program) -> Iterator[tuple[Access, Ranges, bool]]:
    """Every access of the program, with the ranges of the loop variables around it, and whether it is a target."""

    def visit(body: tuple[Stmt, ...], ranges: Ranges) -> Iterator[tuple[Access, Ranges, bool]]:
        for statement in body:
            target = statement.target if isinstance(statement, Equation) else None
            for expression in expressions(statement):
                for access in accesses(expression):
                    yield access, ranges, access is target
            match statement:
                case Loop(_, variable, extent, first, below):
                    yield from visit(below, {**ranges, variable: (first, first + extent - 1)})
                case Guard(_, below):
                    yield from visit(below, ranges)
                case Equation() | Alloc():
                    pass

    return visit(program.body, {})
