"""Activations with parameters, each one nest; those without are among the formulas of `pointwise`."""

from stepTP.frontend.emitter import Emitter
from stepTP.frontend.ops.pointwise import pointwise
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
    return pointwise(e, "if_then_else(x>=-y&&x<=y,0.0,x)", x, bound)


@emits("softshrink")
def softshrink(e: Emitter, x: Value, bound: Scalar = 0.5) -> Value:
    return pointwise(e, "if_then_else(x>y,x-y,if_then_else(x<-y,x+y,0.0))", x, bound)


@emits("threshold")
def threshold(e: Emitter, x: Value, bound: Scalar, value: Scalar) -> Value:
    return pointwise(e, "if_then_else(x<=y,z,x)", x, bound, value)


@emits("hardtanh")
def hardtanh(e: Emitter, x: Value, min_val: Scalar = -1, max_val: Scalar = 1) -> Value:
    return pointwise(e, "min(max(x,y),z)", x, min_val, max_val)
