"""The interpreter's arithmetic: types, rounding, functions, on cases computed by hand."""

import math
import warnings

import numpy as np
import pytest

from tests.leir.running import BOTH, F32, run


def value_of(expression: str, dtype: str = "f64", scalar: bool = False, **inputs: object) -> float | int | bool:
    """The value of an expression of rank-0 inputs, whose dtypes stand before their names: i8_X=1."""
    names = {name.rsplit("_", 1)[1]: (name.rsplit("_", 1)[0], value) for name, value in inputs.items()}
    declared = ",".join(f"{name}^{{{kind}}}" for name, (kind, _) in names.items()) or "Q"
    given = {name: value for name, (_, value) in names.items()} or {"Q": 0}
    result = run(f"in {declared};out C^{{{dtype}}};L^2_i[C={expression};]", scalar, **given)
    return result.item()


ARITHMETIC = [
    # integers floor, and stay integers under + - * // % abs max min
    ("X//Y", "i64", {"i32_X": -7, "i32_Y": 2}, -4),
    ("X%Y", "i64", {"i32_X": -7, "i32_Y": 2}, 1),
    ("X//Y", "i64", {"i32_X": 7, "i64_Y": -2}, -4),
    ("X%Y", "i64", {"i32_X": 7, "i32_Y": -2}, -1),
    ("X*1000000007", "i64", {"i64_X": 1000000007}, 1000000014000000049),
    ("abs(X)", "i64", {"i8_X": -7}, 7),
    ("max(X,Y)", "i64", {"i8_X": -7, "i32_Y": 300}, 300),
    ("i*1", "i64", {"i8_X": 0}, 1),
    # `/` and functions compute in f32 on integers, in f64 if an operand is
    ("X/Y", "f64", {"i32_X": 1, "i32_Y": 3}, float(F32(1) / F32(3))),
    ("X/Y", "f64", {"i32_X": 1, "f64_Y": 3.0}, 1 / 3),
    ("sqrt(X)", "f64", {"i32_X": 2}, float(np.sqrt(F32(2)))),
    ("X/3", "f64", {"i64_X": 1}, float(F32(1) / F32(3))),
    ("floor(X/2)", "f64", {"i32_X": -3}, -2.0),
    ("X+0.1", "f64", {"i32_X": 1}, float(F32(1) + F32(0.1))),
    # promotion: bool < i8 < i32 < i64 < f16, bf16 < f32 < f64
    ("X+Y", "f64", {"f32_X": 1.0, "f64_Y": 1e-12}, 1.0 + 1e-12),
    ("X+Y", "f64", {"f32_X": 1.0, "i64_Y": 2**24 + 1}, float(F32(1) + F32(2**24 + 1))),
    ("X*Y", "f64", {"f16_X": 300.0, "f16_Y": 300.0}, 90000.0),  # f16 computes in f32
    ("X*Y", "f64", {"f16_X": 300.0, "bf16_Y": 300.0}, 90000.0),
    ("X+Y", "i64", {"bool_X": True, "bool_Y": True}, 2),  # arithmetic on bool is i32
    ("-X", "i64", {"bool_X": True}, -1),
    ("X*Y", "f64", {"bool_X": True, "f32_Y": 2.5}, 2.5),
    ("X+X", "bool", {"bool_X": True}, True),
    # literals are weak: converted once, to the type of the other operand
    ("X*0.1", "f64", {"f32_X": 3.0}, float(F32(3) * F32(0.1))),
    ("X*0.1", "f64", {"f64_X": 3.0}, 3.0 * 0.1),
    ("X*(0.1+0.2)", "f64", {"f32_X": 1.0}, float(F32(0.1 + 0.2))),
    ("X+1/3", "f64", {"f64_X": 0.0}, 1 / 3),
    ("X+7//2", "i64", {"i32_X": 0}, 3),
    ("X+(-7)//2", "i64", {"i32_X": 0}, -4),
    ("X*exp(1)", "f64", {"f64_X": 1.0}, math.e),
    ("0.1+0.2", "f64", {}, 0.1 + 0.2),
    ("max(1,2)/4", "f64", {}, 0.5),
    ("X==16777217", "bool", {"f32_X": 16777216.0}, True),
    ("X==16777217", "bool", {"i64_X": 16777216}, False),
    ("if_then_else(1<2,0.1,0.2)*X", "f64", {"f32_X": 1.0}, float(F32(0.1))),
    ("if_then_else(i<9,0.1,0.2)*X", "f64", {"f32_X": 1.0}, 0.1),  # not of literals only: f64
    ("if_then_else(i<9,0,1)+X", "i64", {"i32_X": 2**31 - 1}, 2**31 - 1),
    ("if_then_else(i<9,1,0)+X", "i64", {"i32_X": 2**31 - 1}, 2**31),  # i64
    ("((1<2)+0.5)*X", "f64", {"f64_X": 0.1}, 0.1 * 1.5),
    ("-(1<2)+X", "i64", {"i8_X": 0}, -1),
    ("!(1<2)||X", "bool", {"bool_X": False}, False),
    ("if_then_else(i<9,0.1,0.2)*X", "f64", {"f64_X": 1.0}, 0.1),
    ("if_then_else(i<9,1,0.5)/4", "f64", {}, 0.25),
    ("if_then_else(i<9,1,2)/3", "f64", {}, float(F32(1) / F32(3))),
    ("cast(f32,0.1)*X", "f64", {"f64_X": 1.0}, float(F32(0.1))),
    # comparisons, truth
    ("X<Y", "bool", {"i32_X": -1, "f32_Y": 0.5}, True),
    ("!(X==Y)", "bool", {"bool_X": True, "bool_Y": False}, True),
    ("X==2", "bool", {"bool_X": True}, False),
    ("1<2", "bool", {}, True),
    ("X&&!Y||X&&Y", "bool", {"bool_X": True, "bool_Y": True}, True),
    ("X", "bool", {"f32_X": 0.5}, True),
    ("X", "bool", {"f64_X": -0.0}, False),
    # stores and casts
    ("X", "i32", {"f32_X": -2.7}, -2),
    ("X", "i8", {"f64_X": 100.9}, 100),
    ("X", "f32", {"f64_X": 1 + 2**-24}, 1.0),
    ("X", "f32", {"f64_X": 1 + 3 * 2**-24}, 1 + 2**-22),
    ("X", "f32", {"f64_X": 1e39}, math.inf),
    ("X", "f16", {"f32_X": 65520.0}, math.inf),
    ("X", "f16", {"f32_X": 65519.0}, 65504.0),
    ("X", "f16", {"f32_X": 1 + 2**-11}, 1.0),
    ("X", "f16", {"f64_X": 1 + 2**-11 + 2**-40}, 1 + 2**-10),  # one rounding, from f64
    ("X", "bf16", {"f32_X": 1 + 2**-8}, 1.0),
    ("X", "bf16", {"f32_X": 1 + 3 * 2**-8}, 1 + 2**-6),
    ("X", "bf16", {"f64_X": 1 + 2**-8 + 2**-40}, 1 + 2**-7),
    ("X", "bf16", {"f64_X": -1 - 2**-8 - 2**-40}, -1 - 2**-7),
    ("X", "bf16", {"f32_X": 3.3961775e38}, math.inf),
    ("X", "bf16", {"f32_X": 3.3895314e38}, 3.3895313892515355e38),
    ("cast(i32,X)*0.5", "f64", {"f32_X": 3.9}, 1.5),
    ("cast(f16,X)+Y", "f64", {"f32_X": 1 + 2**-11, "f32_Y": 0.0}, 1.0),
    ("cast(bool,X)*Y", "f64", {"f32_X": 0.3, "f32_Y": 2.0}, 2.0),
    ("cast(i8,X)", "i64", {"i64_X": 300}, 44),
    # functions
    ("X**2", "f64", {"f32_X": 3.0}, 9.0),
    ("X**-1", "f64", {"f64_X": 4.0}, 0.25),
    ("2**X", "f64", {"f32_X": 0.5}, float(F32(math.sqrt(2)))),
    ("-X**2", "f64", {"f32_X": 3.0}, -9.0),
    ("round(X)", "f64", {"f32_X": 2.5}, 2.0),
    ("round(X)", "f64", {"f64_X": -3.5}, -4.0),
    ("floor(X)", "f64", {"f64_X": -0.5}, -1.0),
    ("exp(X)", "f64", {"f32_X": 100.0}, math.inf),
    ("exp(X)", "f64", {"f64_X": 1000.0}, math.inf),
    ("exp(X)", "f64", {"f64_X": -math.inf}, 0.0),
    ("log(X)", "f64", {"f64_X": 0.0}, -math.inf),
    ("log1p(X)", "f64", {"f64_X": -1.0}, -math.inf),
    ("X/Y", "f64", {"f64_X": 1.0, "f64_Y": 0.0}, math.inf),
    ("X/Y", "f64", {"f32_X": -1.0, "f32_Y": 0.0}, -math.inf),
    ("X**Y", "f64", {"f64_X": 0.0, "f64_Y": -1.0}, math.inf),
    ("X**Y", "f64", {"f64_X": -10.0, "f64_Y": 309.0}, -math.inf),
    ("-inf", "f64", {}, -math.inf),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("expression", "dtype", "inputs", "expected"), ARITHMETIC, ids=[f"{c[0]}:{c[1]}:{c[2]}" for c in ARITHMETIC]
)
def test_arithmetic(expression: str, dtype: str, inputs: dict[str, object], expected: object, scalar: bool) -> None:
    assert value_of(expression, dtype, scalar, **inputs) == expected


@pytest.mark.parametrize(
    ("expression", "inputs"),
    [("log(X)", {"f64_X": -1.0}), ("sqrt(X)", {"f32_X": -1.0}), ("sin(X)", {"f64_X": math.inf}),
     ("X**0.5", {"f64_X": -1.0}), ("X-X", {"f32_X": math.inf}), ("X/X", {"f64_X": 0.0})],
)  # fmt: skip
def test_not_a_number(expression: str, inputs: dict[str, object]) -> None:
    assert math.isnan(value_of(expression, **inputs))


def test_each_operation_is_rounded_to_its_type() -> None:
    x, y, z = F32(1.1), F32(3.3), F32(7.7e-9)
    assert value_of("X*Y+Z", f32_X=x, f32_Y=y, f32_Z=z) == float(F32(F32(x * y) + z))  # no fused multiply-add
    assert value_of("(X+Z)-X", f32_X=F32(1e8), f32_Z=F32(1)) == 0.0


@BOTH
def test_f16_rounds_at_each_store_of_an_accumulation(scalar: bool) -> None:
    text = "in A^{f16}_8;out C^{f16};L^8_i[C+=A_i;]"
    expected = np.float16(0)
    values = np.array([2048, 1, 1, 1, 0.5, 3, 1, 1], np.float16)
    for value in values:
        expected = np.float16(F32(expected) + F32(value))
    assert run(text, scalar, A=values) == expected
    assert run(text, scalar, A=values).dtype == np.float16


def test_functions_are_accurate() -> None:
    points = np.concatenate([np.linspace(-20, 20, 4001), np.exp2(np.linspace(-60, 6, 500))])
    for name in ("exp", "expm1", "log", "log1p", "sqrt", "erf", "tanh", "sin", "cos"):
        values = np.abs(points) if name in ("log", "log1p", "sqrt") else points
        values = values[values != 0] if name == "log" else values
        size = len(values)
        for dtype, type_, ulps in (("f32", F32, 1.0), ("f64", np.float64, 2.0)):
            given = values.astype(type_)
            out = run(
                f"in A^{{{dtype}}}_{{{size}}};out C^{{{dtype}}}_{{{size}}};L^{{{size}}}_i[C_i={name}(A_i);]", A=given
            )
            exact = np.array([getattr(math, name)(float(x)) for x in given])
            assert np.all(np.abs(out - exact) <= ulps * np.spacing(np.abs(exact).astype(type_))), (name, dtype)


def test_no_warnings_leak() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("in A_3;out C_3;L^3_i[C_i=exp(A_i*1e30)/0.0-log(0.0*A_i);]", A=[1e20, -1, 0])
        run("in A_3;out C^{i32}_3;L^3_i[C_i=A_i*1e30;]", A=[1e20, -1, 0])
