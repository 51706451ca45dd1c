"""Which values verification takes at their own size: those that no sum with terms of both signs has gone into.

The tolerance of verification remembers of a value the sizes of the terms that sums made it of, through products,
choices and temporaries (`stepTP.verify.tolerance`: the magnitude). A plain value has the magnitude |value|.
"""

from leir.analysis.types import Weak, is_float, type_of
from leir.analysis.values import Ranges
from leir.syntax import Access, Binary, Call, Cast, Expr, Integer, Path, Real, Select, Unary, Variable


def is_plain(expression: Expr, found: Ranges, path: Path, within: frozenset[str] = frozenset()) -> bool:
    """Whether a value that the statement at `path` evaluates has its own size as its magnitude, as far as is proved.

    `within`: tensors whose writes are being looked at.
    """
    kind = type_of(expression, found.dtypes)
    if isinstance(kind, Weak) or not is_float(kind):
        return True
    match expression:
        case Access(tensor):
            return _is_plain_tensor(tensor, found, within)
        case Unary(_, operand) | Cast(_, operand) | Call("abs", (operand,)):
            return is_plain(operand, found, path, within)
        case Call("max" | "min", (left, right)) | Binary("*", left, right) | Select(_, left, right):
            return is_plain(left, found, path, within) and is_plain(right, found, path, within)
        case Binary("/", left, _):
            return is_plain(left, found, path, within)
        case Binary("+" | "-" as op, left, right):
            signed = Unary("-", right) if op == "-" else right
            signs = [_sign(part, found, path) for part in (left, signed)]
            one_sign = signs[0] == signs[1] != 0
            return one_sign and is_plain(left, found, path, within) and is_plain(right, found, path, within)
        case Call() | Binary() | Integer() | Real() | Variable():
            return True


def _is_plain_tensor(tensor: str, found: Ranges, within: frozenset[str]) -> bool:
    writes = found.writes.get(tensor, ())
    if tensor in within:
        return False
    values = [(write.equation.value, write.path) for write in writes]
    if any(write.equation.op == "+=" for write in writes):
        signs = {_sign(value, found, path) for value, path in values}
        if len(signs) != 1 or 0 in signs:
            return False
    return all(is_plain(value, found, path, within | {tensor}) for value, path in values)


def _sign(expression: Expr, found: Ranges, path: Path) -> int:
    """1 for values that are not negative, -1 for those that are not positive, 0 for others and for NaN."""
    bounds = found.of(expression, path)
    if bounds.nan:
        return 0
    return 1 if bounds.low >= 0 else -1 if bounds.high <= 0 else 0
