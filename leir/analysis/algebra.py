"""Expressions as polynomials and fractions: the bridge to SymPy, which proves identities and proposes forms.

An expression is taken apart through +, -, *, / and whole powers, as far as everything computes in one type. What that
does not look into is an *atom*: an access, a call, a value of another type, a literal that is not whole. Equal atoms
are one symbol, also where their operands are commuted. Whole literals are numbers, so that whatever SymPy says of the
symbols holds for all real values of the atoms, and for integers: what floats make of it is asked elsewhere
(`leir.analysis.rounding`, `leir.analysis.ranges`).

SymPy works on placeholders, atom 0, atom 1, ...: its answers are cached by the shape of an expression, not by its
names. Results come back with the operands in the order of the atoms' first appearance. Expressions beyond `MOST_ATOMS`,
`MOST_OPERATIONS`, `HIGHEST_POWER` or `MOST_MONOMIALS` are refused with `TooLarge`, so that no question takes long.
SymPy is imported when the first question is asked; `warm` asks one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from leir.analysis.spelling import normal
from leir.analysis.types import Type, Weak, is_float, type_of
from leir.edit import map_expression, walk_expression, with_operands
from leir.syntax import Binary, DType, Expr, Integer, Real, Unary, Variable, operands

MOST_ATOMS = 16
MOST_OPERATIONS = 48
HIGHEST_POWER = 8
MOST_MONOMIALS = 120
MOST_FACTORED = 12  # monomials of a polynomial that is factored: longer ones can take SymPy a second
_LARGEST_COEFFICIENT = 10**6


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


class Kinds:
    """The types of expressions, each found once. By identity: hashing a tree takes as long as typing it."""

    def __init__(self, dtypes: Mapping[str, DType]) -> None:
        self.dtypes = dtypes
        self._found: dict[int, tuple[Expr, Type]] = {}

    def of(self, expression: Expr) -> Type:
        known = self._found.get(id(expression))
        if known is None:
            known = self._found[id(expression)] = (expression, type_of(expression, self.dtypes))
        return known[1]


class Algebra:
    """The atoms of some expressions that compute in one type, and what SymPy says of the expressions."""

    def __init__(self, kinds: Kinds, dtype: DType) -> None:
        self.kinds = kinds
        self.dtype: DType = dtype
        self.atoms: list[Expr] = []
        self._numbers: dict[Expr, int] = {}
        self._opaque: dict[int, tuple[Expr, bool]] = {}
        self._shapes: dict[Expr, Expr] = {}

    def is_atom(self, expression: Expr) -> bool:
        """Whether arithmetic does not look into an expression."""
        known = self._opaque.get(id(expression))
        if known is None:
            known = self._opaque[id(expression)] = (expression, self._is_atom(expression))
        return known[1]

    def _is_atom(self, expression: Expr) -> bool:
        match expression:
            case Unary("-") | Binary("+" | "-" | "*"):
                pass
            case Binary("/"):
                if not is_float(self.dtype):
                    return True
            case Binary("**", _, exponent):
                if whole(exponent) is None or not 2 <= (whole(exponent) or 0) <= HIGHEST_POWER:
                    return True
            case _:
                return True
        return self.kinds.of(expression) != self.dtype

    def number(self, expression: Expr) -> int | None:
        """The value of a literal, or of an expression of literals, that is whole and not large."""
        kind = self.kinds.of(expression)
        if not isinstance(kind, Weak) or isinstance(kind.value, bool):
            return None
        value = kind.value
        if abs(value) > _LARGEST_COEFFICIENT or int(value) != value:
            return None
        return int(value)

    def atom_number(self, atom: Expr) -> int:
        """The number of an atom, a new one at its first appearance. Raises TooLarge."""
        key = normal(atom)
        if key not in self._numbers:
            if len(self.atoms) == MOST_ATOMS:
                raise TooLarge(f"more than {MOST_ATOMS} different operands")
            self._numbers[key] = len(self.atoms)
            self.atoms.append(atom)
        return self._numbers[key]

    def shape(self, expression: Expr) -> Expr:
        """The expression with placeholders for its atoms. Raises TooLarge."""
        if expression not in self._shapes:
            operations = sum(1 for _ in walk_expression(expression))
            if operations > 4 * MOST_OPERATIONS:
                raise TooLarge(f"more than {MOST_OPERATIONS} operations")
            self._shapes[expression] = self._shape(expression)
            count = sum(isinstance(e, Binary) for _, e in walk_expression(self._shapes[expression]))
            if count > MOST_OPERATIONS:
                raise TooLarge(f"more than {MOST_OPERATIONS} operations")
        return self._shapes[expression]

    def _shape(self, expression: Expr) -> Expr:
        if self.is_atom(expression):
            number = self.number(expression)
            if number is not None:
                return Integer(number) if number >= 0 else Unary("-", Integer(-number))
            return _placeholder(self.atom_number(expression))
        if isinstance(expression, Binary) and expression.op == "**":
            return Binary("**", self._shape(expression.left), Integer(whole(expression.right) or 0))
        return with_operands(expression, tuple(self._shape(operand) for operand in operands(expression)))

    def ratio(self, expression: Expr) -> Ratio:
        """The expression as a fraction of polynomials. Raises TooLarge."""
        return _ratio(self.shape(expression))

    def same(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions are one rational function of the atoms. Raises TooLarge."""
        return left == right or self.ratio(left).equals(self.ratio(right))

    def opposite(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions add up to 0. Raises TooLarge."""
        return self.same(left, Unary("-", right))

    def key(self, expression: Expr) -> tuple[Any, Any]:
        """Equal for polynomials that are equal up to their sign. Raises TooLarge."""
        ratio = self.ratio(expression)
        numerator = ratio.numerator if ratio.numerator == 0 or ratio.numerator.LC > 0 else -ratio.numerator
        return numerator, ratio.denominator

    def factors(self, expression: Expr) -> tuple[tuple[Expr, int], ...]:
        """The irreducible factors of a polynomial that are sums, each with its power. Raises TooLarge.

        Empty for fractions: of 2*x*y + 2*x, it is y + 1.
        """
        return tuple((self._back(factor), power) for factor, power in _factors(self.shape(expression)))

    def divided(self, expression: Expr, divisor: Expr) -> Expr | None:
        """The quotient of two polynomials where it is one; None otherwise. Raises TooLarge."""
        found = _divided(self.shape(expression), self.shape(divisor))
        return None if found is None else self._back(found)

    def common_divisor(self, left: Expr, right: Expr) -> Expr | None:
        """The greatest common divisor of two polynomials that is a sum; None where there is none. Raises TooLarge."""
        found = _common_divisor(self.shape(left), self.shape(right))
        return None if found is None else self._back(found)

    def apart(self, expression: Expr, atom: Expr) -> Expr | None:
        """SymPy's partial fractions of an expression in one atom; None where it is none but itself. Raises TooLarge."""
        found = _apart(self.shape(expression), self.atom_number(atom))
        return None if found is None else self._back(found)

    def _back(self, shape: Expr) -> Expr:
        def put(part: Expr) -> Expr:
            match part:
                case Variable(name):
                    return self.atoms[int(name[1:])]
                case Integer(value) if is_float(self.dtype):
                    return Real(float(value))
                case _:
                    return part

        return map_expression(shape, put)


def whole(expression: Expr) -> int | None:
    """The value of a literal that is whole; None for anything else."""
    match expression:
        case Integer(value):
            return value
        case Real(value) if value.is_integer() and value <= _LARGEST_COEFFICIENT:
            return int(value)
        case _:
            return None


def warm() -> None:
    """Imports SymPy and builds its tables, which takes most of a second."""
    x, y = _placeholder(0), _placeholder(1)
    _factors(Binary("-", Binary("*", x, x), Binary("*", y, y)))
    _apart(Binary("/", x, Binary("+", x, y)), 0)


def _placeholder(number: int) -> Variable:
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
def _ratio(shape: Expr) -> Ratio:
    ring, generators = _ring()
    match shape:
        case Variable(name):
            return Ratio(generators[int(name[1:])], ring.one)
        case Integer(value):
            return Ratio(ring(value), ring.one)
        case Unary(_, operand):
            a = _ratio(operand)
            return Ratio(-a.numerator, a.denominator)
        case Binary("**", base, Integer(exponent)):
            a = _ratio(base)
            if len(a.numerator) ** exponent > 20 * MOST_MONOMIALS:
                raise TooLarge(f"more than {MOST_MONOMIALS} terms once it is multiplied out")
            return _bounded(Ratio(a.numerator**exponent, a.denominator**exponent))
        case Binary(op, left, right):
            a, b = _ratio(left), _ratio(right)
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
def _factors(shape: Expr) -> tuple[tuple[Expr, int], ...]:
    ratio = _ratio(shape)
    if not ratio.denominator.is_ground or ratio.numerator == 0:
        return ()
    if len(ratio.numerator) > MOST_FACTORED:
        raise TooLarge(f"more than {MOST_FACTORED} terms to factor")
    _, found = ratio.numerator.factor_list()
    sums = [(factor, power) for factor, power in found if len(factor) > 1]
    return tuple((_expression(factor), int(power)) for factor, power in sorted(sums, key=lambda pair: str(pair[0])))


@lru_cache(maxsize=2048)
def _divided(shape: Expr, divisor: Expr) -> Expr | None:
    a, b = _ratio(shape), _ratio(divisor)
    if b.numerator == 0 or not a.denominator.is_ground or not b.denominator.is_ground:
        return None
    quotient, rest = divmod(a.numerator * b.denominator, a.denominator * b.numerator)
    return None if rest else _expression(quotient)


@lru_cache(maxsize=2048)
def _common_divisor(left: Expr, right: Expr) -> Expr | None:
    a, b = _ratio(left), _ratio(right)
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
def _apart(shape: Expr, number: int) -> Expr | None:
    ratio = _ratio(shape)
    if len(ratio.numerator) > MOST_FACTORED or len(ratio.denominator) > MOST_FACTORED:
        raise TooLarge(f"more than {MOST_FACTORED} terms in a fraction")
    sympy = _sympy()
    symbol = sympy.Symbol(f"x{number}")
    before = ratio.numerator.as_expr() / ratio.denominator.as_expr()
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
        factors: list[Expr] = [_placeholder(n) for n, power in enumerate(powers) for _ in range(power)]
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
