"""Polynomials in sizes, with coefficients that are not negative: what a rounding error is at most.

A monomial is symbols and their powers, which may be negative; a symbol stands for the size of an operand or a sum. One
bound is at most another, for all sizes, where coefficients show it, or what symbols are at most (`is_at_most`).
"""

from collections.abc import Mapping

Monomial = tuple[tuple[int, int], ...]  # symbol and power, by symbol
Bound = dict[Monomial, float]

LONGEST = 400  # monomials of a bound
SECOND_ORDER = 1e-5  # products of errors, relative to the errors: the bounds leave them out


def is_at_most(left: Bound, right: Bound, larger: Mapping[int, Bound]) -> bool:
    """Whether left <= right for all sizes, as far as coefficients show. `larger`: what a symbol is at most."""
    rest = dict(left)
    for monomial, value in right.items():
        rest[monomial] = rest.get(monomial, 0.0) - value * (1.0 + SECOND_ORDER)
    for _ in range(LONGEST):
        above = next((m for m, value in rest.items() if value > 1e-9), None)
        if above is None:
            return True
        symbol = next((s for s, power in above if power > 0 and s in larger), None)
        if symbol is None:
            if not _by_means(rest, above):
                return False
            continue
        value = rest.pop(above)
        others = _without(above, symbol)
        for monomial, factor in larger[symbol].items():
            both = _product(monomial, others)
            rest[both] = rest.get(both, 0.0) + value * factor
    return False


def added(a: Bound, b: Bound) -> Bound:
    result = dict(a)
    for monomial, value in b.items():
        result[monomial] = result.get(monomial, 0.0) + value
    return result


def scaled(a: Bound, factor: float) -> Bound:
    return {monomial: value * factor for monomial, value in a.items()} if factor else {}


def times(a: Bound, b: Bound) -> Bound:
    result: Bound = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = _product(left, right)
            result[monomial] = result.get(monomial, 0.0) + x * y
    return result


def larger_product(a: Bound, a_spread: Bound, b: Bound, b_spread: Bound, at_most: bool) -> Bound:
    """A bound of the larger of two products, of the spread of one factor and the size of the other.

    A spread is at least the size. Where neither factor is its spread: the mean, which is no more, or for `at_most` the
    sum, which is no less.
    """
    if a == a_spread:
        return times(a, b_spread)
    if b == b_spread:
        return times(a_spread, b)
    both = added(times(a_spread, b), times(a, b_spread))
    return both if at_most else scaled(both, 0.5)


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
