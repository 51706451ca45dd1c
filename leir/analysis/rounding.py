"""Whether one way to compute a value rounds no more than verification allows for another: a proof, not a trial.

Verification derives how far a right result may lie from the exact one, operation by operation
(`stepTP.verify.tolerance`): a sum of n terms may lose (n-1) u of the sum of their sizes, a product or quotient 2 u, a
power or call 8 u, of what its operands' sums were made of; u is the type's unit roundoff. A rewrite is acceptable where

    R(new) <= A(old)       what the new expression rounds is at most what is allowed for the old one, and
    A(new) <= 4 A(old)     it does not make the allowance grow much, so that steps can follow one another,

for all values of the atoms (`leir.analysis.algebra`), which are the same numbers before and after. Both sides are
bounded by polynomials in the sizes of the atoms, in units of u, and compared coefficient by coefficient. The size of a
sum is a symbol of its own, at most the sum of the sizes of its terms, and equal to it where the terms have one sign. So
|a|*(|b|+|c|), allowed for a*(b+c), covers a*b + a*c; but |a|*|b+c|, allowed once where a*b + a*c was factored, would
not. What divides is such a symbol, too, and must be accurate itself: `condition`, the terms' sizes over the size of the
sum, is bounded by the ranges. A value with a bounded condition everywhere is compared by relative errors alone.

An atom is one number, but what is allowed for it may be more than its size (of a temporary that holds x - y, the
allowance remembers |x| + |y|): unless `is_plain`, it has a second symbol for that.

Underflow: a new product or quotient may lose half of the smallest number, times what it is multiplied by afterwards;
what is allowed is the smallest normal number.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from leir.analysis.algebra import Algebra, whole
from leir.analysis.intervals import Range, outwards, relative_error, tiny
from leir.analysis.types import Weak
from leir.edit import walk_expression
from leir.syntax import Binary, DType, Expr, Unary

Monomial = tuple[tuple[int, int], ...]  # symbol and power, by symbol
Bound = dict[Monomial, float]

CALL_ROUNDINGS = 8.0
OPERATION_ROUNDINGS = 2.0
_WORST_CONDITION = 64.0
_SECOND_ORDER = 1e-5  # products of errors, relative to the errors: the bounds leave them out
_GROWTH = 4.0  # of the allowance, in one step
_LONGEST = 400  # monomials of a bound


class Unbounded(Exception):
    """No bound on what an expression rounds is known; the message says why."""


@dataclass(frozen=True, slots=True)
class Rounded:
    """A value: its size, what its sums are made of, what it rounds, and what is allowed for it.

    `spread` and `allowed` are pairs: at least, for the expression before, and at most, for the one after. `terms`: of
    the sum that is going on.
    """

    size: Bound
    spread: tuple[Bound, Bound]
    made: Bound
    allowed: tuple[Bound, Bound]
    terms: int = 1


@dataclass(slots=True)
class Rounding:
    """The bounds of expressions that stand at one place. `range_of`: of any of their parts."""

    algebra: Algebra
    range_of: Callable[[Expr], Range]
    is_plain: Callable[[Expr], bool]
    symbols: dict[object, int] = field(default_factory=dict[object, int])
    larger: dict[int, Bound] = field(default_factory=dict[int, Bound])  # what a symbol is at most
    divisors: set[object] = field(default_factory=set[object])  # keys of the sums that something is divided by
    found: dict[Expr, Rounded] = field(default_factory=dict[Expr, Rounded])
    _relative: dict[Expr, tuple[float, float, float]] = field(default_factory=dict[Expr, tuple[float, float, float]])
    _condition: dict[Expr, float] = field(default_factory=dict[Expr, float])

    def why_not(self, old: Expr, new: Expr) -> str:
        """Why the new expression may lose more than is allowed for the old one; empty if it cannot.

        Raises Unbounded, and TooLarge.
        """
        for expression in (old, new):
            self.divisors.update(self._keys_of_divisors(expression))
        made, _, most = self.relative(new)
        least = self.relative(old)[1] * (1.0 + _SECOND_ORDER)
        if made <= least and most <= _GROWTH * least and self.spread(new) <= _GROWTH:
            return ""
        before, after = self.settled(self.of(old)), self.settled(self.of(new))
        rounded = after.made
        if made < math.inf and not self.dominated(rounded, before.allowed[0]):
            rounded = _scaled(before.size, made)  # the new value has the size of the old one
        if not self.dominated(rounded, before.allowed[0]):
            return "its roundings may be more than verification allows for the expression before"
        pairs = zip((after.allowed[1], after.spread[1]), (before.allowed[0], before.spread[0]), strict=True)
        if not all(self.dominated(new_bound, _scaled(old_bound, _GROWTH)) for new_bound, old_bound in pairs):
            return "verification would allow it more than four times as much as the expression before"
        return ""

    def dominated(self, left: Bound, right: Bound) -> bool:
        """Whether left <= right for all sizes, as far as coefficients and `larger` show."""
        rest = dict(left)
        for monomial, value in right.items():
            rest[monomial] = rest.get(monomial, 0.0) - value * (1.0 + _SECOND_ORDER)
        for _ in range(_LONGEST):
            above = next((m for m, value in rest.items() if value > 1e-9), None)
            if above is None:
                return True
            symbol = next((s for s, power in above if power > 0 and s in self.larger), None)
            if symbol is None:
                if not _by_means(rest, above):
                    return False
                continue
            value = rest.pop(above)
            others = _without(above, symbol)
            for monomial, factor in self.larger[symbol].items():
                product = _product(monomial, others)
                rest[product] = rest.get(product, 0.0) + value * factor
        return False

    def of(self, expression: Expr) -> Rounded:
        """The bounds of an expression. Raises Unbounded."""
        if expression not in self.found:
            result = self._of(expression)
            if max(map(len, (result.made, result.size, *result.allowed))) > _LONGEST:
                raise Unbounded("the bound of its roundings has too many terms")
            self.found[expression] = result
        return self.found[expression]

    def _of(self, expression: Expr) -> Rounded:
        literal = self._literal(expression)
        if literal is not None:
            return literal
        if self.algebra.is_atom(expression):
            symbol = self._symbol(("atom", self.algebra.atom_number(expression)))
            size: Bound = {((symbol, 1),): 1.0}
            if self.is_plain(expression):
                return Rounded(size, (size, size), {}, ({}, {}))
            spread: Bound = {((self._symbol(("spread", symbol)), 1),): 1.0}
            self.larger[symbol] = spread
            return Rounded(size, (spread, spread), {}, ({}, {}))
        match expression:
            case Unary(_, operand):
                return self.of(operand)
            case Binary("+" | "-", left, right):
                return self._sum(expression, self.of(left), self.of(right))
            case Binary("*", left, right):
                return self._product(expression, self.settled(self.of(left)), self.settled(self.of(right)))
            case Binary("/", left, right):
                return self._quotient(self.settled(self.of(left)), right)
            case Binary("**", base, exponent):
                return self._power(base, whole(exponent) or 0)
            case _:
                raise AssertionError(f"{expression} is an atom")

    def settled(self, a: Rounded) -> Rounded:
        """A value once its sum is complete."""
        if a.terms == 1:
            return a
        low, high = (_sum(b, _scaled(s, a.terms - 1.0)) for b, s in zip(a.allowed, a.spread, strict=True))
        return Rounded(a.size, a.spread, a.made, (low, high))

    def _literal(self, expression: Expr) -> Rounded | None:
        kind = self.algebra.kinds.of(expression)
        if not isinstance(kind, Weak):
            return None
        value = float(kind.value)
        if not math.isfinite(value):
            raise Unbounded("a literal is not finite")
        size: Bound = {(): abs(value)} if value else {}
        error = _distance(value, self.algebra.dtype)
        lost: Bound = {(): error} if error else {}
        return Rounded(size, (size, size), lost, (lost, lost))

    def _sum(self, expression: Binary, a: Rounded, b: Rounded) -> Rounded:
        size = self._size(expression, a.size, b.size)
        condition = self.condition(expression)
        low, high = (_sum(x, y) for x, y in zip(a.spread, b.spread, strict=True))
        if size != _sum(a.size, b.size) and condition < math.inf:
            low, high = (size if condition == 1.0 else low), _scaled(size, condition)
            made = _scaled(size, self.relative(expression)[0])
            allowed = _scaled(size, self.relative(expression)[1]), _scaled(size, self.relative(expression)[2])
            return Rounded(size, (size, high), made, allowed)
        made = _sum(_sum(a.made, b.made), {} if _is_zero(a, b) else size)
        allowed = tuple(_sum(x, y) for x, y in zip(a.allowed, b.allowed, strict=True))
        return Rounded(size, (low, high), made, (allowed[0], allowed[1]), a.terms + b.terms)

    def _size(self, expression: Binary, left: Bound, right: Bound) -> Bound:
        """The sum of the sizes where the terms have one sign, or else a symbol; a symbol for what divides."""
        key = self.algebra.key(expression)
        together = _sum(left, right)
        if self.condition(expression) == 1.0 and key not in self.divisors:
            return together
        symbol = self._symbol(key)
        self.larger.setdefault(symbol, together)
        return {((symbol, 1),): 1.0}

    def _product(self, expression: Binary, a: Rounded, b: Rounded) -> Rounded:
        size = _times(a.size, b.size)
        exact = self._is_power_of_two(expression.left) or self._is_power_of_two(expression.right)
        made = _sum(_sum(_times(a.size, b.made), _times(b.size, a.made)), {} if exact else size)
        low = _larger(a.size, a.spread[0], b.size, b.spread[0], False)
        high = _larger(a.size, a.spread[1], b.size, b.spread[1], True)
        allowed = [
            _sum(_sum(_times(a.size, y), _times(b.size, x)), _scaled(spread, OPERATION_ROUNDINGS))
            for x, y, spread in zip(a.allowed, b.allowed, (low, high), strict=True)
        ]
        return Rounded(size, (low, high), made, (allowed[0], allowed[1]))

    def _quotient(self, a: Rounded, divisor: Expr) -> Rounded:
        b = self.of(divisor)
        if len(b.size) != 1:
            raise Unbounded("a divisor is no single value")
        made, least, most = self.relative(divisor)
        if not made < math.inf:
            raise Unbounded("a divisor may have lost its digits")
        ((monomial, factor),) = b.size.items()
        inverse: Bound = {tuple((symbol, -power) for symbol, power in monomial): 1.0 / factor}
        size = _times(a.size, inverse)
        spread = _times(a.spread[0], inverse), _times(a.spread[1], inverse)
        allowed = [
            _sum(_sum(_times(x, inverse), _scaled(size, relative)), _scaled(s, OPERATION_ROUNDINGS))
            for x, relative, s in zip(a.allowed, (least, most), spread, strict=True)
        ]
        exact = self._is_power_of_two(divisor)
        total = _sum(_times(a.made, inverse), _scaled(size, made + (0.0 if exact else 1.0)))
        return Rounded(size, spread, total, (allowed[0], allowed[1]))

    def _power(self, base: Expr, exponent: int) -> Rounded:
        inner = self.of(base)
        size: Bound = {(): 1.0}
        if len(inner.size) != 1:  # a sum whose terms have one sign
            raise Unbounded("the base of a power is a sum")
        for _ in range(exponent):
            size = _times(size, inner.size)
        made, least, most = (CALL_ROUNDINGS + exponent * each for each in self.relative(base))
        if not made < math.inf:
            raise Unbounded("the base of a power may have lost its digits")
        return Rounded(size, (size, size), _scaled(size, made), (_scaled(size, least), _scaled(size, most)))

    def relative(self, expression: Expr) -> tuple[float, float, float]:
        """Relative errors in u: what is rounded at most, what is allowed at least, and at most.

        The first and the last are infinite where the value may lose its digits.
        """
        if expression not in self._relative:
            self._relative[expression] = self._relative_of(expression)
        return self._relative[expression]

    def _relative_of(self, expression: Expr) -> tuple[float, float, float]:
        literal = self._literal(expression)
        if literal is not None:
            error = sum(literal.made.values()) / sum(literal.size.values()) if literal.size else 0.0
            return error, error, error
        if self.algebra.is_atom(expression):
            return 0.0, 0.0, 0.0
        match expression:
            case Unary(_, operand):
                return self.relative(operand)
            case Binary("+" | "-"):
                terms = list(_terms(expression, self.algebra.is_atom))
                condition = self.condition(expression)
                made, least, most = zip(*(self.relative(term) for term in terms), strict=True)
                adds = len(terms) - 1.0
                # One rounding of two exact terms is relative to the sum, however small that is beside them.
                rounded = 1.0 if adds == 1.0 and not any(made) else condition * (max(made) + adds)
                carried = condition * max(most) if any(most) else 0.0
                return rounded, min(least) + adds, carried + adds * self.spread(expression)
            case Binary("*" | "/" as op, left, right):
                a, b = self.relative(left), self.relative(right)
                exact = self._is_power_of_two(right) or (op == "*" and self._is_power_of_two(left))
                rounding = 0.0 if exact else 1.0
                return (
                    a[0] + b[0] + rounding,
                    a[1] + b[1] + OPERATION_ROUNDINGS,
                    a[2] + b[2] + OPERATION_ROUNDINGS * self.spread(expression),
                )
            case Binary("**", base, exponent):
                inner = self.relative(base)
                power = whole(exponent) or 0
                return (
                    CALL_ROUNDINGS + power * inner[0],
                    CALL_ROUNDINGS + power * inner[1],
                    CALL_ROUNDINGS + power * inner[2],
                )
            case _:
                raise AssertionError(f"{expression} is an atom")

    def spread(self, expression: Expr) -> float:
        """What the sums of a value are made of over its size, at most."""
        if isinstance(self.algebra.kinds.of(expression), Weak):
            return 1.0
        if self.algebra.is_atom(expression):
            return 1.0 if self.is_plain(expression) else math.inf
        match expression:
            case Unary(_, operand):
                return self.spread(operand)
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
            self._condition[expression] = self._condition_of(expression)
        return self._condition[expression]

    def _condition_of(self, expression: Expr) -> float:
        terms = [self.range_of(term) for term in _signed_terms(expression, self.algebra.is_atom)]
        if any(term.nan for term in terms):
            return math.inf
        if all(term.low >= 0 for term in terms) or all(term.high <= 0 for term in terms):
            return 1.0
        whole_range = self.range_of(expression)
        if whole_range.nan or whole_range.low <= 0 <= whole_range.high:
            return math.inf
        least = min(abs(whole_range.low), abs(whole_range.high))
        condition = sum(max(abs(term.low), abs(term.high)) for term in terms) / least
        return condition if condition <= _WORST_CONDITION else math.inf

    def lost_to_underflow(self, new: Expr, old: Expr) -> float:
        """What products and quotients of the new expression that the old one has not may lose, in smallest numbers."""
        kept = {part for _, part in walk_expression(old)}

        def size(part: Expr) -> float:
            found = self.range_of(part)
            return math.inf if found.nan else max(abs(found.low), abs(found.high))

        def visit(part: Expr) -> float:
            if part in kept or self.algebra.is_atom(part):
                return 0.0
            match part:
                case Unary(_, operand):
                    return visit(operand)
                case Binary("+" | "-", left, right):
                    return visit(left) + visit(right)
                case Binary("*" | "/" as op, left, right):
                    a, b = visit(left), visit(right)
                    carried = (a * size(right) if a else 0.0) + (b * size(left) if b else 0.0)
                    if op == "/":
                        found = self.range_of(right)
                        least = min(abs(found.low), abs(found.high)) if not found.low <= 0 <= found.high else 0.0
                        if least == 0.0:
                            return math.inf
                        carried = (a + (b * size(left) / least if b else 0.0)) / least if a or b else 0.0
                    whole_range = self.range_of(part)
                    normal = float(tiny(self.algebra.dtype) / relative_error(self.algebra.dtype)) / 2
                    is_large = whole_range.low >= normal or whole_range.high <= -normal
                    return carried + (0.0 if is_large else 0.5)
                case Binary("**"):
                    return 0.5
                case _:
                    return 0.0

        return visit(new)

    def _is_power_of_two(self, expression: Expr) -> bool:
        kind = self.algebra.kinds.of(expression)
        if not isinstance(kind, Weak):
            return False
        value = abs(float(kind.value))
        return value > 0 and math.isfinite(value) and math.frexp(value)[0] == 0.5

    def _symbol(self, key: object) -> int:
        return self.symbols.setdefault(key, len(self.symbols))

    def _keys_of_divisors(self, expression: Expr) -> Iterable[object]:
        """The keys of the sums that something in an expression is divided by."""
        if self.algebra.is_atom(expression):
            return
        match expression:
            case Unary(_, operand):
                yield from self._keys_of_divisors(operand)
            case Binary(op, left, right):
                yield from self._keys_of_divisors(left)
                if op != "**":
                    yield from self._keys_of_divisors(right)
                if op == "/":
                    yield from self._keys_of_sums(right)
                if op == "**":
                    yield from self._keys_of_sums(left)
            case _:
                return

    def _keys_of_sums(self, expression: Expr) -> Iterable[object]:
        """The keys of the sums among the factors of an expression."""
        if self.algebra.is_atom(expression):
            return
        match expression:
            case Binary("+" | "-"):
                yield self.algebra.key(expression)
            case Unary(_, operand):
                yield from self._keys_of_sums(operand)
            case Binary("**", base, _):
                yield from self._keys_of_sums(base)
            case Binary(_, left, right):
                yield from self._keys_of_sums(left)
                yield from self._keys_of_sums(right)
            case _:
                return


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


def _is_zero(a: Rounded, b: Rounded) -> bool:
    """Whether a side of a sum is the literal 0."""
    return not a.size or not b.size


def _sum(a: Bound, b: Bound) -> Bound:
    result = dict(a)
    for monomial, value in b.items():
        result[monomial] = result.get(monomial, 0.0) + value
    return result


def _scaled(a: Bound, factor: float) -> Bound:
    return {monomial: value * factor for monomial, value in a.items()} if factor else {}


def _times(a: Bound, b: Bound) -> Bound:
    result: Bound = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = _product(left, right)
            result[monomial] = result.get(monomial, 0.0) + x * y
    return result


def _product(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a)
    for symbol, power in b:
        powers[symbol] = powers.get(symbol, 0) + power
    return tuple(sorted((symbol, power) for symbol, power in powers.items() if power))


def _without(monomial: Monomial, symbol: int) -> Monomial:
    return tuple((s, power - (s == symbol)) for s, power in monomial if power - (s == symbol))


def _by_means(rest: Bound, above: Monomial) -> bool:
    """Replaces a monomial x*y*m by (x*x*m + y*y*m)/2, which is no less, where both have room for it."""
    value = rest[above]
    for n, (x, _) in enumerate(above):
        for y, _ in above[n + 1 :]:
            squares = [_product(above, ((up, 1), (down, -1))) for up, down in ((x, y), (y, x))]
            if all(rest.get(square, 0.0) <= -value / 2 for square in squares):
                del rest[above]
                for square in squares:
                    rest[square] += value / 2
                return True
    return False


def _larger(a: Bound, a_spread: Bound, b: Bound, b_spread: Bound, at_most: bool) -> Bound:
    """A bound of the larger of two products, of the spread of one factor and the size of the other.

    A spread is at least the size. Where neither factor is its spread: the mean, which is no more, or for `at_most` the
    sum, which is no less.
    """
    if a == a_spread:
        return _times(a, b_spread)
    if b == b_spread:
        return _times(a_spread, b)
    both = _sum(_times(a_spread, b), _times(a, b_spread))
    return both if at_most else _scaled(both, 0.5)
