"""The box of a tensor that a statement touches: where it begins, as the loops around see it, and its constant size.

Subscripts are taken apart as sums. What depends on the loops around only moves the box; what depends on the loops
inside only moves within it. A term that depends on both, other than as a sum, has no box.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from leir.analysis.affine import Interval, constant, interval
from leir.edit import variables_of
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Unary


@dataclass(frozen=True, slots=True)
class Sum:
    """An integer expression as a sum: a coefficient for each term that is no sum itself, in order, and a constant."""

    terms: Mapping[Expr, int] = field(default_factory=dict[Expr, int])
    constant: int = 0


def as_sum(expression: Expr) -> Sum:
    """The expression taken apart; products with a constant are distributed over sums."""
    value = constant(expression)
    if value is not None:
        return Sum({}, value)
    match expression:
        case Unary("-", operand):
            return _scaled(as_sum(operand), -1)
        case Binary("+", left, right):
            return _added(as_sum(left), as_sum(right))
        case Binary("-", left, right):
            return _added(as_sum(left), _scaled(as_sum(right), -1))
        case Binary("*", left, right) if (factor := constant(left)) is not None:
            return _scaled(as_sum(right), factor)
        case Binary("*", left, right) if (factor := constant(right)) is not None:
            return _scaled(as_sum(left), factor)
        case _:
            return Sum({expression: 1})


def as_expression(total: Sum) -> Expr:
    """The sum written out, what is positive first; 0 where nothing is left."""
    rest = total.constant
    result: Expr | None = None
    if rest > 0 and total.terms and all(factor < 0 for factor in total.terms.values()):
        result, rest = Integer(rest), 0
    for term, factor in sorted(total.terms.items(), key=lambda item: item[1] < 0):
        if factor == 0:
            continue
        size = term if abs(factor) == 1 else Binary("*", term, Integer(abs(factor)))
        if result is None:
            result = size if factor > 0 else Unary("-", size)
        else:
            result = Binary("+" if factor > 0 else "-", result, size)
    if result is None:
        return Integer(rest) if rest >= 0 else Unary("-", Integer(-rest))
    return Binary("+" if rest > 0 else "-", result, Integer(abs(rest))) if rest else result


def plus(expression: Expr, other: Expr) -> Expr:
    """Their sum, written out."""
    return as_expression(_added(as_sum(expression), as_sum(other)))


def quotient_and_remainder(expression: Expr, divisor: int, ranges: Mapping[str, Interval]) -> tuple[Expr, Expr]:
    """The expression `// divisor` and `% divisor`, by the parts of its sum where the ranges of variables allow it."""
    total = as_sum(expression)
    whole, rest = divmod(total.constant, divisor)
    quotient = Sum({t: factor // divisor for t, factor in total.terms.items() if factor % divisor == 0}, whole)
    remainder = Sum({t: factor for t, factor in total.terms.items() if factor % divisor}, rest)
    low, high = interval(as_expression(remainder), ranges)
    if low < 0 or high >= divisor:
        return Binary("//", expression, Integer(divisor)), Binary("%", expression, Integer(divisor))
    return as_expression(quotient), as_expression(remainder)


@dataclass(frozen=True, slots=True)
class Use:
    """The subscripts of an access below a statement, and where each loop variable inside that statement goes."""

    indices: tuple[Expr, ...]
    ranges: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Box:
    """`first`: the first element in each dimension, in terms of the loops around; `shape`: how many follow from it."""

    first: tuple[Expr, ...]
    shape: tuple[int, ...]


class NoBox(Exception):
    """The accesses touch no box of constant size; the message says which subscript stands in the way."""


def bounding_box(uses: Iterable[Use]) -> Box:
    """The smallest box that holds every element that the accesses touch. Raises NoBox.

    All uses have the same rank, and there is at least one.
    """
    first: list[Expr] = []
    shape: list[int] = []
    for number, dimension in enumerate(zip(*(_parts(use) for use in uses), strict=True)):
        outside, lowest, highest = dimension[0]
        for other, low, high in dimension[1:]:
            if other.terms != outside.terms:
                a, b = (expression_text(as_expression(part)) for part in (outside, other))
                raise NoBox(f"subscript {number} moves with {a} in one access and with {b} in another")
            lowest, highest = min(lowest, low), max(highest, high)
        first.append(as_expression(Sum(outside.terms, lowest)))
        shape.append(highest - lowest + 1)
    return Box(tuple(first), tuple(shape))


def position(box: Box, use: Use) -> tuple[Expr, ...]:
    """Where an access lies in its box: its subscripts less the box's first element."""
    return tuple(
        index if first == Integer(0) else as_expression(_added(as_sum(index), _scaled(as_sum(first), -1)))
        for index, first in zip(use.indices, box.first, strict=True)
    )


def _parts(use: Use) -> list[tuple[Sum, int, int]]:
    """Of each subscript: the terms that the loops around decide, and the smallest and largest value of the rest."""
    result: list[tuple[Sum, int, int]] = []
    inside = set(use.ranges)
    for index in use.indices:
        total = as_sum(index)
        outside: dict[Expr, int] = {}
        low = high = total.constant
        for term, factor in total.terms.items():
            names = variables_of(term)
            if not names & inside:
                outside[term] = factor
                continue
            if names - inside:
                raise NoBox(f"{expression_text(term)} depends on loops around and inside at once")
            ends = [factor * end for end in interval(term, use.ranges)]
            if any(abs(end) == float("inf") for end in ends):
                raise NoBox(f"{expression_text(term)} has no known bounds")
            low, high = low + int(min(ends)), high + int(max(ends))
        result.append((Sum(outside), low, high))
    return result


def _added(a: Sum, b: Sum) -> Sum:
    terms = dict(a.terms)
    for term, factor in b.terms.items():
        terms[term] = terms.get(term, 0) + factor
    return Sum({term: factor for term, factor in terms.items() if factor}, a.constant + b.constant)


def _scaled(a: Sum, factor: int) -> Sum:
    return Sum({term: own * factor for term, own in a.terms.items()}, a.constant * factor)
