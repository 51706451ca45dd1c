"""Constants as tensors store them, integer widths, and conversions that fold nothing but literals."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import math
from typing import assert_never

import numpy as np
from tvm import tirx
from tvm.ir import Expr as TirExpr

from leir.lowering.names import TIR_TYPES
from leir.syntax import DType

_INT32 = (-(2**31), 2**31 - 1)


def integer(value: int, dtype: str = "int32") -> tirx.IntImm:
    return tirx.IntImm(dtype, value)


def constant(value: int | float | bool, dtype: DType) -> TirExpr:
    """A number as a tensor of `dtype` stores it: rounded once; integers wrap where they do not fit."""
    match dtype:
        case "bool":
            return tirx.IntImm("bool", int(bool(value)))
        case "i8" | "i32" | "i64":
            bits = int(dtype[1:])
            whole = int(value) if math.isfinite(value) else 0
            return integer((whole + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1), TIR_TYPES[dtype])
        case "f16" | "bf16" | "f32" | "f64":
            return tirx.FloatImm(TIR_TYPES[dtype], _rounded(value, dtype))
        case _:
            assert_never(dtype)


def _rounded(value: int | float, dtype: DType) -> float:
    """The value in a float dtype, exactly, as a Python float."""
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)
    wide = np.asarray(value)
    with np.errstate(over="ignore"):
        match dtype:
            case "f64":
                return float(wide.astype(np.float64))
            case "f32":
                return float(wide.astype(np.float32))
            case "f16":
                return float(wide.astype(np.float16))
            case _:
                return _to_bf16(float(wide))


def _to_bf16(value: float) -> float:
    """f64 to the nearest bf16, ties to even, in one rounding."""
    if value == 0 or not math.isfinite(value):
        return value
    exponent = max(math.frexp(value)[1] - 8, -133)  # of the last place; bf16 has 8 bits and f32's exponents
    rounded = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
    return math.copysign(math.inf, value) if abs(rounded) >= 2.0**128 else rounded


def fits_int32(low: float, high: float | None = None) -> bool:
    return _INT32[0] <= low and (low if high is None else high) <= _INT32[1]


def as_type(dtype: str, value: TirExpr) -> TirExpr:
    if value.ty.dtype == dtype:
        return value
    if isinstance(value, tirx.IntImm) and dtype in ("int32", "int64"):
        return integer(int(value), dtype)
    return tirx.Cast(dtype, value)


def same_width(a: TirExpr, b: TirExpr) -> tuple[TirExpr, TirExpr]:
    """Two integers in one type, the wider of the two."""
    if a.ty.dtype == b.ty.dtype:
        return a, b
    return as_type("int64", a), as_type("int64", b)


def different(a: TirExpr, b: TirExpr) -> TirExpr:
    """`!=`, which holds of NaN: TVM's NE on llvm does not."""
    return tirx.Not(tirx.EQ(a, b)) if str(a.ty.dtype).startswith("float") else tirx.NE(a, b)


def zero(like: TirExpr) -> TirExpr:
    dtype = str(like.ty.dtype)
    return tirx.FloatImm(dtype, 0.0) if dtype.startswith("float") else integer(0, dtype)


def floored(op: str, a: TirExpr, b: TirExpr) -> TirExpr:
    """`//` or `%` of integers of one type and of any sign, by the truncating operators.

    TVM's own rewriting binds variables, and fails where it looks at one twice and knows more the second time.
    """
    dtype = str(a.ty.dtype)
    nothing, remainder = integer(0, dtype), tirx.Mod(a, b)
    if isinstance(b, tirx.IntImm):
        is_below = tirx.LT(remainder, nothing) if int(b.value) > 0 else tirx.GT(remainder, nothing)
    else:
        has_other_sign = tirx.LT(tirx.bitwise_xor(remainder, b), nothing)
        is_below = tirx.And(tirx.NE(remainder, nothing), has_other_sign)
    if op == "//":
        return tirx.Sub(tirx.Div(a, b), tirx.Cast(dtype, is_below))
    return tirx.Add(remainder, tirx.Mul(b, tirx.Cast(dtype, is_below)))


def wrapping(op: str, a: TirExpr, b: TirExpr) -> TirExpr:
    """`+` or `*` of integers of one type modulo its size: compilers may assume that signed ones do not overflow."""
    dtype = str(a.ty.dtype)
    x, y = (tirx.Cast(f"u{dtype}", operand) for operand in (a, b))
    return tirx.Cast(dtype, tirx.Add(x, y) if op == "+" else tirx.Mul(x, y))


def truncated(op: str, a: TirExpr, b: TirExpr) -> TirExpr:
    """`//` or `%` of what is at least 0 by more than 0, by operators that TVM leaves as they are.

    TVM's rewriting of subscripts turns (15 - k) // 8 into (k - 15) // -8 and rounds that to the wrong side.
    """
    divisor = int(b.value) if isinstance(b, tirx.IntImm) else 0
    if divisor and divisor & (divisor - 1) == 0:
        if op == "//":
            return tirx.shift_right(a, integer(divisor.bit_length() - 1, str(a.ty.dtype)))
        return tirx.bitwise_and(a, integer(divisor - 1, str(a.ty.dtype)))
    return tirx.Div(a, b) if op == "//" else tirx.Mod(a, b)
