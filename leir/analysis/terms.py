"""Sums as terms and products as factors: what arithmetic identities take apart and put together again.

A sum is taken apart through `+`, `-` and signs, a product through `*`, `/` and signs, as far as `is_atom` lets it. A
term remembers how it was written: what an identity does not touch is put back as it was.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from leir.analysis.types import is_float
from leir.syntax import Binary, DType, Expr, Integer, Real, Unary

IsAtom = Callable[[Expr], bool]


@dataclass(frozen=True, slots=True)
class Term:
    """`factors` over `divisors`, subtracted where `negative`.

    `source` is the term as it was written, which a sum subtracts where `minus`; None for a term that was changed.
    """

    negative: bool
    factors: tuple[Expr, ...]
    divisors: tuple[Expr, ...] = ()
    source: Expr | None = None
    minus: bool = False

    def changed(self, factors: Iterable[Expr], divisors: Iterable[Expr] | None = None) -> "Term":
        """The term with other factors, and other divisors if given; its sign stays."""
        below = self.divisors if divisors is None else tuple(divisors)
        return Term(self.negative, tuple(factors), below)


def is_sum(expression: Expr, is_atom: IsAtom) -> bool:
    """Whether an expression is a sum or a difference."""
    return isinstance(expression, Binary) and expression.op in ("+", "-") and not is_atom(expression)


def term_of(expression: Expr, is_atom: IsAtom) -> Term:
    """An expression as one term: a product or a quotient in its factors, anything else as the only factor."""
    negative, above, below = _split(expression, is_atom)
    return Term(negative, tuple(above), tuple(below), expression)


def terms_of(expression: Expr, is_atom: IsAtom) -> tuple[Term, ...]:
    """The terms of a sum from left to right, sums within it included; one term for anything else."""

    def visit(node: Expr, minus: bool) -> list[Term]:
        match node:
            case Binary("+" | "-" as op, left, right) if not is_atom(node):
                return visit(left, minus) + visit(right, minus != (op == "-"))
            case Unary("-", operand) if not is_atom(node) and is_sum(operand, is_atom):
                return visit(operand, not minus)
            case _:
                term = term_of(node, is_atom)
                return [replace(term, negative=term.negative != minus, minus=minus)]

    return tuple(visit(expression, False))


def _split(node: Expr, is_atom: IsAtom) -> tuple[bool, list[Expr], list[Expr]]:
    match node:
        case Unary("-", operand) if not is_atom(node):
            negative, above, below = _split(operand, is_atom)
            return not negative, above, below
        case Binary("*" | "/" as op, left, right) if not is_atom(node):
            negative, above, below = _split(left, is_atom)
            other, more_above, more_below = _split(right, is_atom)
            if op == "/":
                more_above, more_below = more_below, more_above
            return negative != other, above + more_above, below + more_below
        case _:
            return False, [node], []


def taken_out(
    expression: Expr, is_wanted: Callable[[Expr], bool], *, subtracted: bool
) -> tuple[Expr | None, Expr] | None:
    """A sum without the last of its wanted terms that is added, or subtracted; and that term. None if it has none.

    What is left is None where nothing is.
    """
    match expression:
        case _ if not subtracted and is_wanted(expression):
            return None, expression
        case Unary("-", operand):
            found = taken_out(operand, is_wanted, subtracted=not subtracted)
            return None if found is None else (None if found[0] is None else _negated(found[0]), found[1])
        case Binary("+" | "-" as op, left, right):
            found = taken_out(right, is_wanted, subtracted=subtracted != (op == "-"))
            if found is not None:
                return left if found[0] is None else Binary(op, left, found[0]), found[1]
            found = taken_out(left, is_wanted, subtracted=subtracted)
            if found is None:
                return None
            alone = right if op == "+" else _negated(right)
            return alone if found[0] is None else Binary(op, found[0], right), found[1]
        case _:
            return None


def _negated(expression: Expr) -> Expr:
    return expression.operand if isinstance(expression, Unary) and expression.op == "-" else Unary("-", expression)


def one(dtype: DType) -> Expr:
    """The literal 1 of a type."""
    return Real(1.0) if is_float(dtype) else Integer(1)


def zero(dtype: DType) -> Expr:
    """The literal 0 of a type."""
    return Real(0.0) if is_float(dtype) else Integer(0)


def product(factors: Sequence[Expr], dtype: DType) -> Expr:
    """The product from left to right; 1 of none."""
    if not factors:
        return one(dtype)
    result = factors[0]
    for factor in factors[1:]:
        result = Binary("*", result, factor)
    return result


def quotient(factors: Sequence[Expr], divisors: Sequence[Expr], dtype: DType) -> Expr:
    """The product of the factors over that of the divisors."""
    above = product(factors, dtype)
    return Binary("/", above, product(divisors, dtype)) if divisors else above


def total(terms: Sequence[Term], dtype: DType) -> Expr:
    """The sum of terms from left to right; 0 of none."""
    result: Expr | None = None
    for term in terms:
        negative = term.negative if term.source is None else term.minus
        value = quotient(term.factors, term.divisors, dtype) if term.source is None else term.source
        if result is None:
            result = Unary("-", value) if negative else value
        else:
            result = Binary("-" if negative else "+", result, value)
    return zero(dtype) if result is None else result
