"""Subscripts as sums of variables with constant factors: what they take, and where they have gaps."""

from collections.abc import Mapping
from dataclasses import dataclass

from leir.analysis.box import as_sum
from leir.syntax import Expr, Variable


@dataclass(frozen=True, slots=True)
class Linear:
    """constant + sum of factor * variable."""

    constant: int
    factors: Mapping[str, int]


def linear(index: Expr) -> Linear | None:
    """The expression as such a sum, None where it is none."""
    total = as_sum(index)
    factors = {term.name: factor for term, factor in total.terms.items() if isinstance(term, Variable)}
    return Linear(total.constant, factors) if len(factors) == len(total.terms) else None


def span(form: Linear, factors: Mapping[str, int], ranges: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """The least and largest value of the constant and the given terms."""
    ends = [sorted((factor * ranges[name][0], factor * ranges[name][1])) for name, factor in factors.items()]
    return form.constant + sum(end[0] for end in ends), form.constant + sum(end[1] for end in ends)


def is_gapless(factors: Mapping[str, int], ranges: Mapping[str, tuple[float, float]]) -> bool:
    """Whether the sum takes every value between its least and its largest."""
    reached = 0.0
    for factor, name in sorted((abs(factor), name) for name, factor in factors.items()):
        if factor > reached + 1:
            return False
        reached += factor * (ranges[name][1] - ranges[name][0])
    return True


def occurs(variable: str, index: Expr) -> bool:
    """Whether the index is such a sum and depends on the variable."""
    form = linear(index)
    return form is not None and variable in form.factors
