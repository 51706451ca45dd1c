"""Products of matrices: one accumulation over the shared axis, then one nest for what is added."""

from collections.abc import Sequence
from typing import Any

import torch

from leir.syntax import Binary, Expr
from stepTP.frontend.emitter import Emitter, axes, converted
from stepTP.frontend.ops.pointwise import formula, pointwise
from stepTP.frontend.ops.reduce import accumulate, power_of_order, rooted, rooted_buffer
from stepTP.frontend.table import emits
from stepTP.frontend.values import Buffer, Point, Scalar, Value, broadcast, literal, stretched


def accumulate_product(e: Emitter, x: Value, y: Value, into: Buffer) -> Value:
    """Emits `into += x @ y` by the rules of `torch.matmul`, for operands of any rank.

    x is (..., m, k) or (k,), y is (..., k, n) or (k,); leading axes broadcast; `into` has the axes that are there.
    """
    point, inner = axes(into.shape, x.shape[-1:])
    batch = len(into.shape) - (len(x.shape) > 1) - (len(y.shape) > 1)
    row = point[batch : batch + 1] if len(x.shape) > 1 else ()
    column = point[-1:] if len(y.shape) > 1 else ()
    left = converted(x, into.dtype).element((*stretched(point[:batch], x.shape[:-2]), *row, *inner))
    right = converted(y, into.dtype).element((*stretched(point[:batch], y.shape[:-2]), *inner, *column))
    e.assign(into.at(point), "+=", Binary("*", left, right), point, inner)
    return into.value


def product(e: Emitter, x: Value, y: Value) -> Value:
    """The product in a temporary of the result's shape, for a nest that follows."""
    return accumulate_product(e, x, y, e.temporary(e.shape(), e.accumulator()))


@emits("mm", "bmm", "matmul", "mv", "dot")
def matmul(e: Emitter, x: Value, y: Value) -> Value:
    into = e.result(dtype=e.accumulator())
    accumulate_product(e, x, y, into)
    return e.settled(into)


@emits("linear")
def linear(e: Emitter, x: Value, weight: Value, bias: Value | None = None) -> Value:
    transposed = weight.view(weight.shape[::-1], lambda point: point[::-1])
    if bias is None:
        return matmul(e, x, transposed)
    return pointwise(e, "x+y", product(e, x, transposed), bias)


@emits("addbmm")
def add_sum_of_products(e: Emitter, added: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """beta * added + alpha * the sum of x[b] @ y[b] over b."""
    total = e.temporary(e.shape(), e.accumulator())
    point, inner = axes(total.shape, (x.shape[0], x.shape[2]))
    left, right = converted(x, total.dtype), converted(y, total.dtype)
    term = Binary("*", left.element((inner[0], point[0], inner[1])), right.element((*inner, point[1])))
    e.assign(total.at(point), "+=", term, point, inner)
    if beta == 0:
        return pointwise(e, "x*y", total.value, alpha, dtype=total.dtype)
    scaled = pointwise(e, "x*y", added, beta, dtype=total.dtype, into=e.temporary(e.shape(), total.dtype))
    return pointwise(e, "x*z+y", total.value, scaled, alpha, dtype=total.dtype)


@emits("addmm", "baddbmm", "addmv")
def add_product(e: Emitter, added: Value, x: Value, y: Value, *, beta: Scalar = 1, alpha: Scalar = 1) -> Value:
    """beta * added + alpha * (x @ y); a beta of 0 ignores `added`, NaN or not."""
    if beta == 0 and alpha == 1:
        return matmul(e, x, y)
    scaled = "x" if alpha == 1 else "x*z"
    if beta == 0:
        return pointwise(e, scaled, product(e, x, y), 0, alpha)
    if beta == 1:
        return pointwise(e, f"{scaled}+y", product(e, x, y), added, alpha)
    weight = f"y*{beta!r}" if beta > 0 else f"y*(-{-beta!r})"
    return pointwise(e, f"{scaled}+{weight}", product(e, x, y), added, alpha)


@emits("_cdist_forward")
def distances(e: Emitter, x: Value, y: Value, p: float, mode: Any) -> Value:
    """Distances of all rows of x (..., m, k) and y (..., n, k), by the norm of order p."""
    op, term = power_of_order(p)
    into = rooted_buffer(e, p)
    x, y = converted(x, into.dtype), converted(y, into.dtype)
    point, inner = axes(into.shape, x.shape[-1:])
    left = x.element((*stretched(point[:-2], x.shape[:-2]), point[-2], *inner))
    right = y.element((*stretched(point[:-2], y.shape[:-2]), point[-1], *inner))
    value = formula(term, x=Binary("-", left, right), y=literal(p, into.dtype))
    e.assign(into.at(point), op, value, point, inner)
    return rooted(e, into, p)


@emits("_trilinear")
def sum_of_products_of_three(
    e: Emitter, x: Value, y: Value, z: Value, new_x: Sequence[int], new_y: Sequence[int], new_z: Sequence[int],
    over: Sequence[int], unroll_dim: int = 1,
) -> Value:  # fmt: skip
    """x * y * z, each with new axes of size 1, summed over some axes; so `F.bilinear` weighs two tensors by a third."""
    into = e.result(dtype=e.accumulator())
    wide = [_with_ones(converted(v, into.dtype), new) for v, new in ((x, new_x), (y, new_y), (z, new_z))]
    shape = torch.broadcast_shapes(*(v.shape for v in wide))
    one, two, three = (broadcast(v, shape) for v in wide)

    def term(point: Point) -> Expr:
        return formula("x*y*z", x=one.element(point), y=two.element(point), z=three.element(point))

    accumulate(e, into, "+=", one, sorted(over), term)
    return e.settled(into)


def _with_ones(x: Value, new: Sequence[int]) -> Value:
    """x with axes of size 1 at the places `new` of the result."""
    sizes = iter(x.shape)
    shape = [1 if axis in new else next(sizes) for axis in range(len(x.shape) + len(new))]
    return x.view(shape, lambda point: [index for axis, index in enumerate(point) if axis not in new])
