"""Whether a translation computes what its module computes, and whether the module is worth translating.

The program runs by the interpreter twice: in its own dtype, and with every float in f64 against the module in float64,
where a wrong translation stands out by far more than rounding. How much rounding an output may show is measured: by how
far the module in float32 is from itself in float64.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch

from leir.edit import map_statement, with_dtypes
from leir.interp import InterpreterError, interpret
from leir.syntax import DType, Expr, Real
from stepTP.frontend.reference import degenerate, distance, exact_outputs, in_dtype, magnitude, outputs_of, redraws
from stepTP.frontend.translation import Translation, bind

SLACK = 256  # how many times the module's own rounding error a translation may show: sums in another order
EPSILON: dict[DType, float] = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


@dataclass(frozen=True, slots=True)
class TranslationVerdict:
    """`max_abs_error`: the largest of any output, of the program in f64 against the module in float64."""

    status: Literal["verified", "mismatch", "refused"]
    max_abs_error: float | None
    message: str = ""


def verify_translation(
    translation: Translation, module: torch.nn.Module, inputs: tuple[Any, ...]
) -> TranslationVerdict:
    """The verdict on these inputs. A module that is degenerate is refused first."""
    module64, inputs64 = in_dtype(torch.float64, module, inputs)
    if reason := degenerate(module64, inputs64):
        return TranslationVerdict("refused", None, reason)
    exact = exact_outputs(module64, inputs64)
    rounding = _rounding(module, module64, inputs64)
    try:
        own = _error(translation, inputs, exact, outputs_of(module, inputs), rounding)
        double = _error(widened(translation), inputs64, exact, exact, rounding)
    except InterpreterError as error:
        return TranslationVerdict("mismatch", None, f"the program has no meaning on the reference inputs: {error}")
    for kind, error in (("float64", double), ("its own dtype", own)):
        if error.excess > 1:
            message = f"{translation.names[error.output]} ({error.output}) in {kind} is off by {error.largest:.3g}"
            message = f"{message}, {error.excess:.3g} times the tolerance"
            return TranslationVerdict("mismatch", double.largest, message)
    return TranslationVerdict("verified", double.largest)


def _rounding(module: torch.nn.Module, module64: torch.nn.Module, inputs64: tuple[Any, ...]) -> list[float]:
    """For each output, the largest error of the module in float32 over a few draws: one may happen to be exact."""
    worst: list[float] = []
    for drawn in (inputs64, *redraws(inputs64)):
        single = outputs_of(*in_dtype(torch.float32, module, drawn))
        errors = [distance(a, b) for a, b in zip(single, exact_outputs(module64, drawn), strict=True)]
        worst = [max(pair) for pair in zip(worst or errors, errors, strict=True)]
    return worst


def widened(translation: Translation) -> Translation:
    """The translation with every float dtype of program and constants made f64.

    A literal that is the epsilon of f32 or f16 comes from a module that asks for its dtype's, and becomes that of f64.
    """
    constants = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in translation.constants.items()
    }
    program = with_dtypes(translation.program, {"f16": "f64", "bf16": "f64", "f32": "f64"})
    body = tuple(map_statement(statement, _with_epsilon_of_f64) for statement in program.body)
    return replace(translation, program=replace(program, body=body), constants=constants)


def _with_epsilon_of_f64(expression: Expr) -> Expr:
    if isinstance(expression, Real) and expression.value in EPSILON.values():
        return Real(EPSILON["f64"])
    return expression


@dataclass(frozen=True, slots=True)
class _Error:
    """The worst output by how many times its tolerance it is off, and the largest error of any output."""

    output: str
    excess: float
    largest: float


def _error(
    translation: Translation,
    inputs: tuple[Any, ...],
    exact: Sequence[np.ndarray],
    own: Sequence[np.ndarray],
    rounding: Sequence[float],
) -> _Error:
    """The program's error on these inputs.

    Its outputs may be near the module in float64 (`exact`), or in the dtype at hand (`own`): the two differ where a
    comparison goes the other way. Integers and booleans must be equal to either. `rounding` is the error to expect of
    f32; it is scaled to the output's dtype.
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
        tolerance = SLACK * unit * (lost / EPSILON["f32"] + magnitude(reference))
        excess = error / tolerance if tolerance else np.inf if error else 0.0
        worst = max(worst, (declaration.tensor, excess), key=lambda pair: pair[1])
        largest = max(largest, distance(array, reference))
    return _Error(*worst, largest)
