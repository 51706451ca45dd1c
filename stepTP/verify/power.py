"""Does the check have teeth? For every source, wrong outputs are tried under its tolerances; all must be refused.

    zero            every element 0
    constant        every element one number, in all draws
    input copy      the elements of an input of the same dtype class, cut or repeated to the output's size
    stale           the output of another draw
    inexact         off by a relative 1e-3 (f32, f64; 2e-2 in f16, 1e-1 in bf16): at least half of the elements that are
                    not 0 must notice, in one draw
    swapped axes    two axes of the output exchanged, in place or through its flat order
    swapped input   an input of two equal axes, transposed
    dropped         each reduction loop without one iteration: the first, the middle, the last, and a drawn one

A wrong output counts as refused where at least one draw refuses it by twice its tolerance: then it is refused whatever
rounding adds to it. One that is no different (a symmetric output; the
shift of a softmax, which may be any number) is left out, but zero, constant and stale outputs are wrong always: a
source that is constant, or does not depend on its inputs, is refused.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from leir.syntax import Declaration, Program
from stepTP.verify.compare import Expected, distance
from stepTP.verify.dropped import Runs, reductions
from stepTP.verify.inputs import Kind
from stepTP.verify.prepare import INEXACT, NOTICING, Trial, noticing

Array = NDArray[Any]
Wrong = Callable[[int], dict[str, Array]]  # from a trial's number to outputs, all or some

_CERTAIN = 2.0  # tolerances that a wrong value must be off by: one that rounding may take back
_SAME = 1e-9  # of the largest element: two outputs this near are one
_FIRST: tuple[Kind, ...] = ("integers", "extremes", "normal")  # kinds that refuse most: tried before the others


@dataclass(frozen=True, slots=True)
class Power:
    """How many wrong outputs were tried, how many were no different, and the names of those that no draw refuses."""

    tried: int
    same: int
    missed: tuple[str, ...]


def measure(program: Program, trials: Sequence[Trial], key: str = "") -> Power:
    """Tries every wrong output on the trials of a source. `key`: of the source, for the iterations that are drawn."""
    tried = same = 0
    missed: list[str] = []
    order = sorted(range(len(trials)), key=lambda n: (trials[n].draw.kind not in _FIRST, n))
    for name, wrong in (*_wrong_outputs(program, trials), *_wrong_programs(program, trials, key)):
        tried += 1
        match _verdict(trials, order, wrong):
            case "missed":
                missed.append(name)
            case "same":
                same += 1
            case "refused":
                pass
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


def _verdict(trials: Sequence[Trial], order: Sequence[int], wrong: Wrong) -> Literal["refused", "same", "missed"]:
    """What the trials say of wrong outputs: the first that refuses any ends it."""
    same = True
    for number in order:
        outputs = wrong(number)
        pairs = [(trials[number].expected[name], array) for name, array in outputs.items()]
        if any(_refuses(expected, array) for expected, array in pairs):
            return "refused"
        same = same and all(_is_same(expected, array) for expected, array in pairs)
    return "same" if same else "missed"


def _refuses(expected: Expected, wrong: Array) -> bool:
    off = distance(wrong, expected.value) > _CERTAIN * expected.tolerance
    return bool(np.any(off | np.isnan(wrong)))


def _is_same(expected: Expected, wrong: Array) -> bool:
    finite = np.isfinite(expected.value)
    largest = float(np.max(np.abs(expected.value), initial=0.0, where=finite))
    return bool(np.all(distance(wrong, expected.value) <= _SAME * largest))


def _constant_passes(expected: Sequence[Expected]) -> bool:
    """Whether one number lies within the tolerance of every element of every draw."""
    above = max(float(np.max(e.value - e.tolerance)) for e in expected)
    below = min(float(np.min(e.value + e.tolerance)) for e in expected)
    return above <= below


def _wrong_outputs(program: Program, trials: Sequence[Trial]) -> Iterator[tuple[str, Wrong]]:
    """Outputs that are made from inputs or from the right outputs."""

    def copied(name: str, given: str, shape: tuple[int, ...], number: int) -> dict[str, Array]:
        return {name: np.resize(trials[number].inputs[given], shape)}

    def swapped(name: str, axes: tuple[int, int], number: int) -> dict[str, Array]:
        return {name: _swapped(trials[number].expected[name].value, *axes)}

    for output in program.outputs:
        name = output.tensor
        for given in program.inputs:
            if (given.dtype in INEXACT) == (output.dtype in INEXACT):
                yield f"copy of {given.tensor} ({name})", partial(copied, name, given.tensor, output.shape)
        for axes in combinations(range(len(output.shape)), 2):
            if all(output.shape[axis] > 1 for axis in axes):
                yield f"axes {axes[0]} and {axes[1]} swapped ({name})", partial(swapped, name, axes)


def _wrong_programs(program: Program, trials: Sequence[Trial], key: str) -> Iterator[tuple[str, Wrong]]:
    """What the program computes from a transposed input, or without one iteration of a reduction."""
    runs = Runs(program, [_wide(trial.inputs) for trial in trials])

    def swapped(given: str, axes: tuple[int, int], number: int) -> dict[str, Array]:
        inputs = runs.inputs[number]
        return runs.outputs({**inputs, given: _swapped(inputs[given], *axes)})

    for given in program.inputs:
        for axes in _equal_axes(given):
            yield f"axes {axes[0]} and {axes[1]} of {given.tensor} swapped", partial(swapped, given.tensor, axes)
    for reduction in reductions(program, key):
        for position in reduction.positions:
            yield reduction.name(position), partial(runs.without, reduction, position)


def _swapped(value: Array, one: int, other: int) -> Array:
    return np.swapaxes(value, one, other).reshape(value.shape)


def _wide(inputs: dict[str, Array]) -> dict[str, Array]:
    return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}


def _equal_axes(given: Declaration) -> Iterator[tuple[int, int]]:
    for one, other in combinations(range(len(given.shape)), 2):
        if given.shape[one] == given.shape[other] > 1:
            yield one, other
