"""The box of a tensor that a statement touches: where it begins, as the loops around see it, and its constant size.

Subscripts are taken apart as sums. What depends on the loops around only moves the box; what depends on the loops
inside only moves within it. A term that depends on both, other than as a sum, has no box.

A dimension whose accesses touch pieces with gaps between (`w*64+e`, e below 4) is kept as two: which piece, and where
in it. So a box holds what is touched, and what lies between is left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from leir.analysis.affine import Interval, constant, interval
from leir.edit import variables_of
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Unary, Variable


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
    if abs(low) < float("inf") and (pieces := int(low // divisor)):
        quotient = Sum(quotient.terms, quotient.constant + pieces)
        remainder = Sum(remainder.terms, remainder.constant - pieces * divisor)
        low, high = low - pieces * divisor, high - pieces * divisor
    if low < 0 or high >= divisor:
        return Binary("//", expression, Integer(divisor)), Binary("%", expression, Integer(divisor))
    return as_expression(quotient), as_expression(remainder)


def moving(index: Expr) -> str | None:
    """The one variable of a subscript, whatever factor and constant come with it; None if there is none, or more."""
    match list(as_sum(index).terms.items()):
        case [(Variable(name), _)]:
            return name
        case _:
            return None


def rejoined(expression: Expr) -> Expr:
    """The expression with x in place of x//n*n+x%n in its sum; itself where there is none."""
    total = as_sum(expression)
    for term, factor in total.terms.items():
        match term:
            case Binary("//", whole, Integer(size)):
                rest = Binary("%", whole, Integer(size))
                if size and total.terms.get(rest, 0) * size == factor:
                    others = {t: f for t, f in total.terms.items() if t not in (term, rest)}
                    return rejoined(
                        as_expression(_added(Sum(others, total.constant), _scaled(as_sum(whole), factor // size)))
                    )
            case _:
                pass
    return expression


@dataclass(frozen=True, slots=True)
class Use:
    """The subscripts of an access below a statement, and where each loop variable inside that statement goes."""

    indices: tuple[Expr, ...]
    ranges: Mapping[str, Interval]


@dataclass(frozen=True, slots=True)
class Axis:
    """One dimension of a box: `size` places, each `stride` elements of the tensor's dimension after the one before."""

    dimension: int
    stride: int
    size: int


@dataclass(frozen=True, slots=True)
class Box:
    """`first`: the first element in each dimension of the tensor, in terms of the loops around; `axes`: what follows.

    The axes are in the order of the dimensions, and of one dimension the longest stride first; the last has stride 1.
    """

    first: tuple[Expr, ...]
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)


class NoBox(Exception):
    """The accesses touch no box of constant size; the message says which subscript stands in the way."""


def bounding_box(uses: Iterable[Use]) -> Box:
    """The smallest box that holds every element that the accesses touch. Raises NoBox.

    All uses have the same rank, and there is at least one.
    """
    first: list[Expr] = []
    axes: list[Axis] = []
    for number, dimension in enumerate(zip(*(_parts(use) for use in uses), strict=True)):
        outside = dimension[0].outside
        for other in dimension[1:]:
            if other.outside.terms != outside.terms:
                a, b = (expression_text(as_expression(part)) for part in (outside, other.outside))
                raise NoBox(f"subscript {number} moves with {a} in one access and with {b} in another")
        start, rest = 0, list(dimension)
        for stride in sorted({abs(f) for part in rest for f in part.inside.terms.values()}, reverse=True):
            if pieces := _pieces(rest, stride):
                axes.append(Axis(number, stride, pieces.size))
                start, rest = start + pieces.start, pieces.rest
        lowest, highest = _span(rest)
        axes.append(Axis(number, 1, highest - lowest + 1))
        first.append(as_expression(Sum(outside.terms, start + lowest)))
    return Box(tuple(first), tuple(axes))


def position(box: Box, use: Use) -> tuple[Expr, ...]:
    """Where an access lies in its box: its subscripts less the box's first element, a place for each axis."""
    rest = [
        as_sum(index) if first == Integer(0) else _added(as_sum(index), _scaled(as_sum(first), -1))
        for index, first in zip(use.indices, box.first, strict=True)
    ]
    result: list[Expr] = []
    for axis in box.axes:
        place = rest[axis.dimension]
        if axis.stride > 1:
            place, rest[axis.dimension] = _divided(place, axis.stride)
        elif box.first[axis.dimension] == Integer(0) and place == as_sum(use.indices[axis.dimension]):
            result.append(use.indices[axis.dimension])  # as it was written
            continue
        result.append(as_expression(place))
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Part:
    """A subscript: the terms that the loops around decide; the rest; and the values of each term of the rest."""

    outside: Sum
    inside: Sum
    values: Mapping[Expr, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """A dimension cut at a stride: how many pieces, where the first starts, and the subscripts within a piece."""

    size: int
    start: int
    rest: list[_Part]


def _parts(use: Use) -> list[_Part]:
    """The parts of each subscript of an access."""
    result: list[_Part] = []
    inside = set(use.ranges)
    for index in use.indices:
        total = as_sum(index)
        outside: dict[Expr, int] = {}
        within: dict[Expr, int] = {}
        values: dict[Expr, tuple[int, int]] = {}
        for term, factor in total.terms.items():
            names = variables_of(term)
            if not names & inside:
                outside[term] = factor
                continue
            if names - inside:
                raise NoBox(f"{expression_text(term)} depends on loops around and inside at once")
            low, high = interval(term, use.ranges)
            if abs(low) == float("inf") or abs(high) == float("inf"):
                raise NoBox(f"{expression_text(term)} has no known bounds")
            within[term], values[term] = factor, (int(low), int(high))
        result.append(_Part(Sum(outside), Sum(within, total.constant), values))
    return result


def _span(parts: Iterable[_Part]) -> tuple[int, int]:
    """The smallest and the largest value of what the loops inside decide, over all accesses."""
    lowest = highest = None
    for part in parts:
        low = high = part.inside.constant
        for term, factor in part.inside.terms.items():
            ends = [factor * end for end in part.values[term]]
            low, high = low + min(ends), high + max(ends)
        lowest = low if lowest is None else min(lowest, low)
        highest = high if highest is None else max(highest, high)
    assert lowest is not None and highest is not None
    return lowest, highest


def _pieces(parts: list[_Part], stride: int) -> _Pieces | None:
    """The dimension as pieces `stride` apart; None where they would touch, or one of them is all there is."""
    if stride == 1:
        return None
    divided = [_divided(Sum(part.inside.terms), stride) for part in parts]
    whole = [replace(part, inside=quotient) for part, (quotient, _) in zip(parts, divided, strict=True)]
    rest = [
        replace(part, inside=Sum(remainder.terms, part.inside.constant))
        for part, (_, remainder) in zip(parts, divided, strict=True)
    ]
    (first, last), (lowest, highest) = _span(whole), _span(rest)
    # A place is taken apart by its constant: what a piece's first element needs of it must stay within the piece.
    readable = all(0 <= part.inside.constant - lowest < stride for part in rest)
    if first == last or highest - lowest + 1 >= stride or not readable:
        return None
    return _Pieces(last - first + 1, first * stride, rest)


def _divided(total: Sum, stride: int) -> tuple[Sum, Sum]:
    """The multiples of a stride in a sum, divided by it, and what is left, its constant from 0 to the stride."""
    whole, rest = divmod(total.constant, stride)
    multiples = {term: factor // stride for term, factor in total.terms.items() if factor % stride == 0}
    return Sum(multiples, whole), Sum({t: f for t, f in total.terms.items() if f % stride}, rest)


def _added(a: Sum, b: Sum) -> Sum:
    terms = dict(a.terms)
    for term, factor in b.terms.items():
        terms[term] = terms.get(term, 0) + factor
    return Sum({term: factor for term, factor in terms.items() if factor}, a.constant + b.constant)


def _scaled(a: Sum, factor: int) -> Sum:
    return Sum({term: own * factor for term, own in a.terms.items() if factor}, a.constant * factor)
