"""Expressions as polynomials and fractions: what SymPy says of them, with operands for its symbols.

An expression is taken apart through +, -, *, / and whole powers, as far as everything computes in one type. What that
does not look into is an *atom*: an access, a call, a value of another type, a literal that is not whole. Equal atoms
are one symbol, also where their operands are commuted. Whole literals are numbers, so that whatever SymPy says of the
symbols holds for all real values of the atoms, and for integers: what floats make of it is asked elsewhere
(`leir.analysis.rounding`, `leir.analysis.ranges`).

SymPy is asked about placeholders, atom 0, atom 1, ... (`leir.analysis.polynomials`): its answers are cached by the
shape of an expression, not by its names. Results come back with the operands in the order of the atoms' appearance.
Expressions beyond `MOST_ATOMS`, `MOST_OPERATIONS`, `HIGHEST_POWER` or `MOST_MONOMIALS` are refused with `TooLarge`, so
that no question takes long.
"""

from typing import Any

from leir.analysis import polynomials
from leir.analysis.polynomials import (
    HIGHEST_POWER,
    LARGEST_COEFFICIENT,
    MOST_ATOMS,
    MOST_OPERATIONS,
    Ratio,
    TooLarge,
    placeholder,
)
from leir.analysis.spelling import normal
from leir.analysis.types import Kinds, Weak, is_float
from leir.edit import map_expression, walk_expression, with_operands
from leir.syntax import Binary, DType, Expr, Integer, Real, Unary, Variable, operands


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
        if abs(value) > LARGEST_COEFFICIENT or int(value) != value:
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
            return placeholder(self.atom_number(expression))
        if isinstance(expression, Binary) and expression.op == "**":
            return Binary("**", self._shape(expression.left), Integer(whole(expression.right) or 0))
        return with_operands(expression, tuple(self._shape(operand) for operand in operands(expression)))

    def ratio(self, expression: Expr) -> Ratio:
        """The expression as a fraction of polynomials. Raises TooLarge."""
        return polynomials.ratio(self.shape(expression))

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
        return tuple((self._back(factor), power) for factor, power in polynomials.factors(self.shape(expression)))

    def divided(self, expression: Expr, divisor: Expr) -> Expr | None:
        """The quotient of two polynomials where it is one; None otherwise. Raises TooLarge."""
        found = polynomials.divided(self.shape(expression), self.shape(divisor))
        return None if found is None else self._back(found)

    def common_divisor(self, left: Expr, right: Expr) -> Expr | None:
        """The greatest common divisor of two polynomials that is a sum; None where there is none. Raises TooLarge."""
        found = polynomials.common_divisor(self.shape(left), self.shape(right))
        return None if found is None else self._back(found)

    def apart(self, expression: Expr, atom: Expr) -> Expr | None:
        """SymPy's partial fractions of an expression in one atom; None where it is none but itself. Raises TooLarge."""
        found = polynomials.apart(self.shape(expression), self.atom_number(atom))
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
        case Real(value) if value.is_integer() and value <= LARGEST_COEFFICIENT:
            return int(value)
        case _:
            return None
