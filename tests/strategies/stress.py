"""Steps judged on inputs that suspect rounding and range: huge, zero, equal, denormal, far apart, and these mixed.

A bit-exact step must keep every bit. Any other must lie as near to the exact value as verification asks of the program
before it (`stepTP.verify.analysis`): the tolerance is derived, element by element. Where none is known, because
something may overflow in some order of the sums, what was finite must stay finite if no temporary overflowed either.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leir.analysis.access import tensors
from leir.arrays import array_type
from leir.check import check
from leir.interp import interpret
from leir.interp.arithmetic import round_to
from leir.syntax import Alloc, Declaration, Program
from stepTP.verify.analysis import analyse
from strategies.base import Applied
from tests.programs import keyed, random_inputs

KINDS = ("huge", "zeros", "equal", "denormal", "powers", "mixed")
Arrays = dict[str, NDArray[np.generic]]
_HUGE = 1e4
_LEAST = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}
_EXPONENTS = {"f16": -24, "bf16": -126, "f32": -126, "f64": -126}  # of powers of two, from there to 2**14
_FLOOR = 2.0**-49  # of the magnitude: float64's own roundings


def stress_inputs(program: Program, seed: int | str, kind: str) -> Arrays:
    """Arrays whose floats are as the kind says; integers and flags as `random_inputs` draws them."""
    result = dict(random_inputs(program, seed, "normal"))
    for declaration in program.inputs:
        if declaration.dtype not in _LEAST:
            continue
        draw = np.random.default_rng(keyed("stress", seed, kind, declaration.tensor).getrandbits(64))
        shape = declaration.shape
        kinds = np.full(shape, KINDS.index(kind)) if kind != "mixed" else draw.integers(0, len(KINDS) - 1, shape)
        signs = draw.choice([-1.0, 1.0], shape)
        choices = (
            draw.standard_normal(shape) * _HUGE,
            np.zeros(shape) * signs,
            np.full(shape, draw.standard_normal()),
            signs * draw.integers(0, 9, shape) * _LEAST[declaration.dtype],
            signs * np.exp2(draw.integers(_EXPONENTS[declaration.dtype], 14, shape)),
        )
        values = np.choose(kinds, choices)
        if declaration.dtype == "bf16":
            result[declaration.tensor] = np.asarray(round_to("bf16", values), np.float32)
        else:
            result[declaration.tensor] = values.astype(array_type(declaration.dtype))
    return result


def why_wrong_under_stress(program: Program, applied: Applied, seed: int | str) -> str:
    """What is wrong with an applied step on some kind of inputs, in words; empty if nothing is."""
    for kind in KINDS:
        inputs, before, tolerances, calm = _outcome(program, seed, kind)
        with np.errstate(all="ignore"):
            after = interpret(applied.program, inputs)
        for name, expected in before.items():
            found, tolerance = after[name], tolerances[name]
            problem = _difference(expected, found, tolerance, applied.bit_exact, calm)
            if problem:
                return f"{name} on {kind} inputs, {problem}"
    return ""


@lru_cache(maxsize=256)
def _outcome(
    program: Program, seed: int | str, kind: str
) -> tuple[Arrays, Arrays, dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]], bool]:
    """Inputs, what the program computes from them, for each output the exact values with their tolerances, and whether
    every tensor on the way is finite."""
    inputs = stress_inputs(program, seed, kind)
    with np.errstate(all="ignore"):
        outputs = interpret(program, inputs)
    wide = {n: a.astype(np.float64) if a.dtype.kind == "f" else a for n, a in inputs.items()}
    exact = analyse(program, wide)
    tolerances = {
        name: (np.asarray(b.value, np.float64), np.asarray(b.error + _FLOOR * b.magnitude, np.float64))
        for name, b in exact.items()
    }
    return inputs, outputs, tolerances, _stays_finite(program, inputs)


def _stays_finite(program: Program, inputs: Arrays) -> bool:
    """Whether all that a program stores is finite, as far as every temporary can be made an output."""
    temporaries = [tensor for tensor in tensors(program).values() if tensor.role == "temporary"]
    if any(tensor.scope != "g" for tensor in temporaries):
        return False
    shown = tuple(Declaration(tensor.name, tensor.dtype, tuple(tensor.shape)) for tensor in temporaries)
    body = tuple(statement for statement in program.body if not isinstance(statement, Alloc))
    whole = Program(program.inputs, (*program.outputs, *shown), body)
    if check(whole):
        return False
    with np.errstate(all="ignore"):
        return all(bool(np.all(np.isfinite(a.astype(np.float64)))) for a in interpret(whole, inputs).values())


def _difference(
    expected: NDArray[np.generic],
    found: NDArray[np.generic],
    tolerance: tuple[NDArray[np.float64], NDArray[np.float64]],
    bit_exact: bool,
    calm: bool,
) -> str:
    if np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f"):
        return ""
    if bit_exact or expected.dtype.kind != "f":
        return f"{expected} became {found}"
    value, allowed = (part.reshape(expected.shape) for part in tolerance)
    with np.errstate(all="ignore"):
        off = np.abs(found.astype(np.float64) - value)
        wrong = np.isfinite(allowed) & np.isfinite(value) & ~(off <= allowed)
        lost = np.isfinite(expected) & ~np.isfinite(found)
    if calm and np.any(lost):
        return f"{expected[lost][:3]} became {found[lost][:3]}"
    if np.any(wrong):
        return f"{found[wrong][:3]} is off by {off[wrong][:3]}, and {allowed[wrong][:3]} are allowed"
    return ""
