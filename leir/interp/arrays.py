"""What generated vector code calls: arrays by position, checks, folds.

The checks only notice that something is wrong. `Retreat` then sends the whole run back to scalar code, which finds the
statement and the iteration, or finds that all is well (a read that a later write justifies).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.interp import arithmetic
from leir.interp.arithmetic import Value
from leir.interp.expressions import Namespace

Flags = NDArray[np.bool_]


class Retreat(Exception):
    """Vector code met what only scalar code can judge."""


def require(written: Any, mask: Any) -> None:
    """Every element that an active lane reads is written."""
    missing = np.logical_not(written)
    if np.any(missing if mask is None else missing & mask):
        raise Retreat


def locate(mask: Any, sizes: tuple[int, ...], *indices: Any) -> Any:
    """Row-major positions from subscripts, which must be inside for active lanes; inactive ones get any position."""
    position: Any = 0
    for size, index in zip(sizes, indices, strict=True):
        index = np.asarray(index).astype(np.int64)
        outside = (index < 0) | (index >= size)
        if outside.any():
            if mask is None or np.any(outside & mask):
                raise Retreat
            index = np.where(outside, 0, index)
        position = position * size + index
    return position


def put(values: NDArray[Any], written: Flags, position: Any, value: Any, mask: Any) -> None:
    """Stores the lanes' values at their positions, which are distinct."""
    if mask is None:
        values[position] = value
        written[position] = True
        return
    shape = np.broadcast_shapes(np.shape(position), np.shape(mask))
    active = np.broadcast_to(mask, shape)
    where = np.broadcast_to(position, shape)[active]
    values[where] = np.broadcast_to(value, shape)[active]
    written[where] = True


def divided(op: str, left: Any, right: Any, mask: Any) -> Any:
    """`//` or `%` with the check of the divisor in active lanes."""
    zero = np.equal(right, 0)
    if zero.any():
        if mask is None or np.any(zero & mask):
            raise Retreat
        right = np.where(zero, 1, right)
    return left // right if op == "//" else left % right


_UFUNCS = {"+=": np.add, "*=": np.multiply, "max=": np.maximum, "min=": np.minimum}
_NEUTRAL = {"+=": -0.0, "*=": 1, "max=": -np.inf, "min=": np.inf}


def fold(op: str, start: Any, terms: Any, mask: Any, shape: tuple[int, ...], lanes: tuple[int, ...]) -> Any:
    """The accumulation of terms in order, from `start`. `shape`: the folded axes in order, then `lanes`."""
    terms = np.broadcast_to(terms, shape)
    if mask is not None:
        neutral = arithmetic.identity(op, "i64") if terms.dtype.kind == "i" else _NEUTRAL[op]
        if terms.dtype == np.int32 and op in ("max=", "min="):
            neutral = arithmetic.identity(op, "i32")
        terms = np.where(mask, terms, np.asarray(neutral).astype(terms.dtype))
    count = len(shape) - len(lanes)
    rows = terms.reshape((int(np.prod(shape[:count], dtype=np.int64)), *lanes))
    rows = np.concatenate((np.broadcast_to(start, lanes)[None], rows))
    ufunc = _UFUNCS[op]
    if op in ("max=", "min="):
        return ufunc.reduce(rows, axis=0)
    return ufunc.accumulate(rows, axis=0, dtype=rows.dtype)[-1]


def any_of(mask: Any, shape: tuple[int, ...], lanes: tuple[int, ...]) -> Any:
    """Which lanes are active in some iteration of the folded axes."""
    folded_axes = tuple(range(len(shape) - len(lanes)))
    return np.broadcast_to(mask, shape).any(axis=folded_axes)


def both(mask: Any, condition: Any) -> Any:
    """The lanes of `mask`, all of them if it is None, where the condition holds; an array of its own."""
    return np.array(condition, np.bool_) if mask is None else np.logical_and(mask, condition)


def _converter(dtype: arithmetic.Computing) -> Any:
    type_ = arithmetic.NUMPY_TYPES[dtype]

    def convert(value: Value) -> Value:
        return np.asarray(value).astype(type_)

    return convert


def runtime() -> Namespace:
    """What generated vector code calls."""
    return {
        "require": require, "locate": locate, "put": put, "divided": divided, "fold": fold, "any_of": any_of,
        "both": both, "where": np.where, "ndarray": np.ndarray, "empty": np.empty, "zeros": np.zeros, "full": np.full,
        "copyto": np.copyto, "logical_not": np.logical_not, "logical_or": np.logical_or, "maximum": np.maximum,
        "minimum": np.minimum, "round_to": arithmetic.round_to, "bool_": np.bool_,
        **{f"{dtype}_": type_ for dtype, type_ in arithmetic.NUMPY_TYPES.items()},
        **{f"to_{dtype}": _converter(dtype) for dtype in arithmetic.NUMPY_TYPES},
    }  # fmt: skip
