"""The term of a weighted sum: exp(score-maximum) over a total, times a value."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from leir.analysis.definitions import Reduction
from leir.analysis.softmax import exponential
from leir.edit import accesses, variables_of
from leir.syntax import Access, Binary, Expr, Real, Select, Unary


@dataclass(frozen=True, slots=True)
class Weights:
    """The parts of a term: exp(score-maximum), over `divisor` if that is not None, times `value`.

    `total`: the sum that the divisor is, or has in it; `is_zero_if_empty`: whether the term is 0 where the maximum is
    -inf, as where a mask leaves a row nothing.
    """

    score: Expr
    maximum: Access
    total: Access | None
    divisor: Expr | None
    value: Expr
    is_zero_if_empty: bool = False


def weights_of(term: Expr, reductions: Mapping[Access, Reduction], keys: set[str]) -> Weights | None:
    """The parts of a product with one exp(a-D) in it, of which D does not change over the terms."""
    factors, empty = _without_choice(list(factors_of(term, False)))
    for number, (factor, inverse) in enumerate(factors):
        found = None if inverse else exponential(factor, reductions)
        if found is None or variables_of(found.maximum) & keys or empty not in (None, found.maximum):
            continue
        others = factors[:number] + factors[number + 1 :]
        total: Access | None = found.total
        divisor: Expr | None = found.total
        if total is None:
            fixed = [e for e, over in others if over and not variables_of(e) & keys]
            divisors = [e for e in fixed if _sum_in(e, found.maximum, reductions) is not None]
            divisor = divisors[0] if len(divisors) == 1 else None
            total = None if divisor is None else _sum_in(divisor, found.maximum, reductions)
            others = [(e, over) for e, over in others if not (over and e == divisor)]
        return Weights(found.score, found.maximum, total, divisor, product_of(others), empty is not None)
    return None


def _without_choice(factors: list[tuple[Expr, bool]]) -> tuple[list[tuple[Expr, bool]], Access | None]:
    """The factors with e in place of if_then_else(D==-inf,0.0,e), and D."""
    for number, (factor, inverse) in enumerate(factors):
        match factor:
            case Select(Binary("==", Access() as maximum, Unary("-", Real(math.inf))), Real(0.0), rest) if not inverse:
                return [*factors[:number], *factors_of(rest, False), *factors[number + 1 :]], maximum
            case _:
                pass
    return factors, None


def _sum_in(divisor: Expr, maximum: Access, reductions: Mapping[Access, Reduction]) -> Access | None:
    """The one sum that a divisor reads, beside the maximum and what is no reduction."""
    read = [access for access in dict.fromkeys(accesses(divisor)) if access in reductions and access != maximum]
    return read[0] if len(read) == 1 and reductions[read[0]].equation.op == "+=" else None


def factors_of(expression: Expr, inverse: bool) -> Iterator[tuple[Expr, bool]]:
    """The factors of products and quotients, and whether each divides; ones left out."""
    match expression:
        case Binary("*" | "/" as op, left, right):
            yield from factors_of(left, inverse)
            yield from factors_of(right, inverse != (op == "/"))
        case Real(1.0):
            pass
        case _:
            yield expression, inverse


def product_of(factors: list[tuple[Expr, bool]]) -> Expr:
    """The factors multiplied, and divided, in their order."""
    result: Expr | None = None
    for factor, inverse in sorted(factors, key=lambda item: item[1]):
        if result is None:
            result = Binary("/", Real(1.0), factor) if inverse else factor
        else:
            result = Binary("/" if inverse else "*", result, factor)
    return Real(1.0) if result is None else result
