"""Element-wise ops, each one nest: formulas are written in LEIR, with the operands as the variables x, y, z.

Forms that cannot overflow: exp(min(x,0))/(1+exp(-abs(x))) for the logistic function, whose arguments of exp are never
positive. Operands are converted to the dtype that PyTorch computes in before the formula sees them.
"""

from functools import cache, partial
from typing import Any

from leir.names import substitute_in
from leir.parser import parse_expression
from leir.syntax import DType, Expr
from stepTP.frontend.emitter import Emitter, converted, rounded, scalar
from stepTP.frontend.table import emits
from stepTP.frontend.values import FLOATS, Buffer, Scalar, Value, broadcast

Operand = Value | Scalar

LOGISTIC = "exp(min(x,0.0))/(1.0+exp(-abs(x)))"

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772

UNARY = {
    "abs": "abs(x)",
    "neg": "-x",
    "square": "x*x",
    "exp": "exp(x)",
    "exp2": "exp(x*0.6931471805599453)",
    "expm1": "expm1(x)",
    "log": "log(x)",
    "log1p": "log1p(x)",
    "log2": "log(x)/0.6931471805599453",
    "log10": "log(x)/2.302585092994046",
    "log_sigmoid": "min(x,0.0)-log1p(exp(-abs(x)))",
    "sqrt": "sqrt(x)",
    "rsqrt": "1.0/sqrt(x)",
    "reciprocal": "1.0/x",
    "sinh": "0.5*(expm1(x)-expm1(-x))",
    "cosh": "0.5*(exp(x)+exp(-x))",
    "tan": "sin(x)/cos(x)",
    "asinh": (
        "if_then_else(x<0.0,-1.0,1.0)*if_then_else(abs(x)>1e8,log(abs(x))+0.6931471805599453,"
        "log1p(abs(x)+x*x/(1.0+sqrt(1.0+x*x))))"
    ),
    "acosh": "if_then_else(x>1e8,log(x)+0.6931471805599453,log1p(x-1.0+sqrt((x-1.0)*(x+1.0))))",
    "atanh": "0.5*(log1p(x)-log1p(-x))",
    "deg2rad": "x*0.017453292519943295",
    "rad2deg": "x*57.29577951308232",
    "special_expit": LOGISTIC,
    "sin": "sin(x)",
    "cos": "cos(x)",
    "erf": "erf(x)",
    "tanh": "tanh(x)",
    "sigmoid": LOGISTIC,
    "silu": f"x*({LOGISTIC})",
    "relu6": "min(max(x,0.0),6.0)",
    "hardsigmoid": "min(max(x+3.0,0.0),6.0)/6.0",
    "hardswish": "x*min(max(x+3.0,0.0),6.0)/6.0",
    "selu": f"{SELU_SCALE}*if_then_else(x>0.0,x,{SELU_ALPHA}*expm1(x))",
    "mish": "x*tanh(max(x,0.0)+log1p(exp(-abs(x))))",
}
ROUNDING = {
    "floor": "floor(x)",
    "ceil": "-floor(-x)",
    "round": "round(x)",
    "trunc": "if_then_else(x<0.0,-floor(-x),floor(x))",
}
BINARY = {
    "mul.Tensor": "x*y",
    "mul.Scalar": "x*y",
    "div.Tensor": "x/y",
    "div.Scalar": "x/y",
    **dict.fromkeys(("xlogy.Tensor", "xlogy.Scalar_Self", "xlogy.Scalar_Other"), "if_then_else(x==0.0,0.0,x*log(y))"),
    "hypot": (
        "if_then_else(x==0.0&&y==0.0||abs(x)==inf||abs(y)==inf,max(abs(x),abs(y)),"
        "max(abs(x),abs(y))*sqrt(1.0+(min(abs(x),abs(y))/max(abs(x),abs(y)))*(min(abs(x),abs(y))/max(abs(x),abs(y)))))"
    ),
    "fmax": "if_then_else(x!=x,y,if_then_else(y!=y,x,max(x,y)))",
    "fmin": "if_then_else(x!=x,y,if_then_else(y!=y,x,min(x,y)))",
    "ldexp.Tensor": "x*2.0**y",
    "heaviside": "if_then_else(x<0.0,0.0,if_then_else(x>0.0,1.0,y))",
    "logaddexp": "if_then_else(x==y,x+0.6931471805599453,max(x,y)+log1p(exp(-abs(x-y))))",
    "_prelu_kernel": "if_then_else(x>0.0,x,y*x)",
    "maximum": "max(x,y)",
    "minimum": "min(x,y)",
}
COMPARISONS = {"eq": "x==y", "ne": "x!=y", "lt": "x<y", "le": "x<=y", "gt": "x>y", "ge": "x>=y"}


@cache
def _parsed(text: str) -> Expr:
    return parse_expression(text)


def formula(text: str, **operands: Expr) -> Expr:
    """The expression that LEIR text writes, with its variables replaced."""
    return substitute_in(_parsed(text), operands)


def pointwise(
    e: Emitter, text: str, *operands: Operand, dtype: DType | None = None, into: Buffer | None = None
) -> Value:
    """One nest over `into`, or the op's result: a formula of operands x, y, z, in the result's dtype or another."""
    computing = dtype or e.dtype()
    values = [operand if isinstance(operand, Value) else scalar(operand, computing) for operand in operands]
    result = into or e.result()
    elements = [broadcast(converted(value, computing), result.shape).element for value in values]

    def element(point: Any) -> Expr:
        return formula(text, **{name: element(point) for name, element in zip("xyz", elements, strict=False)})

    return e.fill(result, element)


def _unary(text: str, e: Emitter, x: Value) -> Value:
    return pointwise(e, text, x)


def _binary(text: str, e: Emitter, x: Operand, y: Operand) -> Value:
    return pointwise(e, text, x, y)


def _comparison(text: str, e: Emitter, x: Operand, y: Operand) -> Value:
    """Half precision compares with a number as its own dtype holds it."""
    dtype = e.computing_dtype(*e.node.args)
    return pointwise(e, text, *(in_half_precision(operand, dtype) for operand in (x, y)), dtype=dtype)


def in_half_precision(operand: Operand, dtype: DType) -> Operand:
    """The operand with its number rounded to f16 or bf16, which LEIR computes in f32; other dtypes round literals."""
    if dtype not in ("f16", "bf16"):
        return operand
    return rounded(converted(operand, dtype) if isinstance(operand, Value) else scalar(operand, dtype))


for _name, _text in UNARY.items():
    emits(_name)(partial(_unary, _text))
for _name, _text in BINARY.items():
    emits(_name)(partial(_binary, _text))
for _name, _text in COMPARISONS.items():
    emits(f"{_name}.Tensor", f"{_name}.Scalar")(partial(_comparison, _text))


def _rounding(text: str, e: Emitter, x: Value) -> Value:
    return pointwise(e, text if x.dtype in FLOATS else "x", x)


for _name, _text in ROUNDING.items():
    emits(_name)(partial(_rounding, _text))


@emits("add.Tensor", "add.Scalar")
def add(e: Emitter, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    return pointwise(e, "x+y", x, y) if alpha == 1 else pointwise(e, "x+y*z", x, y, alpha)


@emits("sub.Tensor", "sub.Scalar")
def subtract(e: Emitter, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    return pointwise(e, "x-y", x, y) if alpha == 1 else pointwise(e, "x-y*z", x, y, alpha)


@emits("rsub.Tensor", "rsub.Scalar")
def subtract_from(e: Emitter, x: Operand, y: Operand, alpha: Scalar = 1) -> Value:
    return subtract(e, y, x, alpha) if alpha == 1 else pointwise(e, "y-x*z", x, y, alpha)


@emits("lerp.Scalar", "lerp.Tensor")
def interpolate(e: Emitter, x: Value, y: Value, weight: Operand) -> Value:
    """Counted from the nearer end, as PyTorch does."""
    return pointwise(e, "if_then_else(abs(z)<0.5,x+z*(y-x),y-(y-x)*(1.0-z))", x, y, weight)


@emits("addcmul")
def add_product_of_elements(e: Emitter, x: Value, y: Value, z: Value, *, value: Scalar = 1) -> Value:
    return pointwise(e, "x+y*z" if value == 1 else f"x+{_factor(value)}*y*z", x, y, z)


@emits("addcdiv")
def add_quotient_of_elements(e: Emitter, x: Value, y: Value, z: Value, *, value: Scalar = 1) -> Value:
    return pointwise(e, "x+y/z" if value == 1 else f"x+{_factor(value)}*(y/z)", x, y, z)


def _factor(number: Scalar) -> str:
    return f"(-{-number!r})" if number < 0 else repr(number)


@emits("sign")
def sign(e: Emitter, x: Value) -> Value:
    one, zero = ("1.0", "0.0") if x.dtype in FLOATS else ("1", "0")
    return pointwise(e, f"if_then_else(x>{zero},{one},if_then_else(x<{zero},-{one},{zero}))", x)


@emits("clamp", "clamp.Tensor")
def clamp(e: Emitter, x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    if min is None or max is None:
        bound = max if min is None else min
        assert bound is not None
        return pointwise(e, "min(x,y)" if min is None else "max(x,y)", x, bound)
    return pointwise(e, "min(max(x,y),z)", x, min, max)


@emits("clamp_min", "clamp_min.Tensor")
def clamp_min(e: Emitter, x: Value, min: Operand) -> Value:
    return pointwise(e, "max(x,y)", x, min)


@emits("clamp_max", "clamp_max.Tensor")
def clamp_max(e: Emitter, x: Value, max: Operand) -> Value:
    return pointwise(e, "min(x,y)", x, max)


@emits("_to_copy", "to.dtype", "to.dtype_layout", "to.device", "type_as")
def to_copy(e: Emitter, x: Value, *arguments: Any, dtype: Any = None, copy: bool = False) -> Value:
    if e.dtype() == x.dtype:
        return x
    if x.constant is not None:
        return converted(x, e.dtype())
    return e.copied(x, e.result())
