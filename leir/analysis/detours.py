"""Detours: a factor that is divided by again, a term that is taken away again; and expressions without them.

Operands are alike where they are one computation, up to commuted operands (`leir.analysis.spelling`).
"""

from collections import Counter
from collections.abc import Sequence

from leir.analysis.spelling import normal
from leir.analysis.terms import IsAtom, Term, is_sum, term_of, terms_of, total
from leir.edit import with_operands
from leir.syntax import Binary, DType, Expr, operands


def cancelled(factors: Sequence[Expr], divisors: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """Factors and divisors without those that meet their like on the other side of the line."""
    shared = Counter(map(normal, factors)) & Counter(map(normal, divisors))
    return _less(factors, shared), _less(divisors, shared)


def _less(items: Sequence[Expr], left_out: Counter[Expr]) -> tuple[Expr, ...]:
    """The items without so many of each, the last of them."""
    kept, remaining = list[Expr](), Counter(left_out)
    for item in reversed(items):
        if remaining[normal(item)]:
            remaining[normal(item)] -= 1
        else:
            kept.append(item)
    return tuple(reversed(kept))


def has_opposite_terms(expression: Expr, is_atom: IsAtom) -> bool:
    """Whether a term of a sum is added and taken away."""
    terms = terms_of(expression, is_atom)
    return len(_without_opposite(terms)) < len(terms)


def _without_opposite(terms: Sequence[Term]) -> list[Term]:
    left: list[Term] = []
    for term in terms:
        key = _unsigned(term)
        opposite = next((t for t in left if t.negative != term.negative and _unsigned(t) == key), None)
        if opposite is None:
            left.append(term)
        else:
            left.remove(opposite)
    return left


def _unsigned(term: Term) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    return tuple(map(normal, term.factors)), tuple(map(normal, term.divisors))


def without_detours(expression: Expr, is_atom: IsAtom, dtype: DType) -> Expr:
    """Arithmetic with what cancels left out; the expression itself where nothing does.

    A fraction of a sum is taken apart where a term cancels with a divisor: (a*d+b*c)/(c*d) counts as a/c+b/d.
    """
    if is_atom(expression):
        return expression
    below = operands(expression)
    inner = tuple(without_detours(operand, is_atom, dtype) for operand in below)
    if any(new is not old for new, old in zip(inner, below, strict=True)):
        expression = with_operands(expression, inner)
    if is_sum(expression, is_atom):
        terms = terms_of(expression, is_atom)
        left = _without_opposite(terms)
        return expression if len(left) == len(terms) else total(left, dtype)
    if not isinstance(expression, Binary) or expression.op not in ("*", "/"):
        return expression
    term = term_of(expression, is_atom)
    factors, divisors = cancelled(term.factors, term.divisors)
    if len(factors) < len(term.factors):
        return total([term.changed(factors, divisors)], dtype)
    return _taken_apart(term, is_atom, dtype) or expression


def _taken_apart(term: Term, is_atom: IsAtom, dtype: DType) -> Expr | None:
    """A fraction of a sum as fractions of its terms; None where no term cancels with a divisor."""
    sums = [number for number, factor in enumerate(term.factors) if is_sum(factor, is_atom)]
    if len(sums) != 1 or not term.divisors:
        return None
    (number,) = sums
    beside = (*term.factors[:number], *term.factors[number + 1 :])
    parts: list[Term] = []
    cancels = False
    for part in terms_of(term.factors[number], is_atom):
        factors, divisors = cancelled((*part.factors, *beside), (*part.divisors, *term.divisors))
        cancels |= len(factors) < len(part.factors) + len(beside)
        parts.append(Term(part.negative != term.negative, factors, divisors))
    return total(parts, dtype) if cancels else None
