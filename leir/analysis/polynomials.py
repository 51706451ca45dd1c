"""Rational functions of placeholders: what SymPy is asked, each answer kept by the shape of the question.

A *shape* is an expression of placeholders (`placeholder(0)`, `placeholder(1)`, ...), whole literals, +, -, *, / and
whole powers. Polynomials are those of SymPy's sparse ring over the integers. Questions that could take long are refused
with `TooLarge`. SymPy is imported when the first is asked; `warm` asks one.
"""

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from leir.syntax import Binary, Expr, Integer, Unary, Variable

MOST_ATOMS = 16
MOST_OPERATIONS = 48
HIGHEST_POWER = 8
MOST_MONOMIALS = 120
MOST_FACTORED = 12  # monomials of a polynomial that is factored: longer ones can take SymPy a second
LARGEST_COEFFICIENT = 10**6


class TooLarge(Exception):
    """An expression is beyond what is looked at; the message says how."""


class DividesByZero(TooLarge):
    """An expression divides by what is 0 whatever its operands are."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A fraction of two polynomials of SymPy's sparse ring over the integers, not reduced."""

    numerator: Any
    denominator: Any

    def equals(self, other: "Ratio") -> bool:
        return bool(self.numerator * other.denominator == other.numerator * self.denominator)


def warm() -> None:
    """Imports SymPy and builds its tables, which takes most of a second."""
    x, y = placeholder(0), placeholder(1)
    factors(Binary("-", Binary("*", x, x), Binary("*", y, y)))
    apart(Binary("/", x, Binary("+", x, y)), 0)


def placeholder(number: int) -> Variable:
    """What stands for an atom in a shape; SymPy has a symbol of the same name."""
    return Variable(f"x{number}")


def _sympy() -> Any:
    import sympy  # pyright: ignore[reportMissingTypeStubs] (here, since it takes half a second to load)

    return sympy


@cache
def _ring() -> tuple[Any, tuple[Any, ...]]:
    import sympy.polys.domains  # pyright: ignore[reportMissingTypeStubs]
    import sympy.polys.rings  # pyright: ignore[reportMissingTypeStubs]

    rings: Any = sympy.polys.rings
    ring, *generators = rings.ring([f"x{number}" for number in range(MOST_ATOMS)], sympy.polys.domains.ZZ)
    return ring, tuple(generators)


@lru_cache(maxsize=4096)
def ratio(shape: Expr) -> Ratio:
    """The shape as a fraction of polynomials. Raises TooLarge."""
    ring, generators = _ring()
    match shape:
        case Variable(name):
            return Ratio(generators[int(name[1:])], ring.one)
        case Integer(value):
            return Ratio(ring(value), ring.one)
        case Unary(_, operand):
            a = ratio(operand)
            return Ratio(-a.numerator, a.denominator)
        case Binary("**", base, Integer(exponent)):
            a = ratio(base)
            if len(a.numerator) ** exponent > 20 * MOST_MONOMIALS:
                raise TooLarge(f"more than {MOST_MONOMIALS} terms once it is multiplied out")
            return _bounded(Ratio(a.numerator**exponent, a.denominator**exponent))
        case Binary(op, left, right):
            a, b = ratio(left), ratio(right)
            match op:
                case "*":
                    result = Ratio(a.numerator * b.numerator, a.denominator * b.denominator)
                case "/":
                    if b.numerator == 0:
                        raise DividesByZero("a divisor is 0 whatever its operands are")
                    result = Ratio(a.numerator * b.denominator, a.denominator * b.numerator)
                case _:
                    sign = 1 if op == "+" else -1
                    if a.denominator == b.denominator:
                        result = Ratio(a.numerator + sign * b.numerator, a.denominator)
                    else:
                        above = a.numerator * b.denominator + sign * b.numerator * a.denominator
                        result = Ratio(above, a.denominator * b.denominator)
            return _bounded(result)
        case _:
            raise ValueError(f"{shape} is no arithmetic on placeholders")


def _bounded(ratio: Ratio) -> Ratio:
    if len(ratio.numerator) + len(ratio.denominator) > MOST_MONOMIALS:
        raise TooLarge(f"more than {MOST_MONOMIALS} terms once it is multiplied out")
    return ratio


@lru_cache(maxsize=2048)
def factors(shape: Expr) -> tuple[tuple[Expr, int], ...]:
    """The irreducible factors of a polynomial that are sums, each with its power. Raises TooLarge."""
    whole = ratio(shape)
    if not whole.denominator.is_ground or whole.numerator == 0:
        return ()
    if len(whole.numerator) > MOST_FACTORED:
        raise TooLarge(f"more than {MOST_FACTORED} terms to factor")
    _, found = whole.numerator.factor_list()
    sums = [(factor, power) for factor, power in found if len(factor) > 1]
    return tuple((_expression(factor), int(power)) for factor, power in sorted(sums, key=lambda pair: str(pair[0])))


@lru_cache(maxsize=2048)
def divided(shape: Expr, divisor: Expr) -> Expr | None:
    """The quotient of two polynomials where it is one. Raises TooLarge."""
    a, b = ratio(shape), ratio(divisor)
    if b.numerator == 0 or not a.denominator.is_ground or not b.denominator.is_ground:
        return None
    quotient, rest = divmod(a.numerator * b.denominator, a.denominator * b.numerator)
    return None if rest else _expression(quotient)


@lru_cache(maxsize=2048)
def common_divisor(left: Expr, right: Expr) -> Expr | None:
    """The greatest common divisor of two polynomials, where it is a sum. Raises TooLarge."""
    a, b = ratio(left), ratio(right)
    if max(len(a.numerator), len(b.numerator)) > MOST_FACTORED:
        raise TooLarge(f"more than {MOST_FACTORED} terms to find a common divisor of")
    if not a.numerator or not b.numerator or not (a.denominator.is_ground and b.denominator.is_ground):
        return None
    found = a.numerator.gcd(b.numerator)
    _, found = found.primitive()
    monomial = _monomial_content(found)
    found = found.quo(monomial)
    return _expression(found) if len(found) > 1 else None


def _monomial_content(polynomial: Any) -> Any:
    """The product of generators that divides every term."""
    ring, generators = _ring()
    least = [min(powers) for powers in zip(*polynomial.monoms(), strict=True)]
    result = ring.one
    for generator, power in zip(generators, least, strict=True):
        result = result * generator**power
    return result


@lru_cache(maxsize=1024)
def apart(shape: Expr, number: int) -> Expr | None:
    """Partial fractions in the placeholder of a number; None where they are none but the shape. Raises TooLarge."""
    whole = ratio(shape)
    if len(whole.numerator) > MOST_FACTORED or len(whole.denominator) > MOST_FACTORED:
        raise TooLarge(f"more than {MOST_FACTORED} terms in a fraction")
    sympy = _sympy()
    symbol = sympy.Symbol(f"x{number}")
    before = whole.numerator.as_expr() / whole.denominator.as_expr()
    if not before.has(symbol):
        return None
    after = sympy.apart(before, symbol)
    parts = sympy.Add.make_args(after)
    return _of_sympy(after) if len(parts) > 1 else None


def _of_sympy(expression: Any) -> Expr:
    """A rational function of SymPy as a sum of fractions, each a polynomial over a product of polynomials."""
    sympy = _sympy()
    result: Expr | None = None
    fractions: list[tuple[Any, Any, bool]] = []
    for part in sorted(sympy.Add.make_args(expression), key=str):
        above, below = sympy.fraction(sympy.together(part))
        fractions.append((above, below, bool(above.could_extract_minus_sign())))
    for above, below, negative in sorted(fractions, key=lambda fraction: fraction[2]):
        term = _product_of(-above if negative else above)
        if below != 1:
            term = Binary("/", term, _product_of(below))
        if result is None:
            result = Unary("-", term) if negative else term
        else:
            result = Binary("-" if negative else "+", result, term)
    assert result is not None
    return result


def _product_of(expression: Any) -> Expr:
    """A product of SymPy, each of its factors a polynomial."""
    sympy = _sympy()
    ring, _ = _ring()
    result: Expr | None = None
    for factor in sorted(sympy.Mul.make_args(expression), key=str):
        base, power = factor.as_base_exp()
        if not (power.is_Integer and power > 0):
            base, power = factor, 1
        one = _expression(ring.from_expr(base))
        for _ in range(int(power)):
            result = one if result is None else Binary("*", result, one)
    assert result is not None
    return result


def _expression(polynomial: Any) -> Expr:
    """A polynomial written out: higher powers first, the factors of a term and the terms in the order of atoms."""
    result: Expr | None = None
    ordered = sorted(polynomial.terms(), key=lambda term: tuple(-power for power in term[0]))
    ordered.sort(key=lambda term: term[1] < 0)  # a sum does not begin with a sign if it need not
    for powers, coefficient in ordered:
        factors: list[Expr] = [placeholder(n) for n, power in enumerate(powers) for _ in range(power)]
        size = abs(int(coefficient))
        if size != 1 or not factors:
            factors = [Integer(size), *factors]
        term = factors[0]
        for factor in factors[1:]:
            term = Binary("*", term, factor)
        negative = coefficient < 0
        if result is None:
            result = Unary("-", term) if negative else term
        else:
            result = Binary("-" if negative else "+", result, term)
    return Integer(0) if result is None else result
