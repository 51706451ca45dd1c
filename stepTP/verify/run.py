"""Running a compiled program on the trials of its source, under suspicion.

Outputs and global temporaries are poisoned before every run, inputs must come out as they went in, and every draw runs
twice, the second time over another poison: whatever a program reads before it has written it, or does not write, shows
as NaN or as a difference between the two runs. Lifetimes of `s` and `l` tensors are poisoned by the compiled code.

Draws run one after the other, so that most wrong programs cost no more than the first. Where runs cost less together,
as on a GPU, they run so.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepTP.verify.compare import Difference, first_unlike, worse
from stepTP.verify.prepare import Outputs, Trial, judge

Array = NDArray[Any]


class Runnable(Protocol):
    """A compiled program (`leir.lowering.Executable`)."""

    def new_buffers(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """The inputs as they are, and a poisoned array for each output and global temporary."""
        ...

    def run(self, buffers: dict[str, Array]) -> None: ...


@runtime_checkable
class RunnableTogether(Runnable, Protocol):
    """A compiled program whose runs cost less together (`leir.lowering.NestSequence`)."""

    @property
    def together(self) -> int:
        """How many runs go together, at most."""
        ...

    def run_each(self, runs: Sequence[dict[str, Array]]) -> None: ...


@dataclass(frozen=True, slots=True)
class Conduct:
    """What a program did on all trials: how its outputs differ from what is expected, and the outputs, one a trial.

    `outputs` ends at the first trial with a problem.
    """

    difference: Difference
    outputs: tuple[Outputs, ...]


Judged = dict[tuple[int, bytes], Difference]  # by the number of a trial and a digest of the outputs
_JUDGED = 1 << 14  # entries, of some 500 bytes: most programs of a walk share theirs, those of hostile answers none


def observe(program: Runnable, trials: Sequence[Trial], judged: Judged | None = None) -> Conduct:
    """Runs the program on each trial, twice; stops at the first problem.

    `judged` is what was said of outputs of these trials before: most programs of a walk give the very bits of another.
    """
    judged = {} if judged is None else judged
    differences: list[Difference] = []
    outputs: list[Outputs] = []
    for number, (trial, found, problem) in enumerate(_outcomes(program, trials)):
        outputs.append(found)
        key = (number, _digest(found))
        difference = judged[key] if key in judged else judge(trial, found)
        if len(judged) >= _JUDGED:
            judged.clear()
        judged[key] = difference
        if difference.problem or problem:
            text = f"{difference.problem or problem} (inputs {trial.draw.name})"
            differences.append(replace(difference, problem=text))
            break
        differences.append(difference)
    return Conduct(reduce(worse, differences), tuple(outputs))


def _outcomes(program: Runnable, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Outputs, str | None]]:
    """What the program does on each trial, in order: its outputs, and what speaks against it besides their values."""
    size = max(program.together // 2, 1) if isinstance(program, RunnableTogether) else 1
    left = iter(trials)
    while group := tuple(islice(left, size)):
        for trial, (found, problem) in zip(group, _run_twice(program, group), strict=True):
            yield trial, found, problem


def _digest(outputs: Outputs) -> bytes:
    """Equal for equal bits alone."""
    state = hashlib.sha256()
    for name, array in outputs.items():
        state.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return state.digest()


def _run_twice(program: Runnable, trials: Sequence[Trial]) -> list[tuple[Outputs, str | None]]:
    """The outputs of the first of two runs on each trial, and what is wrong with the two."""
    runs = [_buffers(program, trial, poison_again=again) for trial in trials for again in (False, True)]
    if isinstance(program, RunnableTogether) and program.together > 1:
        program.run_each(runs)
    else:
        for buffers in runs:
            program.run(buffers)
    result: list[tuple[Outputs, str | None]] = []
    for number, trial in enumerate(trials):
        first, second = runs[2 * number : 2 * number + 2]
        changed = [name for name, array in trial.inputs.items() if not _same_memory(first[name], array)]
        problem = f"input {changed[0]} is changed by the run" if changed else None
        outputs = {name: first[name] for name in trial.expected}
        for name, array in outputs.items():
            if problem is None and (unlike := first_unlike(name, array, second[name])):
                problem = f"{name} differs between two runs on the same inputs: {unlike}"
        result.append((outputs, problem))
    return result


def _buffers(program: Runnable, trial: Trial, *, poison_again: bool) -> dict[str, Array]:
    """Fresh buffers for a run: copies of the inputs, and everything else poisoned."""
    inputs = {name: np.array(array, order="C") for name, array in trial.inputs.items()}
    buffers = program.new_buffers(inputs)
    if poison_again:
        for name, array in buffers.items():
            if name not in inputs:
                array[...] = _other_poison(array)
    return buffers


def _other_poison(array: Array) -> float | int | bool:
    """Finite, unlike the first poison: a maximum may ignore NaN, but not this."""
    if array.dtype.kind == "f":
        return float(np.finfo(array.dtype).max) / 4
    return False if array.dtype.kind == "b" else int(np.iinfo(array.dtype).max) // 4


def _same_memory(a: Array, b: Array) -> bool:
    return a.tobytes() == np.ascontiguousarray(b).tobytes()
