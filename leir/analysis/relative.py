"""Relative errors of an expression, in units u of its type's unit roundoff, as far as the ranges bound them.

A sum is as accurate as its terms where they have one sign. Else it is worse by its `condition`: the sum of the sizes of
its terms over its own size, which the ranges bound where they keep the sum away from zero.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from leir.analysis.algebra import Algebra, whole
from leir.analysis.intervals import Range, largest_magnitude, least_magnitude, outwards, relative_error
from leir.analysis.spread import condition_of
from leir.analysis.types import Weak
from leir.syntax import Binary, DType, Expr, Unary

CALL_ROUNDINGS = 8.0  # that verification allows a power or call
OPERATION_ROUNDINGS = 2.0  # that it allows a product or quotient


class Unbounded(Exception):
    """No bound on what an expression rounds is known; the message says why."""


@dataclass(slots=True)
class RelativeErrors:
    """The relative errors of expressions that stand at one place.

    `range_of`: of any of their parts; `spread_of`: of their atoms (`leir.analysis.spread`).
    """

    algebra: Algebra
    range_of: Callable[[Expr], Range]
    spread_of: Callable[[Expr], float]
    _found: dict[Expr, tuple[float, float, float]] = field(default_factory=dict[Expr, tuple[float, float, float]])
    _condition: dict[Expr, float] = field(default_factory=dict[Expr, float])

    def of(self, expression: Expr) -> tuple[float, float, float]:
        """Relative errors in u: what is rounded at most, what is allowed at least, and at most.

        The first and the last are infinite where the value may lose its digits.
        """
        if expression not in self._found:
            self._found[expression] = self._of(expression)
        return self._found[expression]

    def _of(self, expression: Expr) -> tuple[float, float, float]:
        literal = self.literal(expression)
        if literal is not None:
            value, distance = literal
            error = distance / abs(value) if value else 0.0
            return error, error, error
        if self.algebra.is_atom(expression):
            return 0.0, 0.0, 0.0
        match expression:
            case Unary(_, operand):
                return self.of(operand)
            case Binary("-", Binary("+", rest, added), taken) if added == taken:
                return self._with_detour(rest, added)
            case Binary("+" | "-"):
                terms = list(_terms(expression, self.algebra.is_atom))
                condition = self.condition(expression)
                made, least, most = zip(*(self.of(term) for term in terms), strict=True)
                adds = len(terms) - 1.0
                # One rounding of two exact terms is relative to the sum, however small that is beside them.
                rounded = 1.0 if adds == 1.0 and not any(made) else condition * (max(made) + adds)
                carried = condition * max(most) if any(most) else 0.0
                return rounded, min(least) + adds, carried + adds * self.spread(expression)
            case Binary("*" | "/" as op, left, right):
                a, b = self.of(left), self.of(right)
                exact = self.is_power_of_two(right) or (op == "*" and self.is_power_of_two(left))
                rounding = 0.0 if exact else 1.0
                return (
                    a[0] + b[0] + rounding,
                    a[1] + b[1] + OPERATION_ROUNDINGS,
                    a[2] + b[2] + OPERATION_ROUNDINGS * self.spread(expression),
                )
            case Binary("**", base, exponent):
                inner = self.of(base)
                power = whole(exponent) or 0
                return (
                    CALL_ROUNDINGS + power * inner[0],
                    CALL_ROUNDINGS + power * inner[1],
                    CALL_ROUNDINGS + power * inner[2],
                )
            case _:
                raise AssertionError(f"{expression} is an atom")

    def _with_detour(self, rest: Expr, term: Expr) -> tuple[float, float, float]:
        """Of `rest+term-term`: what the term has lost cancels, and two sums are rounded."""
        made, least, most = self.of(rest)
        beside = self._size_beside(term, rest)
        carried = most + (2 * beside * self.of(term)[2] if beside < math.inf else math.inf)
        return made + 2.0 + beside, least + 2.0, carried + 2.0 * self._spread_with_detour(rest, term)

    def _spread_with_detour(self, rest: Expr, term: Expr) -> float:
        beside = self._size_beside(term, rest)
        return math.inf if beside == math.inf else self.spread(rest) + 2 * beside * self.spread(term)

    def _size_beside(self, term: Expr, rest: Expr) -> float:
        """How much larger one value may be than another, by their ranges."""
        a, b = self.range_of(term), self.range_of(rest)
        least = 0.0 if b.nan else least_magnitude(b)
        return math.inf if a.nan or not least else largest_magnitude(a) / least

    def spread(self, expression: Expr) -> float:
        """What the sums of a value are made of over its size, at most."""
        if isinstance(self.algebra.kinds.of(expression), Weak):
            return 1.0
        if self.algebra.is_atom(expression):
            return self.spread_of(expression)
        match expression:
            case Unary(_, operand):
                return self.spread(operand)
            case Binary("-", Binary("+", rest, added), taken) if added == taken:
                return self._spread_with_detour(rest, added)
            case Binary("+" | "-"):
                condition = self.condition(expression)
                return condition * max(self.spread(term) for term in _terms(expression, self.algebra.is_atom))
            case Binary("*", left, right):
                return max(self.spread(left), self.spread(right))
            case Binary("/", left, _):
                return self.spread(left)
            case _:
                return 1.0

    def condition(self, expression: Expr) -> float:
        """The sum of the sizes of the terms of a sum over the size of the sum, at most; 1 for terms of one sign."""
        if expression not in self._condition:
            terms = _signed_terms(expression, self.algebra.is_atom)
            self._condition[expression] = condition_of(terms, expression, self.range_of)
        return self._condition[expression]

    def literal(self, expression: Expr) -> tuple[float, float] | None:
        """The value of an expression of literals, and how far it lies from the value of its type, in u.

        None for any other. Raises Unbounded.
        """
        kind = self.algebra.kinds.of(expression)
        if not isinstance(kind, Weak):
            return None
        value = float(kind.value)
        if not math.isfinite(value):
            raise Unbounded("a literal is not finite")
        return value, _distance(value, self.algebra.dtype)

    def is_power_of_two(self, expression: Expr) -> bool:
        """Whether an expression is a literal by which to multiply or divide rounds nothing."""
        kind = self.algebra.kinds.of(expression)
        if not isinstance(kind, Weak):
            return False
        value = abs(float(kind.value))
        return value > 0 and math.isfinite(value) and math.frexp(value)[0] == 0.5


def _terms(expression: Expr, is_atom: Callable[[Expr], bool]) -> Iterable[Expr]:
    match expression:
        case Binary("+" | "-", left, right) if not is_atom(expression):
            yield from _terms(left, is_atom)
            yield from _terms(right, is_atom)
        case Unary(_, operand) if not is_atom(expression):
            yield from _terms(operand, is_atom)
        case _:
            yield expression


def _signed_terms(expression: Expr, is_atom: Callable[[Expr], bool], minus: bool = False) -> Iterable[Expr]:
    match expression:
        case Binary("+" | "-" as op, left, right) if not is_atom(expression):
            yield from _signed_terms(left, is_atom, minus)
            yield from _signed_terms(right, is_atom, minus != (op == "-"))
        case Unary("-", operand) if not is_atom(expression):
            yield from _signed_terms(operand, is_atom, not minus)
        case _:
            yield Unary("-", expression) if minus else expression


def _distance(value: float, dtype: DType) -> float:
    """How far a literal lies from the value of the type that it is converted to, in u."""
    exact = Fraction(value)
    low, high = outwards(exact, exact, dtype)
    nearest = min(abs(exact - Fraction(end)) for end in (low, high) if math.isfinite(end))
    return float(nearest / relative_error(dtype))
