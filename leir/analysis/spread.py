"""What verification remembers of a value beyond its size: the sizes of the terms that sums made it of.

The tolerance of verification carries them through products, choices and temporaries (`stepTP.verify.tolerance`: the
magnitude M). The *spread* of a value is M over its own size, at most: 1 for a value that no sum with terms of both
signs has gone into, and bounded where the ranges keep such sums away from zero.
"""

import math
from collections.abc import Callable, Iterable

from leir.analysis.intervals import Range, largest_magnitude, least_magnitude
from leir.analysis.types import Weak, computing_type, is_float
from leir.analysis.values import Ranges
from leir.syntax import Access, Binary, Call, Cast, Expr, Integer, Path, Real, Select, Unary, Variable

WORST = 64.0  # beyond it, a sum counts as one that may lose its digits
_STORED = 1.01  # a value that is stored in a narrower type may lose that much of its size


def spread_of(expression: Expr, found: Ranges, path: Path, within: frozenset[str] = frozenset()) -> float:
    """The spread of a value that the statement at `path` evaluates; infinite where no bound is proved.

    `within`: tensors whose writes are being looked at.
    """
    kind = found.kinds.of(expression)
    if isinstance(kind, Weak) or not is_float(kind):
        return 1.0

    def of(part: Expr) -> float:
        return spread_of(part, found, path, within)

    match expression:
        case Access(tensor):
            return _spread_of_tensor(tensor, found, within)
        case Unary(_, operand) | Cast(_, operand) | Call("abs", (operand,)) | Binary("/", operand, _):
            return of(operand)
        case Call("max" | "min", (left, right)) | Binary("*", left, right) | Select(_, left, right):
            return max(of(left), of(right))
        case Binary("+" | "-" as op, left, right):
            terms = (left, Unary("-", right) if op == "-" else right)
            condition = condition_of(terms, expression, lambda part: found.of(part, path))
            return math.inf if condition == math.inf else condition * max(of(left), of(right))
        case Call() | Binary() | Integer() | Real() | Variable():
            return 1.0


def condition_of(terms: Iterable[Expr], total: Expr, range_of: Callable[[Expr], Range]) -> float:
    """The sizes of the terms of a sum over the size of the sum, at most: 1 for terms of one sign.

    Infinite where the sum may lose its digits.
    """
    bounds = [range_of(term) for term in terms]
    if any(term.nan for term in bounds):
        return math.inf
    if all(term.low >= 0 for term in bounds) or all(term.high <= 0 for term in bounds):
        return 1.0
    whole = range_of(total)
    least = 0.0 if whole.nan else least_magnitude(whole)
    if not least:
        return math.inf
    condition = sum(map(largest_magnitude, bounds)) / least
    return condition if condition <= WORST else math.inf


def _spread_of_tensor(tensor: str, found: Ranges, within: frozenset[str]) -> float:
    writes = found.writes.get(tensor, ())
    if tensor in within:
        return math.inf
    if any(write.equation.op == "+=" for write in writes):
        signs = {_sign(found.of(write.equation.value, write.path)) for write in writes}
        if len(signs) != 1 or 0 in signs:
            return math.inf
    spreads = [spread_of(write.equation.value, found, write.path, within | {tensor}) for write in writes]
    worst = max(spreads, default=1.0)
    dtype = found.dtypes.get(tensor, "f32")
    return worst if worst == 1.0 or computing_type(dtype) == dtype else worst * _STORED


def _sign(bounds: Range) -> int:
    """1 for values that are not negative, -1 for those that are not positive, 0 for others and for NaN."""
    if bounds.nan:
        return 0
    return 1 if bounds.low >= 0 else -1 if bounds.high <= 0 else 0
