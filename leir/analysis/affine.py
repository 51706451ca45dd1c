"""Quasi-affine expressions and conditions as isl text, and the interval that an integer expression stays in.

Quasi-affine: loop variables, integers, sums, products with a constant, `//` and `%` by a constant, max, min, abs. What
is not is *opaque*; a condition with opaque parts has two texts, one that holds wherever the condition may hold and one
that holds only where it must.
"""

from collections.abc import Callable, Mapping

from leir.analysis.types import NEGATED
from leir.syntax import Access, Binary, Call, Cast, Expr, Integer, Select, Unary, Variable

Names = Mapping[str, str]  # loop variable -> its name in the set
Interval = tuple[float, float]  # both ends belong to it; integers, or infinite
Atoms = Callable[[Expr], str | None]  # opaque integer expression -> a dimension that stands for its value

UNBOUNDED: Interval = (-float("inf"), float("inf"))


def constant(expression: Expr, at: Mapping[str, int] | None = None) -> int | None:
    """The value of an integer expression, or None where it reads a tensor or a variable that `at` has no value of."""
    match expression:
        case Integer(value):
            return value
        case Variable(name):
            return at.get(name) if at else None
        case Unary("-", operand):
            value = constant(operand, at)
            return None if value is None else -value
        case Binary(op, left, right):
            a, b = constant(left, at), constant(right, at)
            if a is None or b is None:
                return None
            match op:
                case "+":
                    return a + b
                case "-":
                    return a - b
                case "*":
                    return a * b
                case "//" if b:
                    return a // b
                case "%" if b:
                    return a % b
                case _:
                    return None
        case Call("max" | "min" as function, (left, right)):
            a, b = constant(left, at), constant(right, at)
            return None if a is None or b is None else max(a, b) if function == "max" else min(a, b)
        case _:
            return None


def affine(expression: Expr, names: Names, atoms: Atoms | None = None) -> str | None:
    """The expression as isl text, or None where it is opaque. `atoms` may name dimensions for opaque parts."""
    text = _affine(expression, names, atoms)
    return atoms(expression) if text is None and atoms is not None else text


def _affine(expression: Expr, names: Names, atoms: Atoms | None) -> str | None:
    match expression:
        case Integer(value):
            return str(value)
        case Variable(name):
            return names.get(name)
        case Unary("-", operand):
            text = affine(operand, names, atoms)
            return None if text is None else f"(-{text})"
        case Binary("+" | "-" as op, left, right):
            a, b = affine(left, names, atoms), affine(right, names, atoms)
            return None if a is None or b is None else f"({a}{op}{b})"
        case Binary("*", left, right):
            for factor, other in ((constant(left), right), (constant(right), left)):
                if factor is not None:
                    text = affine(other, names, atoms)
                    return None if text is None else f"({factor}*{text})"
            return None
        case Binary("//" | "%" as op, left, right):
            divisor, text = constant(right), affine(left, names, atoms)
            if not divisor or text is None:
                return None
            quotient = f"floor({text}/{divisor})" if divisor > 0 else f"floor((-{text})/{-divisor})"
            if op == "//":
                return quotient
            return f"({text} mod {divisor})" if divisor > 0 else f"({text}+{-divisor}*{quotient})"
        case Call("max" | "min" as function, (left, right)):
            a, b = affine(left, names, atoms), affine(right, names, atoms)
            return None if a is None or b is None else f"{function}({a},{b})"
        case Call("abs", (operand,)):
            text = affine(operand, names, atoms)
            return None if text is None else f"max({text},-{text})"
        case Cast("i64", operand):
            return affine(operand, names, atoms)
        case _:
            return None


def condition(
    expression: Expr, names: Names, *, holds: bool = True, opaque: bool = True, atoms: Atoms | None = None
) -> str:
    """isl text for "the condition is `holds`"; what is opaque counts as `opaque`: true for "may", false for "must"."""
    match expression:
        case Unary("!", operand):
            return condition(operand, names, holds=not holds, opaque=opaque, atoms=atoms)
        case Binary("&&" | "||" as op, left, right):
            a = condition(left, names, holds=holds, opaque=opaque, atoms=atoms)
            b = condition(right, names, holds=holds, opaque=opaque, atoms=atoms)
            both = (op == "&&") == holds
            neutral, absorbing = ("true", "false") if both else ("false", "true")
            if absorbing in (a, b):
                return absorbing
            parts = [text for text in (a, b) if text != neutral]
            return neutral if not parts else parts[0] if len(parts) == 1 else f"({a} {'and' if both else 'or'} {b})"
        case Binary("<" | "<=" | ">" | ">=" | "==" | "!=" as op, left, right):
            a, b = affine(left, names, atoms), affine(right, names, atoms)
            if a is not None and b is not None:
                shown = op if holds else NEGATED[op]
                return f"{a} {'=' if shown == '==' else shown} {b}"
        case _:
            text = affine(expression, names, atoms)
            if text is not None:
                return f"{text} {'!=' if holds else '='} 0"
    return "true" if opaque else "false"


def is_exact(expression: Expr, names: Names) -> bool:
    """Whether a condition has no opaque part that matters."""
    return condition(expression, names, opaque=True) == condition(expression, names, opaque=False)


def interval(
    expression: Expr, ranges: Mapping[str, Interval], of_opaque: Callable[[Expr], Interval] | None = None
) -> Interval:
    """Where an integer expression stays when each variable stays in its range; parts are taken as independent.

    `of_opaque` gives the interval of an access or a cast; without it they are unbounded.
    """

    def within(operand: Expr) -> Interval:
        return interval(operand, ranges, of_opaque)

    match expression:
        case Integer(value):
            return (value, value)
        case Variable(name):
            return ranges.get(name, UNBOUNDED)
        case Unary("-", operand):
            low, high = within(operand)
            return (-high, -low)
        case Binary("+" | "-" | "*" | "//" | "%" as op, left, right):
            return _of_arithmetic(op, within(left), within(right))
        case Binary("<" | "<=" | ">" | ">=" | "==" | "!=" | "&&" | "||") | Unary("!"):
            return (0, 1)
        case Call("max" | "min" as function, (left, right)):
            (a, b), (c, d) = within(left), within(right)
            return (max(a, c), max(b, d)) if function == "max" else (min(a, c), min(b, d))
        case Call("abs", (operand,)):
            low, high = within(operand)
            return (max(low, -high, 0), max(-low, high))
        case Select(_, then, otherwise):
            (a, b), (c, d) = within(then), within(otherwise)
            return (min(a, c), max(b, d))
        case Cast("i64", operand):
            return within(operand)
        case Access() | Cast() if of_opaque is not None:
            return of_opaque(expression)
        case _:
            return UNBOUNDED


def _of_arithmetic(op: str, left: Interval, right: Interval) -> Interval:
    (a, b), (c, d) = left, right
    match op:
        case "+":
            return (a + c, b + d)
        case "-":
            return (a - d, b - c)
        case "*":
            corners = [0 if x == 0 or y == 0 else x * y for x in left for y in right]
            return (min(corners), max(corners))
        case "//" if _is_divisor(right):
            ends = (_floor(a, c), _floor(b, c))
            return (min(ends), max(ends))
        case "%" if _is_divisor(right):
            if _finite(left) and a // c == b // c:
                return (a % c, b % c)
            return (0, c - 1) if c > 0 else (c + 1, 0)
        case _:
            return UNBOUNDED


def _is_divisor(ends: Interval) -> bool:
    return ends[0] == ends[1] != 0 and _finite(ends)


def _floor(value: float, divisor: float) -> float:
    return value // divisor if abs(value) < float("inf") else value * divisor


def _finite(ends: Interval) -> bool:
    return ends[0] > -float("inf") and ends[1] < float("inf")
