"""Comparing an interpreter's outputs with a compiled program's, by the language's fourth law."""

import numpy as np
from numpy.typing import NDArray

from leir.edit import dtypes, walk_places
from leir.syntax import Binary, Call, Cast, Program

Outputs = dict[str, NDArray[np.generic]]

TRANSCENDENTAL = ("exp", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos")
# Of the largest element, by the coarsest type that a value passes through: far above the law's bound, far below what a
# wrong index, order of evaluation or rounding does to random inputs.
_RELATIVE = {"f16": 2e-2, "bf16": 2e-2, "f32": 1e-3, "f64": 1e-9}


def calls_functions(program: Program) -> bool:
    """Whether a program calls a function that is not computed exactly."""
    return any(
        (isinstance(e, Call) and e.function in TRANSCENDENTAL) or (isinstance(e, Binary) and e.op == "**")
        for _, e in walk_places(program)
    )


def _float_types(program: Program) -> list[str]:
    """The float types of tensors and casts; functions of integers are computed in f32, functions of nothing in f64."""
    casts = [e.dtype for _, e in walk_places(program) if isinstance(e, Cast)]
    types = [*dtypes(program).values(), *casts]
    return [dtype if dtype in _RELATIVE else "f32" for dtype in types]


def differences(program: Program, expected: Outputs, found: Outputs) -> list[str]:
    """What disagrees, output by output; nothing where the two executions agree."""
    exact = not calls_functions(program)
    relative = max(_RELATIVE[dtype] for dtype in _float_types(program))
    result: list[str] = []
    for name, want in expected.items():
        got = found[name]
        if got.dtype != want.dtype or got.shape != want.shape:
            result.append(f"{name}: {got.dtype}{got.shape}, not {want.dtype}{want.shape}")
        elif exact or want.dtype.kind != "f":
            if not np.array_equal(got, want, equal_nan=want.dtype.kind == "f"):
                where = np.argwhere(got != want)[0].tolist()
                result.append(f"{name}{where}: {got[tuple(where)]!r}, not {want[tuple(where)]!r}")
        else:
            wide, exact_wide = got.astype(np.float64), want.astype(np.float64)
            finite = np.isfinite(exact_wide)
            scale = float(np.max(np.abs(exact_wide[finite]), initial=0.0))
            limit = relative * scale
            wrong = (finite != np.isfinite(wide)) | (np.abs(np.where(finite, wide - exact_wide, 0.0)) > limit)
            if wrong.any():
                where = np.argwhere(wrong)[0].tolist()
                result.append(f"{name}{where}: {got[tuple(where)]!r}, not {want[tuple(where)]!r}, within {limit:.2g}")
    return result
