"""Whether one way to compute a value rounds no more than verification allows for another: a proof, not a trial.

Verification derives how far a right result may lie from the exact one, operation by operation
(`stepTP.verify.tolerance`): a sum of n terms may lose (n-1) u of the sum of their sizes, a product or quotient 2 u, a
power or call 8 u, of what its operands' sums were made of; u is the type's unit roundoff. A rewrite is acceptable where

    R(new) <= A(old)       what the new expression rounds is at most what is allowed for the old one, and
    A(new) <= 4 A(old)     it does not make the allowance grow much, so that steps can follow one another,

for all values of the atoms (`leir.analysis.algebra`), which are the same numbers before and after. What is allowed is
allowed for the source, and the steps of a trajectory share it: in the first line, detours of the old expression
(`leir.analysis.detours`) add nothing to A(old), while R(new) counts them. Where R(new) <= R(old), nothing is taken.

Both sides are bounded by polynomials in the sizes of the atoms, in units of u, and compared coefficient by coefficient.
The size of a sum is a symbol of its own, at most the sum of the sizes of its terms, and equal to it where the terms
have one sign. So |a|*(|b|+|c|), allowed for a*(b+c), covers a*b + a*c; but |a|*|b+c|, allowed once where a*b + a*c was
factored, would not. What divides is such a symbol, too, and must be accurate itself: `condition`, the terms' sizes over
the size of the sum, is bounded by the ranges. A value with a bounded condition everywhere is compared by relative
errors alone (`leir.analysis.relative`).

An atom is one number, but what is allowed for it may be more than its size: of a temporary that holds x - y, the
allowance remembers |x| + |y|. It has a second symbol for that, which is the same before and after. Or that is a
multiple of its size, where `leir.analysis.spread` bounds it; and what is allowed for the old expression is no less than
if it were the size itself. The three are tried in turn.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from leir.analysis.algebra import Algebra, whole
from leir.analysis.bounds import LONGEST, SECOND_ORDER, Bound, added, is_at_most, larger_product, scaled, times
from leir.analysis.detours import without_detours
from leir.analysis.intervals import Range
from leir.analysis.relative import CALL_ROUNDINGS, OPERATION_ROUNDINGS, RelativeErrors, Unbounded
from leir.printer import expression_text
from leir.syntax import Binary, Expr, Unary

_GROWTH = 4.0  # of the allowance, in one step


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
    """The bounds of expressions that stand at one place.

    `range_of`: of any of their parts; `spread_of`: of their atoms, taken as `multiples` of their sizes or as symbols.
    """

    algebra: Algebra
    range_of: Callable[[Expr], Range]
    spread_of: Callable[[Expr], float]
    symbols: dict[object, int] = field(default_factory=dict[object, int])
    larger: dict[int, Bound] = field(default_factory=dict[int, Bound])  # what a symbol is at most
    divisors: set[object] = field(default_factory=set[object])  # keys of the sums that something is divided by
    multiples: bool = False
    found: dict[Expr, Rounded] = field(default_factory=dict[Expr, Rounded])
    relative: RelativeErrors = field(init=False)

    def __post_init__(self) -> None:
        self.relative = RelativeErrors(self.algebra, self.range_of, self.spread_of)

    def why_not(self, old: Expr, new: Expr) -> str:
        """Why the new expression may lose more than is allowed for the old one; empty if it cannot.

        Raises Unbounded, and TooLarge.
        """
        direct = without_detours(old, self.algebra.is_atom, self.algebra.dtype)
        for expression in (old, direct, new):
            self.divisors.update(self._keys_of_divisors(expression))
        made, _, most = self.relative.of(new)
        taken = self.relative.of(old)[0]
        least = (self.relative.of(direct)[1] if made > taken else self.relative.of(old)[1]) * (1.0 + SECOND_ORDER)
        if made <= least and most <= _GROWTH * least and self.relative.spread(new) <= _GROWTH:
            return ""
        before, after = self.settled(self.of(old)), self.settled(self.of(new))
        sized = replace(self, spread_of=_own_size, found={})
        allowed = [bounds.settled(bounds.of(direct)).allowed[0] for bounds in (self, sized)]
        if direct != old:
            allowed += [before.made, _of_size(before, after.size)]
            allowed += [scaled(before.size, taken)] if taken < math.inf else []
        roundings = [after.made, *([scaled(before.size, made)] if made < math.inf else [])]  # of the same value
        if not any(is_at_most(rounded, bound, self.larger) for rounded in roundings for bound in allowed):
            if direct != old:
                return f"the roundings, detours included, may be more than are allowed for {expression_text(direct)}"
            return "the roundings may be more than verification allows for the expression before"
        if not self.allows_little_more(old, new) and not replace(self, multiples=True, found={}).allows_little_more(
            old, new
        ):
            return "verification would allow more than four times as much as for the expression before"
        return ""

    def allows_little_more(self, old: Expr, new: Expr) -> bool:
        """Whether what is allowed for the new expression, and its spread, are not far above those of the old one."""
        before, after = self.settled(self.of(old)), self.settled(self.of(new))
        pairs = ((after.allowed[1], before.allowed[0]), (after.spread[1], before.spread[0]))
        return all(is_at_most(most, scaled(least, _GROWTH), self.larger) for most, least in pairs)

    def of(self, expression: Expr) -> Rounded:
        """The bounds of an expression. Raises Unbounded."""
        if expression not in self.found:
            result = self._of(expression)
            if max(map(len, (result.made, result.size, *result.allowed))) > LONGEST:
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
            spread = self.spread_of(expression)
            if spread == 1.0 or (self.multiples and spread < math.inf):
                return Rounded(size, (size, scaled(size, spread)), {}, ({}, {}))
            own: Bound = {((self._symbol(("spread", symbol)), 1),): 1.0}
            self.larger[symbol] = own
            return Rounded(size, (own, own), {}, ({}, {}))
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
        low, high = (added(b, scaled(s, a.terms - 1.0)) for b, s in zip(a.allowed, a.spread, strict=True))
        return Rounded(a.size, a.spread, a.made, (low, high))

    def _literal(self, expression: Expr) -> Rounded | None:
        literal = self.relative.literal(expression)
        if literal is None:
            return None
        value, error = literal
        size: Bound = {(): abs(value)} if value else {}
        lost: Bound = {(): error} if error else {}
        return Rounded(size, (size, size), lost, (lost, lost))

    def _sum(self, expression: Binary, a: Rounded, b: Rounded) -> Rounded:
        size = self._size(expression, a.size, b.size)
        condition, spread = self.relative.condition(expression), self.relative.spread(expression)
        low, high = (added(x, y) for x, y in zip(a.spread, b.spread, strict=True))
        if size != added(a.size, b.size) and spread < math.inf:
            low, high = (size if condition == 1.0 else low), scaled(size, spread)
            made = scaled(size, self.relative.of(expression)[0])
            allowed = scaled(size, self.relative.of(expression)[1]), scaled(size, self.relative.of(expression)[2])
            return Rounded(size, (size, high), made, allowed)
        made = added(added(a.made, b.made), {} if _is_zero(a, b) else size)
        allowed = tuple(added(x, y) for x, y in zip(a.allowed, b.allowed, strict=True))
        return Rounded(size, (low, high), made, (allowed[0], allowed[1]), a.terms + b.terms)

    def _size(self, expression: Binary, left: Bound, right: Bound) -> Bound:
        """The sum of the sizes where the terms have one sign, or else a symbol; a symbol for what divides."""
        key = self.algebra.key(expression)
        together = added(left, right)
        if self.relative.condition(expression) == 1.0 and key not in self.divisors:
            return together
        symbol = self._symbol(key)
        self.larger.setdefault(symbol, together)
        return {((symbol, 1),): 1.0}

    def _product(self, expression: Binary, a: Rounded, b: Rounded) -> Rounded:
        size = times(a.size, b.size)
        exact = self.relative.is_power_of_two(expression.left) or self.relative.is_power_of_two(expression.right)
        made = added(added(times(a.size, b.made), times(b.size, a.made)), {} if exact else size)
        low = larger_product(a.size, a.spread[0], b.size, b.spread[0], False)
        high = larger_product(a.size, a.spread[1], b.size, b.spread[1], True)
        allowed = [
            added(added(times(a.size, y), times(b.size, x)), scaled(spread, OPERATION_ROUNDINGS))
            for x, y, spread in zip(a.allowed, b.allowed, (low, high), strict=True)
        ]
        return Rounded(size, (low, high), made, (allowed[0], allowed[1]))

    def _quotient(self, a: Rounded, divisor: Expr) -> Rounded:
        b = self.of(divisor)
        if len(b.size) != 1:
            raise Unbounded("a divisor is no single value")
        made, least, most = self.relative.of(divisor)
        if not made < math.inf:
            raise Unbounded("a divisor may have lost its digits")
        ((monomial, factor),) = b.size.items()
        inverse: Bound = {tuple((symbol, -power) for symbol, power in monomial): 1.0 / factor}
        size = times(a.size, inverse)
        spread = times(a.spread[0], inverse), times(a.spread[1], inverse)
        allowed = [
            added(added(times(x, inverse), scaled(size, relative)), scaled(s, OPERATION_ROUNDINGS))
            for x, relative, s in zip(a.allowed, (least, most), spread, strict=True)
        ]
        exact = self.relative.is_power_of_two(divisor)
        total = added(times(a.made, inverse), scaled(size, made + (0.0 if exact else 1.0)))
        return Rounded(size, spread, total, (allowed[0], allowed[1]))

    def _power(self, base: Expr, exponent: int) -> Rounded:
        inner = self.of(base)
        size: Bound = {(): 1.0}
        if len(inner.size) != 1:  # a sum whose terms have one sign
            raise Unbounded("the base of a power is a sum")
        for _ in range(exponent):
            size = times(size, inner.size)
        made, least, most = (CALL_ROUNDINGS + exponent * each for each in self.relative.of(base))
        if not made < math.inf:
            raise Unbounded("the base of a power may have lost its digits")
        return Rounded(size, (size, size), scaled(size, made), (scaled(size, least), scaled(size, most)))

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


def _own_size(_: Expr) -> float:
    return 1.0


def _of_size(a: Rounded, size: Bound) -> Bound:
    """What a value rounds, with another name of its size in place of the symbol for it."""
    if len(a.size) != 1 or list(a.size.values()) != [1.0]:
        return a.made
    (own,) = a.size
    return added({m: factor for m, factor in a.made.items() if m != own}, scaled(size, a.made.get(own, 0.0)))


def _is_zero(a: Rounded, b: Rounded) -> bool:
    """Whether a side of a sum is the literal 0."""
    return not a.size or not b.size
