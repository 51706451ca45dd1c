"""What a source's programs are verified against: input draws, reference outputs, and how far each element may be off.

The reference is the source itself in float64 (the PyTorch module, see `reference.py`). The tolerances come from the
error analysis of the source's plain program; that analysis also computes the outputs in float64, and the two must
agree: a translation that computes something else is found here, before any step is built on it. An output may be
infinite where the program writes an infinity; a draw with others, or with NaN, says nothing.

    tolerance = E + E64 + 16 u64 M + |reference - plain program in float64|

E is the bound of `tolerance.py` in the program's types, E64 the same in f64 (the reference's own roundings; it doubles
the tolerance of f64 programs), M the magnitude of the terms.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.edit import dtypes, iterations_around, walk, walk_places, with_dtypes
from leir.syntax import DType, Equation, Program, Real
from stepTP.verify.analysis import analyse
from stepTP.verify.compare import Difference, Expected, compare, distance, worse
from stepTP.verify.elements import Bounded
from stepTP.verify.inputs import ATTEMPTS, KINDS, Draw, Profile, draw_inputs

Array = NDArray[Any]
Outputs = dict[str, Array]
Reference = Callable[[dict[str, Array]], Outputs]

INEXACT: dict[DType, float] = {"f16": 2e-2, "bf16": 1e-1, "f32": 1e-3, "f64": 1e-3}  # what must be noticed
NOTICING = 0.5  # the share of elements that must notice an output that is off by as much

_AGREEMENT = 64.0  # how many times the bound in float64 the reference and the plain program may lie apart
_NARROWER = 2.0**-26  # u64 / u32, and a factor of 8 for what does not shrink quite in proportion
_LARGE = 1 << 20  # iterations, from which an attempt takes long
_ATTEMPTS_OF_LARGE = 3  # for a draw with sharp bounds, where one with any is there
_FLOOR = 16 * 2.0**-53  # of the magnitude: the reference may compute the same formula in some other way


class Unverified(Exception):
    """A source's programs cannot be verified; the message says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One draw of inputs, and the outputs that a right program computes from them."""

    draw: Draw
    inputs: dict[str, Array]
    expected: dict[str, Expected]


@dataclass(frozen=True, slots=True)
class Trials:
    """The draws of a source. `skipped`: those without a finite reference and bounds in any attempt, with the reason."""

    trials: tuple[Trial, ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(trial.draw.name for trial in self.trials)


def prepare(
    program: Program,
    reference: Reference,
    profiles: Sequence[Profile],
    source: str,
    draws: int = 1,
    seed: int = 0,
    peaks: int = 0,
) -> Trials:
    """`draws` trials of each kind of input, or twice as many where bounds are wide, and `peaks` more of that kind.

    Raises Unverified where the program is not its source's, or none works.
    """
    trials: list[Trial] = []
    skipped: list[tuple[str, str]] = []
    for kind in KINDS:
        for number in range(draws + (peaks if kind == "peaks" else 0)):
            found, problem = _drawn(program, reference, profiles, Draw(kind, number), source, seed)
            trials += found
            if not found:
                skipped.append((Draw(kind, number).name, problem))
    if not trials:
        raise Unverified(f"no input draw can be checked: {skipped[-1][1]}")
    return Trials(tuple(trials), tuple(skipped))


def _drawn(
    program: Program, reference: Reference, profiles: Sequence[Profile], draw: Draw, source: str, seed: int
) -> tuple[list[Trial], str]:
    """The first attempt that can be checked and, where its bounds are wide, the first that has sharp ones too.

    With the reason why attempts say nothing.
    """
    taken: list[Trial] = []
    problem = ""
    large = _iterations(program) >= _LARGE
    for attempt in range(ATTEMPTS):
        if taken and large and attempt >= _ATTEMPTS_OF_LARGE:
            break
        tried = replace(draw, attempt=attempt)
        found = _trial(program, reference, tried, draw_inputs(profiles, tried, seed, source))
        if isinstance(found, str):
            problem = found
        elif all(e.dtype not in INEXACT or noticing(e) >= NOTICING for e in found.expected.values()):
            return [*taken, found], problem
        elif not taken:
            taken = [found]
    return taken, problem


@lru_cache(maxsize=16)
def _iterations(program: Program) -> int:
    return sum(iterations_around(program, path) for path, s in walk(program) if isinstance(s, Equation))


def noticing(expected: Expected) -> float:
    """The share of nonzero elements whose tolerance is less than the relative error that must be noticed."""
    size = np.abs(expected.value[expected.value != 0]).astype(float)
    limits = expected.tolerance[expected.value != 0]
    return float(np.mean(limits < INEXACT[expected.dtype] * size)) if size.size else 0.0


def _trial(program: Program, reference: Reference, draw: Draw, inputs: dict[str, Array]) -> Trial | str:
    """The trial of a draw, or why it says nothing."""
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    values = reference(wide)
    designed = any(isinstance(e, Real) and math.isinf(e.value) for _, e in walk_places(program))
    for name, value in values.items():
        if not np.all(np.isfinite(value) | (designed & np.isinf(value))):
            return f"the reference of {name} is not finite"
    single = analyse(program, wide)
    double = _in_double(single) if "f64" not in dtypes(program).values() else analyse(in_double(program), wide)
    expected: dict[str, Expected] = {}
    for output in program.outputs:
        name = output.tensor
        if values[name].shape != output.shape:
            raise Unverified(
                f"{name} is {list(output.shape)} in the program and {list(values[name].shape)} in its source"
            )
        value = values[name].astype(double[name].value.dtype)
        agreed = _agreement(value, single[name], double[name])
        if not np.all(np.isfinite(agreed)):
            return f"{name} has elements without a bound"
        difference = compare(name, double[name].value, Expected(value, agreed, "f64"))
        if difference.problem:
            raise Unverified(
                f"the program does not compute what its source computes ({draw.name}): {difference.problem}"
            )
        apart = distance(value, double[name].value)
        own = single[name].error + double[name].error + _FLOOR * double[name].magnitude + apart
        expected[name] = Expected(value, own, output.dtype)
    return Trial(draw, inputs, expected)


def _in_double(single: dict[str, Bounded]) -> dict[str, Bounded]:
    """The bounds of the same program in float64, from those in narrower types.

    A bound grows at least in proportion to the unit roundoff where it is not at its end (all of a bounded function's
    range), and shrinks so with it.
    """
    return {name: replace(b, error=b.error * _NARROWER) for name, b in single.items()}


def in_double(program: Program) -> Program:
    """The program with every float type f64."""
    return with_dtypes(program, {"f16": "f64", "bf16": "f64", "f32": "f64"})


def _agreement(value: Array, single: Bounded, double: Bounded) -> Array:
    """How far the reference may lie from the plain program in float64; not finite where a bound is missing."""
    if value.dtype.kind != "f":
        return np.where(np.isfinite(single.error), 0.0, np.inf)
    return np.where(np.isfinite(single.error), _AGREEMENT * (double.error + _FLOOR * double.magnitude), np.inf)


def judge(trial: Trial, outputs: Outputs) -> Difference:
    """All outputs of a trial against what is expected."""
    return reduce(worse, (compare(name, outputs[name], expected) for name, expected in trial.expected.items()))
