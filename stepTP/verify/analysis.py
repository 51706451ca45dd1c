"""Running a plain program in float64 with error bounds (`tolerance.py`), one array operation a nest.

A nest of one equation runs over its whole iteration space at once where that cannot be seen: the equation does not read
what it writes in another iteration, and a store writes no element twice. Every other nest runs its outer loops one
iteration after the other. So any program is analysed; those that the front end emits, one equation a nest, fast.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from leir.analysis.access import tensors
from leir.analysis.model import fills
from leir.edit import accesses, perfect_nest, sole_equation, variables_of, walk
from leir.syntax import (
    Alloc,
    AssignOp,
    Equation,
    Expr,
    Guard,
    Loop,
    Program,
    Stmt,
    Variable,
)
from stepTP.verify.elements import Bounded, Elements
from stepTP.verify.expressions import Bindings, Expressions
from stepTP.verify.shares import summed

Array = NDArray[Any]

_LARGEST_GRID = 1 << 21  # iterations of a nest that run at once: 16 MiB for each array
_IDENTITIES: dict[AssignOp, float] = {"+=": 0.0, "*=": 1.0, "max=": -math.inf, "min=": math.inf}


def analyse(program: Program, inputs: dict[str, Array]) -> dict[str, Bounded]:
    """The outputs of a well-formed program with their bounds, for inputs in float64 or integers."""
    with np.errstate(all="ignore"):
        analysis = _Analysis(program, inputs)
        analysis.run(program.body, {})
        return {output.tensor: analysis.tensors[output.tensor].bounded() for output in program.outputs}


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops and guards around one equation."""

    loops: tuple[Loop, ...]
    guards: tuple[Expr, ...]
    equation: Equation

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(loop.extent for loop in self.loops)

    @property
    def kept(self) -> list[int]:
        """The loops that the target names, by number."""
        return [axis for axis, loop in enumerate(self.loops) if loop.variable in variables_of(self.equation.target)]


class _Analysis:
    def __init__(self, program: Program, inputs: dict[str, Array]) -> None:
        self.declared = tensors(program)
        self.fills = {name: _IDENTITIES[op] for name, op in fills(program).items() if op}
        self.tensors: dict[str, Elements] = {}
        for name, tensor in self.declared.items():
            if tensor.role == "input":
                self.tensors[name] = Elements(tensor.shape, tensor.dtype, inputs[name])
            elif tensor.alloc is None:
                self.tensors[name] = self.begin(name)
        self.expressions = Expressions({name: t.dtype for name, t in self.declared.items()}, self.tensors)

    def begin(self, name: str) -> Elements:
        """A tensor at the start of a lifetime."""
        elements = Elements(self.declared[name].shape, self.declared[name].dtype)
        if name in self.fills:
            elements.fill(self.fills[name])
        return elements

    def run(self, statements: tuple[Stmt, ...], bound: Bindings) -> None:
        for statement in statements:
            match statement:
                case Alloc(tensor):
                    self.tensors[tensor] = self.begin(tensor)
                case Equation():
                    assert self.run_at_once(_Nest((), (), statement), bound)
                case Guard(condition, body):
                    test = self.expressions.visit(condition, bound)
                    if np.all(test.value):
                        self.run(body, bound)
                    if np.any(test.error):
                        self.forget(statement)
                case Loop(_, variable, extent, first, body):
                    nest = _nest(statement)
                    if nest is not None and self.run_in_blocks(nest, bound):
                        continue
                    for index in range(first, first + extent):
                        self.run(body, {**bound, variable: index})
                case _:
                    assert_never(statement)

    def forget(self, guard: Guard) -> None:
        """What is written below a guard that rounding can turn has no bound."""
        for _, statement in walk(guard):
            if isinstance(statement, Equation):
                self.tensors[statement.target.tensor].forget()

    def run_in_blocks(self, nest: _Nest, bound: Bindings) -> bool:
        """Runs a nest, large ones in blocks of the outermost loop; False where it must run in order."""
        outer, inner = nest.loops[0], math.prod(nest.sizes[1:])
        step = max(1, _LARGEST_GRID // inner)
        for start in range(0, outer.extent, step):
            block = replace(outer, extent=min(step, outer.extent - start), first=outer.first + start)
            if not self.run_at_once(_Nest((block, *nest.loops[1:]), nest.guards, nest.equation), bound):
                return self.finish_in_order(nest, start, bound)
        return True

    def finish_in_order(self, nest: _Nest, start: int, bound: Bindings) -> bool:
        """After blocks that ran at once, the rest of the outermost loop runs in order; False if there were none."""
        if start == 0:
            return False
        outer = nest.loops[0]
        for index in range(outer.first + start, outer.first + outer.extent):
            self.run(outer.body, {**bound, outer.variable: index})
        return True

    def run_at_once(self, nest: _Nest, bound: Bindings) -> bool:
        """Runs all iterations of a nest as array operations; False, and nothing done, where that could be seen."""
        target, op = nest.equation.target, nest.equation.op
        rank = len(nest.loops)
        names = dict(bound)
        for axis, loop in enumerate(nest.loops):
            shape = [1] * rank
            shape[axis] = loop.extent
            names[loop.variable] = np.arange(loop.first, loop.first + loop.extent).reshape(shape)
        written = self.expressions.flat(target, names)
        mask, certain = self.mask(nest.guards, names)
        if not self.is_independent(nest, written, mask, names):
            return False
        destination = self.tensors[target.tensor]
        result = self.expressions.converted(nest.equation.value, destination.dtype, names)
        if op == "=":
            destination.store(written, result, mask, nest.sizes)
        else:
            injective = _is_injective(nest, written, mask, of_kept=True)
            term = None
            if op == "+=" and result.log_error is not None:
                loops = {loop.variable: (loop.first, loop.extent) for loop in nest.loops}
                contents = {name: elements.contents for name, elements in self.tensors.items()}
                term = summed(target, nest.equation.value, loops, contents)
            destination.accumulate(op, written, result, mask, nest.sizes, nest.kept, injective, term)
        if not certain:
            destination.forget()
        return True

    def is_independent(self, nest: _Nest, written: Array, mask: Array | None, names: Bindings) -> bool:
        """Whether the iterations write different elements, or add to them, and read none that another writes."""
        target, op = nest.equation.target, nest.equation.op
        if op != "+=" and not _is_injective(nest, written, mask, of_kept=op != "="):
            return False
        whole = np.broadcast_to(written, nest.sizes)
        for expression in (nest.equation.value, *nest.guards, *target.indices):
            for access in accesses(expression):
                if access.tensor != target.tensor:
                    continue
                read = np.broadcast_to(self.expressions.flat(access, names), nest.sizes)
                if not np.array_equal(read, whole) and np.isin(read, whole).any():
                    return False
        return True

    def mask(self, guards: tuple[Expr, ...], names: Bindings) -> tuple[Array | None, bool]:
        """Where all guards hold, and whether rounding cannot change that."""
        mask: Array | None = None
        certain = True
        for guard in guards:
            condition = self.expressions.visit(guard, names)
            here = np.asarray(condition.value) != 0
            certain = certain and not np.any(condition.error)
            mask = here if mask is None else mask & here
        return mask, certain


def _nest(statement: Loop) -> _Nest | None:
    """The loops and guards down to one equation; None where a list holds more than one statement."""
    found = sole_equation(statement)
    levels = [level for _, level in perfect_nest(statement)]
    loops = tuple(level for level in levels if isinstance(level, Loop))
    guards = tuple(level.condition for level in levels if isinstance(level, Guard))
    return None if found is None else _Nest(loops, guards, found[1])


def _is_injective(nest: _Nest, written: Array, mask: Array | None, of_kept: bool) -> bool:
    """Whether no element is written twice; `of_kept`: by iterations that differ in a loop that the target names.

    Only where the mask holds: elsewhere the subscripts may lie past the ends.
    """
    target = nest.equation.target
    if not of_kept and len(nest.kept) < sum(loop.extent > 1 for loop in nest.loops):
        return False
    alone = [index.name for index in target.indices if isinstance(index, Variable)]
    if all(nest.loops[axis].variable in alone for axis in nest.kept):
        return True
    reduced = tuple(axis for axis in range(len(nest.loops)) if of_kept and axis not in nest.kept)
    places = np.broadcast_to(written, [1 if axis in reduced else size for axis, size in enumerate(nest.sizes)])
    if mask is not None:
        places = places[np.broadcast_to(mask, nest.sizes).any(axis=reduced, keepdims=True)]
    return np.unique(places).size == places.size
