"""A term divided by the sum that it is one of, as in a softmax: what rounding does to numerator and denominator is one.

For p_i = t_i / (t_1 + ... + t_n) of positive terms, of which t_j is wrong by a factor between exp(-l_j) and exp(l_j):

    relative    p_i is wrong by a factor between exp(-L) and exp(L), L = l_i + log(sum_j p_j exp(l_j)): the right part
                bounds what the sum is wrong by, up and (by Cauchy's inequality) down
    as a share  log(p_i / (1 - p_i)) = log(t_i) - log(sum of the others) moves by at most L = l_i + max_j l_j, so that
                p_i stays between 0 and 1:  |p_i~ - p_i| <= p q (1 - exp(-L)) / min(p + q exp(-L), q + p exp(-L)),
                q = 1 - p

For t_j = exp(s_j) the l_j are the absolute errors of the s_j and the roundings of the call: a softmax whose scores are
off by at most e is off by a factor between exp(-2e) and exp(2e). Nothing here depends on how a program gets at the
shares: the running maximum, the rescaled sum, a division that is moved or a split exponential change only the l_j, by
roundings that `tolerance.py` counts for every term.

That a numerator is a term of the denominator is read off the text: the expression that the denominator's one
accumulation adds, with the subscripts of the denominator put in, must be the numerator up to the loop of the sum.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.edit import accesses, with_operands
from leir.names import substitute_in
from leir.syntax import Access, Expr, Variable, operands
from stepTP.verify.formats import Format
from stepTP.verify.tolerance import Number

Array = NDArray[Any]

_LARGEST_LOG = 600.0  # beyond it exp of a log error would overflow; such a factor bounds nothing
_LEAST_SHARE = 1e-300  # what underflows in float64 is taken for this


@dataclass(frozen=True, slots=True)
class Summed:
    """What an accumulation adds up. `ranges`: first value and extent of the loops that the target does not name.

    `read`: the contents of the tensors that the term reads, as `Elements.contents` gives them.
    """

    target: Access
    term: Expr
    ranges: tuple[tuple[str, int, int], ...]
    read: tuple[tuple[str, object], ...]

    @property
    def count(self) -> int:
        """How many terms an element has."""
        return math.prod(extent for _, _, extent in self.ranges)

    def has_term(self, numerator: Expr, subscripts: tuple[Expr, ...], contents: Mapping[str, object],
                 values: Mapping[str, Any]) -> bool:  # fmt: skip
        """Whether `numerator` is one of the terms of the element at `subscripts`, all tensors being as they were.

        `values`: of the loop variables around the numerator.
        """
        given: dict[str, Expr] = {}
        for own, subscript in zip(self.target.indices, subscripts, strict=True):
            if isinstance(own, Variable) and given.setdefault(own.name, subscript) != subscript:
                return False
            if not isinstance(own, Variable) and own != subscript:
                return False
        if any(contents[name] is not content for name, content in self.read):
            return False
        summed = {name: range(first, first + extent) for name, first, extent in self.ranges}
        found: dict[str, str] = {}
        if not _is_instance(substitute_in(self.term, given), numerator, summed, found):
            return False
        for name, other in found.items():
            seen = np.asarray(values[other])
            if int(seen.min()) not in summed[name] or int(seen.max()) not in summed[name]:
                return False
        return True


def summed(target: Access, term: Expr, loops: Mapping[str, tuple[int, int]], contents: Mapping[str, object]) -> Summed:
    """`loops`: first value and extent of every loop of the accumulation, by variable."""
    kept = {index.name for index in target.indices if isinstance(index, Variable)}
    ranges = tuple((name, *bounds) for name, bounds in loops.items() if name not in kept)
    read = tuple((name, contents[name]) for name in dict.fromkeys(access.tensor for access in accesses(term)))
    return Summed(target, term, ranges, read)


def _is_instance(pattern: Expr, found: Expr, summed: Mapping[str, range], bound: dict[str, str]) -> bool:
    """Whether the two are equal once each summed variable of `pattern` is renamed; the names are left in `bound`."""
    if isinstance(pattern, Variable) and pattern.name in summed:
        return isinstance(found, Variable) and bound.setdefault(pattern.name, found.name) == found.name
    below, other = operands(pattern), operands(found)
    if len(below) != len(other) or with_operands(pattern, other) != found:
        return False
    return all(_is_instance(a, b, summed, bound) for a, b in zip(below, other, strict=True))


@dataclass(frozen=True, slots=True)
class Sums:
    """Of the terms t_j of each element of a sum, with log errors l_j: sum exp(l_j) t_j, max l_j, and the sum of all
    terms but the largest.
    """

    mean: Array
    largest: Array
    rest: Array

    @staticmethod
    def of(size: int) -> "Sums":
        return Sums(np.zeros(size), np.zeros(size), np.zeros(size))

    def log_error(self, value: Array) -> Array:
        """The log error of the sums, but for their own roundings. `value`: the sums."""
        positive = value > 0
        mean = np.log(self.mean / np.where(positive, value, 1.0))
        return np.where(positive, np.minimum(mean, self.largest), np.inf)


def sum_log_error(value: Array, log_error: Number) -> Array:
    """exp(l) * t of terms t: what their sum, divided by the sum of the terms, has as a factor at most."""
    return np.where(np.isinf(log_error), np.inf, value * np.exp(np.minimum(log_error, _LARGEST_LOG)))


def rest_of(terms: Array, axes: tuple[int, ...]) -> Array:
    """The sum over axes, which are kept, of all terms but one that is the largest."""
    largest = terms.max(axis=axes, keepdims=True)
    smaller = terms < largest
    others = np.count_nonzero(~smaller, axis=axes, keepdims=True) - 1
    return np.where(smaller, terms, 0.0).sum(axis=axes, keepdims=True) + others * largest


def share_error(p: Number, own: Number, mean: Number, largest: Number, rest: Number) -> Array:
    """The bound of p = t / sum. `own`: the log error of t; `mean`, `largest`: of the sum, see above; `rest`: the share
    of all terms but the largest.
    """
    p = np.clip(p, _LEAST_SHARE, 1.0)
    q = np.where(p > 0.5, np.maximum(rest, _LEAST_SHARE), 1.0 - p)
    shrunk = np.exp(-np.add(own, largest))
    least = np.minimum(p + q * shrunk, q + p * shrunk)
    inside = np.where(least > 0, p * q * -np.expm1(-np.add(own, largest)) / np.where(least > 0, least, 1.0), 1.0)
    inside = np.where(np.isinf(np.add(own, largest)), np.inf, inside)  # infinity over infinity is no share
    return np.minimum(inside, p * np.expm1(np.add(own, mean)))


def log_of_roundings(roundings: Number, format: Format) -> Number:
    """The log error of so many roundings in a row; inf where they may take everything."""
    lost = np.multiply(roundings, format.roundoff)
    return np.where(lost < 0.5, -np.log1p(-np.minimum(lost, 0.5)), math.inf)
