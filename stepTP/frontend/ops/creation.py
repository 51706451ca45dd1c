"""Tensors known without input."""

from typing import Any

from leir.syntax import Binary, Select
from stepTP.frontend.emitter import Emitter
from stepTP.frontend.indices import expression
from stepTP.frontend.ops.pointwise import pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import Scalar, Value, constant, literal


@emits("zeros", "zeros_like", "new_zeros", "empty.memory_format", "empty_like", "new_empty")
def zeros(e: Emitter, *arguments: Any, dtype: Any = None) -> Value:
    """What is empty may hold anything: zeros too."""
    return constant(0, e.shape(), e.dtype())


@emits("ones", "ones_like", "new_ones")
def ones(e: Emitter, *arguments: Any, dtype: Any = None) -> Value:
    return constant(1, e.shape(), e.dtype())


@emits("full", "full_like", "new_full", "scalar_tensor")
def full(e: Emitter, *arguments: Any, dtype: Any = None) -> Value:
    """The last argument is the number; a size or a tensor to be like may come before it."""
    return constant(arguments[-1], e.shape(), e.dtype())


@emits("tril_indices", "triu_indices")
def triangle_indices(e: Emitter, *arguments: Any, dtype: Any = None) -> Value:
    """A constant of the program: no formula of a loop variable gives it without a root."""
    return e.lifted[e.node]


@emits("eye", "eye.m")
def eye(e: Emitter, *arguments: Any, dtype: Any = None) -> Value:
    one, zero = literal(1, e.dtype()), literal(0, e.dtype())
    return Value(e.shape(), e.dtype(), lambda p: Select(Binary("==", expression(p[0]), expression(p[1])), one, zero))


@emits("arange")
def arange_from_zero(e: Emitter, end: Scalar, dtype: Any = None) -> Value:
    return arange(e, 0, end)


@emits("arange.start", "arange.start_step")
def arange(e: Emitter, start: Scalar, end: Scalar, step: Scalar = 1, dtype: Any = None) -> Value:
    """Loop variables are i64, so a range of i64 is an expression; any other is a nest that converts."""
    if e.dtype() == "i64" and isinstance(start, int) and isinstance(step, int):
        return Value(e.shape(), "i64", lambda point: expression(point[0] * step + start))
    position = Value(e.shape(), "i64", lambda point: expression(point[0]))
    return pointwise(e, "y+x*z", position, start, step)
