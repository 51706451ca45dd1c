"""Expressions of literals only: their values, in integers where all are and no `/` or function occurs, else in f64."""

import math
from dataclasses import dataclass
from typing import assert_never

from leir.syntax import BinaryOp


@dataclass(frozen=True, slots=True)
class Weak:
    """The type of an expression of literals only: its folded value, an `int`, a `float` in f64, or a `bool`."""

    value: int | float | bool


def number(weak: Weak) -> float:
    """The value as a float; past the largest one, infinity."""
    try:
        return float(weak.value)
    except OverflowError:
        return math.inf if weak.value > 0 else -math.inf


def fold(op: BinaryOp, left: Weak, right: Weak) -> Weak:
    """The value of two literals under an operator: in integers if both are and it is not `/`, else in f64."""
    match op:
        case "&&":
            return Weak(bool(left.value and right.value))
        case "||":
            return Weak(bool(left.value or right.value))
        case "<":
            return Weak(left.value < right.value)
        case "<=":
            return Weak(left.value <= right.value)
        case ">":
            return Weak(left.value > right.value)
        case ">=":
            return Weak(left.value >= right.value)
        case "==":
            return Weak(left.value == right.value)
        case "!=":
            return Weak(left.value != right.value)
        case "/":
            return Weak(_divide(number(left), number(right)))
        case "**":
            return Weak(_power(number(left), number(right)))
        case "//" | "%":
            a, b = (0 if isinstance(k.value, float) else int(k.value) for k in (left, right))
            return Weak(0 if b == 0 else a // b if op == "//" else a % b)  # division by 0: the checker refuses it
        case "+" | "-" | "*":
            if isinstance(left.value, float) or isinstance(right.value, float):
                x, y = number(left), number(right)
                return Weak(x + y if op == "+" else x - y if op == "-" else x * y)
            x, y = int(left.value), int(right.value)
            return Weak(x + y if op == "+" else x - y if op == "-" else x * y)
        case _:
            assert_never(op)


def _divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(a: float, b: float) -> float:
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and b % 2 == 1 else math.inf
    except ValueError:  # 0 to a negative power is inf; a negative base to a broken power is NaN
        return math.inf if a == 0 else math.nan


_FOLDS = {
    "exp": math.exp, "expm1": math.expm1, "log": math.log, "log1p": math.log1p, "sqrt": math.sqrt, "abs": abs,
    "erf": math.erf, "tanh": math.tanh, "sin": math.sin, "cos": math.cos,
}  # fmt: skip


def fold_call(function: str, values: list[float]) -> float:
    if any(math.isnan(value) for value in values):
        return math.nan
    match function, values:
        case "max", [a, b]:
            return max(a, b)
        case "min", [a, b]:
            return min(a, b)
        case (("floor" | "round"), [a]):
            return a if math.isinf(a) else float(math.floor(a) if function == "floor" else round(a))
        case _:
            value = values[0]
    try:
        return float(_FOLDS[function](value))
    except OverflowError:
        return math.inf
    except ValueError:  # outside the domain: the pole of a logarithm, or NaN
        at_pole = (function == "log" and value == 0) or (function == "log1p" and value == -1)
        return -math.inf if at_pole else math.nan
