"""bf16 on the CPU, in integer arithmetic: a bf16 number is the upper half of an f32.

TVM's own rewriting of bf16 drops the rounding of a value that is cast to bf16 and back.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import numpy as np
from tvm import sym, tirx
from tvm.ir import Expr as TirExpr

_NAN = 0x7FC0


def bits(value: float) -> tirx.IntImm:
    """A bf16 number as a constant."""
    pattern = int(np.float32(value).view(np.uint32)) >> 16
    return tirx.IntImm("uint16", _NAN if np.isnan(value) else pattern)


def to_f32(loaded: TirExpr) -> TirExpr:
    return tirx.reinterpret("float32", tirx.Cast("uint32", loaded) << _u32(16))


def from_float(value: TirExpr) -> TirExpr:
    """An f32 or f64 value to the nearest bf16, ties to even, as its bits."""
    constant = sym.Analyzer().simplify(value)
    if isinstance(constant, tirx.FloatImm):  # TVM visits a Let twice, and objects to a value that folded in between
        return _nearest_constant(float(constant.value))
    if str(value.ty.dtype) == "float64":
        wide = tirx.Var("wide", "float64")
        return tirx.Let(wide, value, _nearest(_to_odd(wide)))
    return _nearest(value)


def _nearest(value: TirExpr) -> TirExpr:
    x, u = tirx.Var("x", "float32"), tirx.Var("u", "uint32")
    rounded = tirx.Cast("uint16", (u + ((u >> _u32(16)) & _u32(1)) + _u32(0x7FFF)) >> _u32(16))
    number = tirx.Select(tirx.EQ(x, x), rounded, tirx.IntImm("uint16", _NAN))
    return tirx.Let(x, value, tirx.Let(u, tirx.reinterpret("uint32", x), number))


def _to_odd(wide: TirExpr) -> TirExpr:
    """f64 to f32 such that rounding once more to bf16 gives what one rounding would: inexact results become odd.

    Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008).
    """
    near, u = tirx.Var("near", "float32"), tirx.Var("near_bits", "uint32")
    back = tirx.Cast("float64", near)
    number = tirx.EQ(wide, wide)
    settled = tirx.Or(tirx.EQ(back, wide), tirx.Or(tirx.Not(number), tirx.EQ(u & _u32(1), _u32(1))))
    away = tirx.LT(tirx.abs(wide), tirx.abs(back))  # the magnitude of `near` is too large
    odd = tirx.Select(settled, u, tirx.Select(away, u - _u32(1), u + _u32(1)))
    body = tirx.Let(u, tirx.reinterpret("uint32", near), tirx.reinterpret("float32", odd))
    return tirx.Let(near, tirx.Cast("float32", wide), body)


def _nearest_constant(value: float) -> tirx.IntImm:
    with np.errstate(over="ignore"):
        near = np.float32(value)
    if np.isnan(near):
        return tirx.IntImm("uint16", _NAN)
    pattern = int(near.view(np.uint32))
    if float(near) != value and pattern & 1 == 0:
        pattern += -1 if abs(float(near)) > abs(value) else 1
    return tirx.IntImm("uint16", ((pattern + ((pattern >> 16) & 1) + 0x7FFF) >> 16) & 0xFFFF)


def _u32(value: int) -> tirx.IntImm:
    return tirx.IntImm("uint32", value)
