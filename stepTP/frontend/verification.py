"""Whether a translation computes what its module computes, and whether the module is worth translating.

The program runs by the interpreter twice: in its own dtype, and with every float in f64 against the module in float64,
where a wrong translation stands out by far more than rounding. How much rounding an output may show is measured: by how
far the module in float32 is from itself in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Literal

import numpy as np
import torch

from leir.edit import equation_paths, loops_around, map_statement, statement_at, variables_of, with_dtypes
from leir.interp import InterpreterError, interpret
from leir.syntax import DType, Equation, Expr, Program, Real
from stepTP.frontend.reference import (
    Jittered,
    degenerate,
    distance,
    exact_outputs,
    floats_in,
    in_dtype,
    magnitude,
    outputs_of,
    redraws,
)
from stepTP.frontend.translation import Inputs, Translation, bind

DRAWS = 3  # on which a translation is checked
_STEADY = 16  # how many times what one rounding an op does is still rounding
_ROUNDINGS = 8  # draws of that: a single one may happen to move little
SLACK = 256  # how many times the module's own rounding error a translation may show: sums in another order
EPSILON: dict[DType, float] = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}
LARGEST = tuple(torch.finfo(dtype).max for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64))


@dataclass(frozen=True, slots=True)
class TranslationVerdict:
    """`max_abs_error`: the largest of any output and draw, of the program in f64 against the module in float64.

    `cause`: why a module is refused, in the words of `reference`, or "mismatch".
    """

    status: Literal["verified", "mismatch", "refused"]
    max_abs_error: float | None
    message: str = ""
    cause: str = ""


def verify_translation(translation: Translation, module: torch.nn.Module, inputs: Inputs) -> TranslationVerdict:
    """The verdict on these inputs and a few draws like them. A module that is degenerate is refused first."""
    module64, inputs64 = in_dtype(torch.float64, module, inputs)
    if found := degenerate(module64, inputs64):
        return TranslationVerdict("refused", None, found.reason, found.cause)
    rounding = _rounding(module, module64, inputs64)
    wide = widened(translation)
    largest = 0.0
    for drawn in (inputs, *islice(redraws(inputs), DRAWS - 1)):
        drawn64 = floats_in(torch.float64, drawn)
        exact = exact_outputs(module64, drawn64)
        try:
            own = _error(translation, drawn, exact, outputs_of(module, drawn), rounding)
            double = _error(wide, drawn64, exact, exact, rounding)
        except InterpreterError as error:
            message = f"the program has no meaning on the reference inputs: {error}"
            return TranslationVerdict("mismatch", None, message, "mismatch")
        largest = max(largest, double.largest)
        for kind, error in (("float64", double), ("its own dtype", own)):
            if error.excess > 1:
                name = translation.names[error.output]
                if kind == "float64" and (change := _unsteady(error, module64, drawn64, exact)):
                    message = f"{name} changes by {change:.3g} with the last bit of each op in float64"
                    return TranslationVerdict("refused", largest, message, "ill-conditioned")
                message = f"{name} ({error.output}) in {kind} is off by {error.largest:.3g}"
                message = f"{message}, {error.excess:.3g} times the tolerance"
                return TranslationVerdict("mismatch", largest, message, "mismatch")
    return TranslationVerdict("verified", largest)


def _unsteady(error: "_Error", module64: torch.nn.Module, inputs64: Inputs, exact: Sequence[np.ndarray]) -> float:
    """How far the module's own rounding moves its outputs, where that explains an error in float64; else 0.

    Only what is off by more than the tolerance is asked about, and is refused then: no tolerance gets wider by this.
    """
    for seed in range(_ROUNDINGS if np.isfinite(error.largest) else 0):
        jittered = outputs_of(module64, inputs64, Jittered(seed))
        change = max((distance(a, b) for a, b in zip(jittered, exact, strict=True) if a.dtype.kind == "f"), default=0.0)
        if error.largest <= _STEADY * change:
            return change
    return 0.0


def _rounding(module: torch.nn.Module, module64: torch.nn.Module, inputs64: Inputs) -> list[float]:
    """For each output, the largest error of the module in float32 over a few draws: one may happen to be exact."""
    worst: list[float] = []
    for drawn in (inputs64, *redraws(inputs64)):
        single = outputs_of(*in_dtype(torch.float32, module, drawn))
        errors = [distance(a, b) for a, b in zip(single, exact_outputs(module64, drawn), strict=True)]
        worst = [max(pair) for pair in zip(worst or errors, errors, strict=True)]
    return worst


def widened(translation: Translation) -> Translation:
    """The translation with every float dtype of program and constants made f64.

    A literal that is the epsilon or the largest number of a narrower dtype comes from a module that asks for its own
    dtype's, and becomes that of f64.
    """
    constants = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in translation.constants.items()
    }
    program = with_dtypes(translation.program, {"f16": "f64", "bf16": "f64", "f32": "f64"})
    body = tuple(map_statement(statement, _with_limits_of_f64) for statement in program.body)
    return replace(translation, program=replace(program, body=body), constants=constants)


def _with_limits_of_f64(expression: Expr) -> Expr:
    if isinstance(expression, Real) and expression.value in EPSILON.values():
        return Real(EPSILON["f64"])
    if isinstance(expression, Real) and expression.value in LARGEST:
        return Real(LARGEST[-1])
    return expression


@dataclass(frozen=True, slots=True)
class _Error:
    """The worst output by how many times its tolerance it is off, and the largest error of any output."""

    output: str
    excess: float
    largest: float


def _error(
    translation: Translation,
    inputs: Inputs,
    exact: Sequence[np.ndarray],
    own: Sequence[np.ndarray],
    rounding: Sequence[float],
) -> _Error:
    """The program's error on these inputs.

    Its outputs may be near the module in float64 (`exact`), or in the dtype at hand (`own`): the two differ where a
    comparison goes the other way. Integers and booleans must be equal to either. `rounding` is the error to expect of
    f32; it is scaled to the output's dtype. A sum of n terms one after the other may lose n units, where PyTorch, which
    adds them pairwise, loses few.
    """
    found = interpret(translation.program, bind(translation, inputs))
    worst, largest = ("", -1.0), 0.0
    for declaration, reference, same, spread in zip(translation.program.outputs, exact, own, rounding, strict=True):
        array = found[declaration.tensor]
        if array.shape != reference.shape or (array.dtype.kind == "f") != (reference.dtype.kind == "f"):
            return _Error(declaration.tensor, np.inf, np.inf)
        error = min(distance(array, reference), distance(array, same))
        unit = EPSILON.get(declaration.dtype, 0.0)  # of integers and booleans none may differ
        lost = spread if np.isfinite(spread) else 0.0  # f32 may overflow where f64 does not
        slack = max(SLACK, _longest_sum(translation.program))
        tolerance = slack * unit * (lost / EPSILON["f32"] + magnitude(reference))
        excess = error / tolerance if tolerance else np.inf if error else 0.0
        worst = max(worst, (declaration.tensor, excess), key=lambda pair: pair[1])
        largest = max(largest, distance(array, reference))
    return _Error(*worst, largest)


def _longest_sum(program: Program) -> int:
    """The most terms that one element accumulates in one nest."""
    longest = 1
    for path in equation_paths(program):
        equation = statement_at(program, path)
        assert isinstance(equation, Equation)
        if equation.op == "+=":
            kept = {name for index in equation.target.indices for name in variables_of(index)}
            longest = max(
                longest, prod(loop.extent for loop in loops_around(program, path) if loop.variable not in kept)
            )
    return longest
