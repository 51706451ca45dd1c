"""Scaled dot product attention: scores, scale and mask, softmax, product; six nests."""

from math import sqrt

from leir.syntax import Binary, Expr, Real, Select, Unary
from stepTP.frontend.emitter import Emitter, converted
from stepTP.frontend.indices import expression, quotient
from stepTP.frontend.ops.linear_algebra import accumulate_product
from stepTP.frontend.ops.normalisation import normalised
from stepTP.frontend.table import emits
from stepTP.frontend.values import Point, Value, broadcast, literal

MINUS_INFINITY = Unary("-", Real(float("inf")))


@emits("scaled_dot_product_attention")
def attention(
    e: Emitter,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """softmax(scale * query @ key^T + mask) @ value, for (..., l, e), (..., s, e) and (..., s, v).

    A mask may close a whole row, and PyTorch gives zeros there: with a mask the last softmax nest says so, and leaves
    the row's sum, which is NaN, unread. A causal mask leaves the first key open to every row and needs no such care.
    """
    if dropout_p:
        e.refuse("dropout in training draws random numbers")
    if attn_mask is not None and is_causal:
        e.refuse("a mask and is_causal at once")
    dtype = e.accumulator()
    if enable_gqa:
        key, value = (_shared_by_groups(tensor, query.shape[-3]) for tensor in (key, value))
    *batch, rows, _ = e.shape()
    shape = (*batch, rows, key.shape[-2])
    products = accumulate_product(e, query, _transposed(key), e.temporary(shape, dtype))
    factor = literal(1 / sqrt(query.shape[-1]) if scale is None else scale, dtype)
    mask = broadcast(attn_mask, shape) if attn_mask else None

    def score(point: Point) -> Expr:
        scaled = Binary("*", products.element(point), factor)
        if is_causal and shape[-1] > 1:
            return Select(Binary("<=", expression(point[-1]), expression(point[-2])), scaled, MINUS_INFINITY)
        if mask is None:
            return scaled
        if mask.dtype == "bool":
            return Select(mask.element(point), scaled, MINUS_INFINITY)
        return Binary("+", scaled, converted(mask, dtype).element(point))

    scores = e.fill(e.temporary(shape, dtype), score)
    text = "if_then_else(y==-inf,0.0,exp(x-y)/z)" if mask else "exp(x-y)/z"
    weights = normalised(e, text, scores, [len(shape) - 1], e.temporary(shape, dtype))
    into = e.result(dtype=dtype)
    accumulate_product(e, weights, value, into)
    return e.settled(into)


def _transposed(x: Value) -> Value:
    return x.view((*x.shape[:-2], x.shape[-1], x.shape[-2]), lambda p: (*p[:-2], p[-1], p[-2]))


def _shared_by_groups(x: Value, heads: int) -> Value:
    """Every head of x serves heads / own consecutive query heads."""
    times = heads // x.shape[-3]
    shape = (*x.shape[:-3], heads, *x.shape[-2:])
    return x.view(shape, lambda p: (*p[:-3], quotient(p[-3], times), *p[-2:]))
