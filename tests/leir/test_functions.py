"""Every function of the language on `llvm`: within 4 ULP of exact, over the whole range and at its edges."""

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from leir.lowering import execute
from leir.parser import parse

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sqrt", "erf", "tanh", "sin", "cos")
Array = np.ndarray[Any, Any]


def samples(dtype: type[np.floating[Any]], count: int) -> Array:
    """Every magnitude from denormal to the largest, of both signs, and a dense part around 1; with the edges."""
    draw = np.random.default_rng(20)
    info = np.finfo(dtype)
    exponents = draw.uniform(math.log2(info.smallest_subnormal), info.maxexp - 1e-3, count // 2)
    wide = np.exp2(exponents) * draw.choice([-1.0, 1.0], count // 2)
    dense = draw.normal(size=count - count // 2) * 4
    edges = [0.0, -0.0, 1.0, -1.0, info.tiny, -info.tiny, info.smallest_subnormal, info.max, info.min, info.eps]
    edges += [88.0, 89.0, -87.0, -104.0, 709.0, 710.0, -745.0, 0.5, -0.5, math.pi, math.pi / 2, 1e5]
    return np.concatenate([wide, dense, edges]).astype(dtype)


def ulps(found: Array, exact: list[mpmath.mpf]) -> float:
    """The largest error in units of the last place; infinite where one of two is not finite and the other differs."""
    info = np.finfo(found.dtype)
    worst = 0.0
    with np.errstate(over="ignore", under="ignore"):
        nearest = np.array([float(wanted) for wanted in exact]).astype(found.dtype)
    for got, wanted, rounded in zip(found.tolist(), exact, nearest.tolist(), strict=True):
        if math.isnan(got) or math.isnan(rounded) or math.isinf(got) or math.isinf(rounded):
            same = got == rounded or (math.isnan(got) and math.isnan(rounded))
            worst = max(worst, 0.0 if same else math.inf)
            continue
        place = max(float(np.spacing(np.abs(found.dtype.type(rounded)))), float(info.smallest_subnormal))
        worst = max(worst, float(abs(mpmath.mpf(got) - wanted) / place))
    return worst


def exactly(function: Callable[[mpmath.mpf], mpmath.mpf], values: Array) -> list[mpmath.mpf]:
    with mpmath.workprec(200):
        results = [function(mpmath.mpf(float(value))) for value in values]
    return [mpmath.nan if isinstance(result, mpmath.mpc) else result for result in results]


EXACT: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "exp": mpmath.exp, "expm1": lambda x: mpmath.exp(x) - 1 if abs(x) > 1e-3 else mpmath.expm1(x),
    "log": lambda x: -mpmath.inf if x == 0 else mpmath.log(x) if x > 0 else mpmath.nan,
    "log1p": lambda x: -mpmath.inf if x == -1 else mpmath.nan if x < -1 else mpmath.log1p(x),
    "sqrt": lambda x: mpmath.sqrt(x) if x >= 0 else mpmath.nan, "erf": mpmath.erf, "tanh": mpmath.tanh,
    "sin": mpmath.sin, "cos": mpmath.cos,
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "array_type", "count"), [("f32", np.float32, 2000), ("f64", np.float64, 400)])
def test_function_is_accurate(function: str, dtype: str, array_type: type[np.floating[Any]], count: int) -> None:
    values = samples(array_type, count)
    if function in ("sin", "cos"):
        values = values[np.abs(values) < 1e15]
    elif function in ("exp", "expm1", "erf", "tanh"):
        values = values[np.abs(values) < 1e4]  # beyond it all are constant, infinite or zero, and slow to do exactly
    size = len(values)
    program = parse(f"in A^{{{dtype}}}_{{{size}}};out C^{{{dtype}}}_{{{size}}};L^{{{size}}}_i[C_i={function}(A_i);]")
    found = execute(program, {"A": values}, "llvm")["C"]
    assert ulps(found, exactly(EXACT[function], values)) <= 4


@pytest.mark.parametrize("function", FUNCTIONS)
def test_function_at_infinity_and_nan(function: str) -> None:
    values = np.array([np.inf, -np.inf, np.nan], np.float32)
    program = parse(f"in A_3;out C_3;L^3_i[C_i={function}(A_i);]")
    reference = math.erf if function == "erf" else getattr(np, function)
    with np.errstate(all="ignore"):
        wanted = [float(reference(float(value))) for value in values]
    np.testing.assert_array_equal(execute(program, {"A": values}, "llvm")["C"], np.array(wanted, np.float32))


@pytest.mark.parametrize(("dtype", "array_type"), [("f32", np.float32), ("f64", np.float64)])
def test_powers_are_accurate(dtype: str, array_type: type[np.floating[Any]]) -> None:
    draw = np.random.default_rng(3)
    bases = np.concatenate([np.exp2(draw.uniform(-30, 30, 300)), [0.0, 1.0, 2.0, 10.0, 1e-30, 0.999]]).astype(
        array_type
    )
    exponents = np.concatenate([draw.normal(size=300) * 4, [2.0, -3.5, 0.5, 3.0, 1.25, 1000.0]]).astype(array_type)
    size = len(bases)
    shape = f"^{{{dtype}}}_{{{size}}}"
    program = parse(f"in A{shape},D{shape};out C{shape};L^{{{size}}}_i[C_i=A_i**D_i;]")
    found = execute(program, {"A": bases, "D": exponents}, "llvm")["C"]
    with mpmath.workprec(200):
        exact = [mpmath.mpf(float(a)) ** mpmath.mpf(float(b)) for a, b in zip(bases, exponents, strict=True)]
    assert ulps(found, exact) <= 4
