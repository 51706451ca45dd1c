"""The term of a weighted sum: exp(score-maximum) over a total, times a value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from leir.analysis.definitions import Reduction
from leir.analysis.softmax import exponential
from leir.edit import variables_of
from leir.syntax import Access, Binary, Expr, Real


@dataclass(frozen=True, slots=True)
class Weights:
    """The parts of a term: exp(score-maximum), over `total` if that is not None, times `value`."""

    score: Expr
    maximum: Access
    total: Access | None
    value: Expr


def weights_of(term: Expr, reductions: Mapping[Access, Reduction], keys: set[str]) -> Weights | None:
    """The parts of a product with one exp(a-D) in it, of which D does not change over the terms."""
    factors = list(factors_of(term, False))
    for number, (factor, inverse) in enumerate(factors):
        found = None if inverse else exponential(factor, reductions)
        if found is None or variables_of(found.maximum) & keys:
            continue
        own = found.total
        others = factors[:number] + factors[number + 1 :]
        divisors = [
            other
            for other, inverse in others
            if inverse and isinstance(other, Access) and other in reductions and not variables_of(other) & keys
        ]
        total = divisors[0] if len(divisors) == 1 and own is None else own
        assert total is None or isinstance(total, Access)
        rest = [(e, inverse) for e, inverse in others if not (inverse and e == total and own is None)]
        return Weights(found.score, found.maximum, total, product_of(rest))
    return None


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
