"""Does the check have teeth? For every source, wrong outputs are tried under its tolerances; all must be refused.

    zero            every element 0
    constant        every element one number, in all draws
    input copy      the elements of an input of the same dtype class, cut or repeated to the output's size
    stale           the output of another draw
    inexact         off by a relative 1e-3 (f32, f64; 2e-2 in f16, 1e-1 in bf16): at least half of the elements that are
                    not 0 must notice, in one draw
    swapped axes    two axes of the output exchanged, in place or through its flat order
    swapped input   an input of two equal axes, transposed
    dropped         each reduction loop without its last iteration

A wrong output counts as refused where at least one draw refuses it. One that is no different (a symmetric output; the
shift of a softmax, which may be any number) is left out, but zero, constant and stale outputs are wrong always: a
source that is constant, or does not depend on its inputs, is refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.edit import replace_at, statement_at, variables_of, walk
from leir.syntax import Declaration, Equation, Loop, Path, Program
from stepTP.verify.analysis import analyse
from stepTP.verify.compare import Expected
from stepTP.verify.prepare import INEXACT, NOTICING, Trial, noticing

Array = NDArray[Any]

_SAME = 1e-9  # of the largest element: two outputs this near are one


@dataclass(frozen=True, slots=True)
class Power:
    """How many wrong outputs were tried, how many were no different, and the names of those that no draw refuses."""

    tried: int
    same: int
    missed: tuple[str, ...]


def measure(program: Program, trials: Sequence[Trial]) -> Power:
    """Tries every wrong output on the trials of a source."""
    tried = same = 0
    missed: list[str] = []
    for name, output, wrong in _wrong_outputs(program, trials):
        expected = [trial.expected[output] for trial in trials]
        tried += 1
        if any(_refuses(e, w) for e, w in zip(expected, wrong, strict=True)):
            continue
        if all(_is_same(e, w) for e, w in zip(expected, wrong, strict=True)):
            same += 1
        else:
            missed.append(f"{name} ({output})")
    for declaration in program.outputs:
        expected = [trial.expected[declaration.tensor] for trial in trials]
        for name, passes in (
            ("zero", all(not _refuses(e, np.zeros_like(e.value)) for e in expected)),
            ("constant", _constant_passes(expected)),
            ("stale", len(trials) > 1 and not any(_refuses(a, b.value) for a, b in combinations(expected, 2))),
            ("inexact", declaration.dtype in INEXACT and max(map(noticing, expected)) < NOTICING),
        ):
            tried += 1
            if passes:
                missed.append(f"{name} ({declaration.tensor})")
    return Power(tried, same, tuple(missed))


def _refuses(expected: Expected, wrong: Array) -> bool:
    off = np.abs(np.subtract(wrong, expected.value, dtype=np.float64)) > expected.tolerance
    return bool(np.any(off | np.isnan(wrong)))


def _is_same(expected: Expected, wrong: Array) -> bool:
    largest = float(np.max(np.abs(expected.value), initial=0.0))
    apart = np.abs(np.subtract(wrong, expected.value, dtype=np.float64))
    return bool(np.all(apart <= _SAME * largest))


def _constant_passes(expected: Sequence[Expected]) -> bool:
    """Whether one number lies within the tolerance of every element of every draw."""
    above = max(float(np.max(e.value - e.tolerance)) for e in expected)
    below = min(float(np.min(e.value + e.tolerance)) for e in expected)
    return above <= below


def _wrong_outputs(program: Program, trials: Sequence[Trial]) -> Iterator[tuple[str, str, list[Array]]]:
    """Name, output and one array a trial."""
    for output in program.outputs:
        for given in program.inputs:
            if (given.dtype in INEXACT) == (output.dtype in INEXACT):
                copies = [np.resize(trial.inputs[given.tensor], output.shape) for trial in trials]
                yield f"copy of {given.tensor}", output.tensor, copies
        for one, other in combinations(range(len(output.shape)), 2):
            if output.shape[one] > 1 and output.shape[other] > 1:
                swapped = [_swapped(trial.expected[output.tensor].value, one, other) for trial in trials]
                yield f"axes {one} and {other} swapped", output.tensor, swapped
    for name, wrong in _wrong_inputs(program, trials):
        results = [analyse(program, inputs) for inputs in wrong]
        for output in program.outputs:
            yield name, output.tensor, [result[output.tensor].value for result in results]
    for name, mutant in dropped(program):
        results = [analyse(mutant, _wide(trial.inputs)) for trial in trials]
        for output in program.outputs:
            yield name, output.tensor, [result[output.tensor].value for result in results]


def _swapped(value: Array, one: int, other: int) -> Array:
    return np.swapaxes(value, one, other).reshape(value.shape)


def _wide(inputs: dict[str, Array]) -> dict[str, Array]:
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}


def _wrong_inputs(program: Program, trials: Sequence[Trial]) -> Iterator[tuple[str, list[dict[str, Array]]]]:
    for given in program.inputs:
        for one, other in _equal_axes(given):
            wrong = [
                {**_wide(t.inputs), given.tensor: _swapped(_wide(t.inputs)[given.tensor], one, other)} for t in trials
            ]
            yield f"axes {one} and {other} of {given.tensor} swapped", wrong


def _equal_axes(given: Declaration) -> Iterator[tuple[int, int]]:
    for one, other in combinations(range(len(given.shape)), 2):
        if given.shape[one] == given.shape[other] > 1:
            yield one, other


def dropped(program: Program) -> Iterator[tuple[str, Program]]:
    """The program without the last iteration of a loop over which an equation accumulates, for each such loop."""
    seen: list[Path] = []
    for path, statement in walk(program):
        if not isinstance(statement, Equation) or statement.op == "=":
            continue
        kept = set[str]().union(*(variables_of(index) for index in statement.target.indices))
        for length in range(1, len(path)):
            loop = statement_at(program, path[:length])
            if isinstance(loop, Loop) and loop.extent > 1 and loop.variable not in kept and path[:length] not in seen:
                seen.append(path[:length])
                mutant = replace_at(program, path[:length], replace(loop, extent=loop.extent - 1))
                yield f"last iteration of {loop.variable} at {path[:length]} dropped", mutant
