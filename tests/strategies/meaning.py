"""Whether a step keeps what a program means: both programs run by the interpreter on the same inputs."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leir.check import check
from leir.edit import storage, walk_places
from leir.interp import interpret
from leir.printer import to_text
from leir.syntax import Binary, Call, Program, Real
from strategies.base import Applied, Strategy
from strategies.catalog import parse_step, print_step
from tests.programs import InputKind, random_inputs

# Where a step is not bit-exact: the error of an output against its element and its largest element. Programs are small,
# with sums of at most a few hundred terms; a wrong term shows in the first digits.
TOLERANCES = {"f16": 2e-2, "bf16": 1e-1, "f32": 2e-5, "f64": 1e-12}


def why_not_same(program: Program, step: Strategy, applied: Applied, seed: int | str) -> str:
    """What is wrong with an applied step, in words; empty if it keeps the meaning and replays from its JSON."""
    shown = f"{print_step(step)} on\n{to_text(program)}gives\n{to_text(applied.program)}"
    again = parse_step(print_step(step)).apply(program)
    if to_text(again.program) != to_text(applied.program) or again.bit_exact != applied.bit_exact:
        return f"replay from JSON differs: {shown}"
    difference = why_not_same_values(program, applied.program, applied.bit_exact, seed)
    return difference and f"{difference}: {shown}"


def why_not_same_values(program: Program, after: Program, bit_exact: bool, seed: int | str) -> str:
    """What is wrong with a program that a step led to, in words; empty if it computes what the first one does."""
    if diagnostics := check(after):
        return f"ill-formed, {diagnostics[0].message}"
    kinds: tuple[InputKind, ...] = ("integers", "normal")
    for kind in kinds:
        inputs, expected = _outcome(program, seed, kind)
        found = interpret(after, inputs)
        exact = bit_exact or (kind == "integers" and keeps_integers_exact(program))
        for declaration in program.outputs:
            name = declaration.tensor
            tolerance = 0.0 if exact else TOLERANCES.get(declaration.dtype, 0.0)
            if difference := _difference(expected[name], found[name], tolerance):
                return f"{name} on {kind} inputs, {difference}"
    return ""


@lru_cache(maxsize=512)
def _outcome(
    program: Program, seed: int | str, kind: InputKind
) -> tuple[dict[str, NDArray[np.generic]], dict[str, NDArray[np.generic]]]:
    """Inputs of a program, and what it computes from them: many steps are tried on one program."""
    inputs = random_inputs(program, seed, kind)
    return inputs, interpret(program, inputs)


@lru_cache(maxsize=512)
def keeps_integers_exact(program: Program) -> bool:
    """Whether sums and products of small integers stay exact: nothing divides, rounds, or is stored in 16 bits."""
    for _, e in walk_places(program):
        match e:
            case Call(function) if function not in ("max", "min", "abs", "floor", "round"):
                return False
            case Binary("/" | "**") | Real(0.1):
                return False
            case _:
                pass
    return all(dtype not in ("f16", "bf16") for dtype, _ in storage(program).values())


def _difference(expected: NDArray[np.generic], found: NDArray[np.generic], tolerance: float) -> str:
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"{expected.dtype}{expected.shape} became {found.dtype}{found.shape}"
    if np.array_equal(expected, found, equal_nan=expected.dtype.kind == "f"):  # zeros of either sign are equal
        return ""
    scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0)) if tolerance else 0.0
    if tolerance and np.allclose(expected, found, rtol=tolerance, atol=tolerance * scale):
        return ""
    return f"{expected} became {found}"
