"""Activations with parameters, each one nest; those without are among the formulas of `pointwise`."""

from math import prod
from typing import Any

from stepTP.frontend.emitter import Emitter
from stepTP.frontend.ops.pointwise import LOGISTIC, in_half_precision, pointwise
from stepTP.frontend.table import emits
from stepTP.frontend.values import Scalar, Value


@emits("relu")
def relu(e: Emitter, x: Value) -> Value:
    return pointwise(e, "max(x,y)", x, 0)


@emits("leaky_relu")
def leaky_relu(e: Emitter, x: Value, negative_slope: Scalar = 0.01) -> Value:
    return pointwise(e, "if_then_else(x>0.0,x,x*y)", x, negative_slope)


@emits("elu")
def elu(e: Emitter, x: Value, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1) -> Value:
    positive = "x" if scale == 1 else "x*z"
    negative = "expm1(x)" if input_scale == 1 else f"expm1(x*{float(input_scale)!r})"
    return pointwise(e, f"if_then_else(x>0.0,{positive},{negative}*y)", x, alpha * scale, scale)


@emits("gelu")
def gelu(e: Emitter, x: Value, approximate: str = "none") -> Value:
    if approximate == "tanh":
        return pointwise(e, "0.5*x*(1.0+tanh(0.7978845608028654*(x+0.044715*x*x*x)))", x)
    return pointwise(e, "x*0.5*(1.0+erf(x*0.7071067811865476))", x)


@emits("softplus")
def softplus(e: Emitter, x: Value, beta: Scalar = 1, threshold: Scalar = 20) -> Value:
    scaled = "x" if beta == 1 else "x*y"
    smooth = f"max({scaled},0.0)+log1p(exp(-abs({scaled})))"
    return pointwise(e, f"if_then_else({scaled}>z,x,{smooth if beta == 1 else f'({smooth})/y'})", x, beta, threshold)


@emits("hardshrink")
def hardshrink(e: Emitter, x: Value, bound: Scalar = 0.5) -> Value:
    return pointwise(e, "if_then_else(x>=-y&&x<=y,0.0,x)", x, in_half_precision(bound, e.dtype()))


@emits("softshrink")
def softshrink(e: Emitter, x: Value, bound: Scalar = 0.5) -> Value:
    return pointwise(e, "if_then_else(x>y,x-y,if_then_else(x<-y,x+y,0.0))", x, bound)


@emits("threshold")
def threshold(e: Emitter, x: Value, bound: Scalar, value: Scalar) -> Value:
    return pointwise(e, "if_then_else(x<=y,z,x)", x, bound, value)


@emits("hardtanh")
def hardtanh(e: Emitter, x: Value, min_val: Scalar = -1, max_val: Scalar = 1) -> Value:
    return pointwise(e, "min(max(x,y),z)", x, min_val, max_val)


@emits("celu")
def celu(e: Emitter, x: Value, alpha: Scalar = 1) -> Value:
    return pointwise(e, "if_then_else(x>0.0,x,expm1(x/y)*y)", x, alpha)


@emits("rrelu")
def randomised_leaky_relu(
    e: Emitter, x: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False
) -> Value:
    if training:
        e.refuse("rrelu in training draws random numbers")
    return leaky_relu(e, x, (lower + upper) / 2)


@emits("rrelu_with_noise_functional")
def randomised_leaky_relu_with_noise(e: Emitter, x: Value, noise: Value, *arguments: Any) -> tuple[Value, Value]:
    return randomised_leaky_relu(e, x, *arguments), noise


@emits("prelu")
def prelu(e: Emitter, x: Value, weight: Value) -> Value:
    """One slope for all, or one for each channel, which is axis 1."""
    if prod(weight.shape) > 1 and len(x.shape) > 1:
        shape = (weight.shape[0], *[1] * (len(x.shape) - 2))
        weight = weight.view(shape, lambda point: point[:1])
    return pointwise(e, "if_then_else(x>0.0,x,y*x)", x, weight)


@emits("glu")
def gated_linear_unit(e: Emitter, x: Value, dim: int = -1) -> Value:
    axis = dim % len(x.shape)
    size = x.shape[axis] // 2
    first, second = (
        x.view(e.shape(), lambda p, start=start: [i + start if n == axis else i for n, i in enumerate(p)])
        for start in (0, size)
    )
    gate = pointwise(e, LOGISTIC, second, into=e.temporary(e.shape(), e.accumulator()))
    return pointwise(e, "x*y", first, gate, dtype=e.accumulator())
