"""Subscripts as sums of variables with constant factors: what they take, and where they have gaps."""

from collections.abc import Mapping
from dataclasses import dataclass

from leir.syntax import Binary, Expr, Integer, Unary, Variable


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + sum of factor * variable."""

    constant: int
    factors: Mapping[str, int]


def linear(index: Expr) -> Linear | None:
    """The expression as such a sum, None where it is none."""
    match index:
        case Integer(value):
            return Linear(value, {})
        case Variable(name):
            return Linear(0, {name: 1})
        case Unary("-", operand):
            inner = linear(operand)
            return _scaled(inner, -1) if inner else None
        case Binary("+" | "-" as op, left, right):
            a, b = linear(left), linear(right)
            if a is None or b is None:
                return None
            b = _scaled(b, 1 if op == "+" else -1)
            names = dict.fromkeys((*a.factors, *b.factors))
            factors = {name: a.factors.get(name, 0) + b.factors.get(name, 0) for name in names}
            return Linear(a.constant + b.constant, {name: f for name, f in factors.items() if f})
        case Binary("*", left, right):
            a, b = linear(left), linear(right)
            if a is None or b is None or (a.factors and b.factors):
                return None
            return _scaled(b, a.constant) if not a.factors else _scaled(a, b.constant)
        case _:
            return None


def span(form: Linear, factors: Mapping[str, int], ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """The least and largest value of the constant and the given terms."""
    ends = [sorted((factor * ranges[name][0], factor * ranges[name][1])) for name, factor in factors.items()]
    return form.constant + sum(end[0] for end in ends), form.constant + sum(end[1] for end in ends)


def is_gapless(factors: Mapping[str, int], ranges: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the sum takes every value between its least and its largest."""
    reached = 0.0
    for factor, name in sorted((abs(factor), name) for name, factor in factors.items()):
        if factor > reached + 1:
            return False
        reached += factor * (ranges[name][1] - ranges[name][0])
    return True


def occurs(variable: str, index: Expr) -> bool:
    """Whether the index is such a sum and depends on the variable."""
    form = linear(index)
    return form is not None and variable in form.factors


def _scaled(form: Linear, factor: int) -> Linear:
    return Linear(form.constant * factor, {name: f * factor for name, f in form.factors.items() if f * factor})
