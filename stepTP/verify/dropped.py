"""A program without one iteration of one reduction: for every reduction, first, middle, last and one drawn iteration.

A program is run for these in float64 without error bounds, by the interpreter, and only from the top-level statement on
that is changed: what the statements before it compute is kept from one run of the whole program.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.analysis.access import tensors
from leir.edit import replace_at, statement_at, tensors_read, tensors_written, variables_of, walk
from leir.interp import InterpreterError, interpret
from leir.names import unused_tensor
from leir.syntax import Access, Alloc, Binary, Declaration, Equation, Guard, Loop, Path, Program, Variable
from stepTP.verify.analysis import analyse
from stepTP.verify.inputs import generator
from stepTP.verify.prepare import in_double

Array = NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Reduction:
    """A loop over which equations below it accumulate. `positions`: the values of its variable that are left out."""

    path: Path
    loop: Loop
    positions: tuple[int, ...]

    def name(self, position: int) -> str:
        return f"{self.loop.variable}={position} at {self.path} dropped"


def reductions(program: Program, key: str = "") -> Iterator[Reduction]:
    """Every reduction loop of a program, outside first. `key` decides which iteration is drawn."""
    seen: list[Path] = []
    for path, statement in walk(program):
        if not isinstance(statement, Equation) or statement.op == "=":
            continue
        kept = set[str]().union(*(variables_of(index) for index in statement.target.indices))
        for length in range(1, len(path)):
            place = path[:length]
            loop = statement_at(program, place)
            if isinstance(loop, Loop) and loop.extent > 1 and loop.variable not in kept and place not in seen:
                seen.append(place)
                drawn = int(generator("dropped", key, *place).randint(0, loop.extent))
                steps = dict.fromkeys((0, loop.extent // 2, loop.extent - 1, drawn))
                yield Reduction(place, loop, tuple(loop.first + step for step in steps))


class Runs:
    """A program in float64 on several inputs, whole or without an iteration. `inputs`: in float64 or integers."""

    def __init__(self, program: Program, inputs: list[dict[str, Array]]) -> None:
        self.program = in_double(program)
        self.inputs = inputs
        self._kept: dict[int, dict[str, Array] | None] = {}

    def outputs(self, inputs: Arrays) -> dict[str, Array]:
        """What the whole program computes from other inputs."""
        return _outputs(self.program, inputs)

    def without(self, reduction: Reduction, position: int, number: int) -> dict[str, Array]:
        """What the program computes from inputs `number` without one iteration."""
        kept = self._values(number) if reduction.path[0] else None
        rest = _rest(self.program, reduction.path) if kept else None
        index = np.array(position, np.int64)
        if kept is None or rest is None:
            changed, name = _changed(self.program, reduction.path)
            return _outputs(changed, {**self.inputs[number], name: index})
        changed, name = rest
        given = {d.tensor: kept[d.tensor] for d in changed.inputs if d.tensor != name}
        computed = _outputs(changed, {**given, name: index})
        return {o.tensor: computed[o.tensor] if o.tensor in computed else kept[o.tensor] for o in self.program.outputs}

    def _values(self, number: int) -> dict[str, Array] | None:
        """Every tensor of the program that lives throughout; None where some element is never written."""
        if number not in self._kept:
            try:
                shown = interpret(_revealing(self.program), self.inputs[number], quick=True)
                self._kept[number] = {**self.inputs[number], **shown}
            except InterpreterError:
                self._kept[number] = None
        return self._kept[number]


def _outputs(program: Program, inputs: Arrays) -> dict[str, Array]:
    try:
        return interpret(program, inputs, quick=True)
    except InterpreterError:  # elements that have lost their only term: an accumulation of none is its fill here
        return {name: bounded.value for name, bounded in analyse(program, dict(inputs)).items()}


@lru_cache(maxsize=64)
def _revealing(program: Program) -> Program:
    """The program with every global temporary an output."""
    shown = [t for t in tensors(program).values() if t.role == "temporary" and t.scope == "g"]
    hidden = {t.name for t in shown}
    body = tuple(s for s in program.body if not (isinstance(s, Alloc) and s.tensor in hidden))
    declared = tuple(Declaration(t.name, t.dtype, t.shape) for t in shown)
    return replace(program, outputs=(*program.outputs, *declared), body=body)


@lru_cache(maxsize=256)
def _changed(program: Program, path: Path) -> tuple[Program, str]:
    """The program with the iteration left out that a new input of rank 0 names, and that input's name."""
    name = unused_tensor(program)
    loop = statement_at(program, path)
    assert isinstance(loop, Loop)
    guard = Guard(Binary("!=", Variable(loop.variable), Access(name, ())), loop.body)
    changed = replace_at(program, path, replace(loop, body=(guard,)))
    return replace(changed, inputs=(*program.inputs, Declaration(name, "i64", ()))), name


@lru_cache(maxsize=256)
def _rest(program: Program, path: Path) -> tuple[Program, str] | None:
    """The changed program from its changed statement on, what came before being inputs; None where it cannot start."""
    known, start = tensors(program), path[0]
    before = dict.fromkeys(name for statement in program.body[:start] for name in tensors_written(statement))
    after = dict.fromkeys(name for statement in program.body[start:] for name in tensors_written(statement))
    allocated = [s for s in program.body[:start] if isinstance(s, Alloc) and s.tensor in after]
    outputs = tuple(output for output in program.outputs if output.tensor in after)
    if any(name in after for name in before) or not outputs or outputs[0].dtype != program.outputs[0].dtype:
        return None  # the first output's dtype is that of temporaries
    read = dict.fromkeys(name for statement in program.body[start:] for name in tensors_read(statement))
    given = [known[name] for name in read if known[name].role == "input" or name in before]
    inputs = tuple(Declaration(t.name, t.dtype, t.shape) for t in given)
    rest = Program(inputs, outputs, (*allocated, *program.body[start:]))
    return _changed(rest, (len(allocated), *path[1:]))
