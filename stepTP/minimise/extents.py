"""Smaller sizes, everywhere where they are tied.

Sizes are tied where a loop's variable is a subscript: the loop runs over that axis, and so do all others that have it
there. A tie is followed through every tensor of the subject's programs. After a change the declared sizes are those
that loops reach, or as much less.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from leir.analysis.affine import UNBOUNDED, Interval, interval
from leir.edit import accesses, expressions, map_expression, map_statement, walk, walk_enclosed
from leir.syntax import (
    Access,
    Alloc,
    Declaration,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Real,
    Stmt,
    Variable,
)
from stepTP.minimise.edits import with_programs
from stepTP.minimise.subject import Subject
from stepTP.records import Step

_CAPS = (1, 2, 4, 8)
_Loop = tuple[int, Path]  # of the subject's program (0) or of `against` (1)
_Axis = tuple[str, int]


def smaller(subject: Subject) -> Iterator[Subject]:
    """The subject with fewer iterations, boldest first; numbers that equal a size may follow it."""
    programs = _programs(subject)
    yield from _resized(subject, {}, {})
    loops = {(n, path): s for n, p in enumerate(programs) for path, s in walk(p) if isinstance(s, Loop)}
    for cap in _CAPS:
        yield from _resized(subject, {key: min(loop.extent, cap) for key, loop in loops.items()}, {})
    for tied_loops, tied_axes in _ties(programs):
        extents = {loops[key].extent for key in tied_loops}
        for extent in sorted(extents, reverse=True):
            for new in less_than(extent)[1:]:
                less = extent - new
                shorter = {key: _less(loops[key].extent, extent, new) for key in tied_loops}
                axes = dict.fromkeys(tied_axes, less)
                for numbers in ({}, {extent: new}):
                    yield from _resized(subject, shorter, numbers)
                    yield from _resized(subject, shorter, numbers, axes)


def less_than(value: int) -> list[int]:
    """Smaller numbers to try, the smallest first, so that few follow each other on the way to any."""
    return [n for n in dict.fromkeys((0, 1, 2, 3, value // 2, value - max(1, value // 8))) if 0 <= n < value]


def _less(own: int, extent: int, new: int) -> int:
    return new if own == extent else max(1, own - (extent - new))


def _programs(subject: Subject) -> tuple[Program, ...]:
    return (subject.program,) if subject.against is None else (subject.program, subject.against)


def _resized(
    subject: Subject,
    shorter: Mapping[_Loop, int],
    numbers: Mapping[int, int],
    axes: Mapping[_Axis, int] | None = None,
) -> Iterator[Subject]:
    """The subject with loops of other extents, and other numbers in place of those that are equal to a size.

    Tensors get the sizes that loops reach or, with `axes`, lose so much of these axes.
    """
    changed = [_with_extents(p, number, shorter, numbers) for number, p in enumerate(_programs(subject))]
    if axes is None:
        reached = [_reached(program) for program in changed]
        sizes = [{axis: max(r.get(axis, 0) for r in reached) for axis in own} for own in reached]
        shared = {d.tensor for d in (*subject.program.inputs, *subject.program.outputs)}
        shaped = [
            _with_shapes(p, {axis: n if axis[0] in shared else own[axis] for axis, n in both.items()}, {})
            for p, own, both in zip(changed, reached, sizes, strict=True)
        ]
    else:
        shaped = [_with_shapes(program, {}, axes) for program in changed]
    for steps in (subject.steps, tuple(_with_numbers(step, numbers) for step in subject.steps)):
        yield from with_programs(replace(subject, steps=steps), shaped[0], shaped[1] if len(shaped) > 1 else None)


def _with_numbers(step: Step, numbers: Mapping[int, int]) -> Step:
    args = {k: numbers.get(v, v) if type(v) is int else v for k, v in step.args.items()}
    return step.model_copy(update={"args": args})


def _with_extents(program: Program, which: int, shorter: Mapping[_Loop, int], numbers: Mapping[int, int]) -> Program:
    def number(expression: Expr) -> Expr:
        match expression:
            case Integer(value) if value in numbers:
                return Integer(numbers[value])
            case Real(value) if value in numbers:
                return Real(float(numbers[int(value)]))
            case _:
                return expression

    def visit(statement: Stmt, path: Path) -> Stmt:
        match statement:
            case Loop(extent=extent, body=body):
                return replace(statement, extent=shorter.get((which, path), extent), body=below(body, path))
            case Guard(condition, body):
                return Guard(map_expression(condition, number), below(body, path))
            case Equation():
                return map_statement(statement, number)
            case Alloc():
                return statement

    def below(body: tuple[Stmt, ...], path: Path) -> tuple[Stmt, ...]:
        return tuple(visit(statement, (*path, place)) for place, statement in enumerate(body))

    return replace(program, body=below(program.body, ()))


def _ties(programs: tuple[Program, ...]) -> list[tuple[list[_Loop], list[_Axis]]]:
    """Groups of loops and axes of one size, in the order of the text."""
    groups: list[tuple[list[_Loop], list[_Axis]]] = []
    for number, program in enumerate(programs):
        for path, statement, around in walk_enclosed(program):
            if isinstance(statement, Loop):
                groups.append(([(number, path)], []))
            loops = {s.variable: path[: n + 1] for n, s in enumerate(around) if isinstance(s, Loop)}
            for access in (a for own in expressions(statement) for a in accesses(own)):
                for axis, index in enumerate(access.indices):
                    if isinstance(index, Variable) and index.name in loops:
                        groups = _tied(groups, (number, loops[index.name]), (access.tensor, axis))
    return groups


def _tied(
    groups: list[tuple[list[_Loop], list[_Axis]]], loop: _Loop, axis: _Axis
) -> list[tuple[list[_Loop], list[_Axis]]]:
    """The groups with those of the two as one, in the place of the first of them."""
    near = [group for group in groups if loop in group[0] or axis in group[1]]
    if len(near) == 1 and loop in near[0][0] and axis in near[0][1]:
        return groups
    loops = [part for group in near for part in group[0]]
    axes = [part for group in near for part in group[1]]
    one = (loops, axes if axis in axes else [*axes, axis])
    return [one if group is near[0] else group for group in groups if group is near[0] or group not in near]


def _reached(program: Program) -> dict[_Axis, int]:
    """How far accesses reach along each axis of a tensor, guards left out of account; no entry where nothing bounds
    them."""
    found: dict[_Axis, int] = defaultdict(int)
    unbounded: set[_Axis] = set()
    for access, ranges in _accesses(program):
        for axis, index in enumerate(access.indices):
            low, high = interval(index, ranges)
            if UNBOUNDED[0] < low and high < UNBOUNDED[1]:
                found[access.tensor, axis] = max(found[access.tensor, axis], int(high) + 1)
            else:
                unbounded.add((access.tensor, axis))
    return {axis: size for axis, size in found.items() if axis not in unbounded}


def reached_shape(program: Program, tensor: str) -> tuple[int, ...] | None:
    """The shape of a tensor that is not declared, as far as loops bound it; None where they do not."""
    reached = _reached(program)
    rank = next((len(a.indices) for a in accesses(program) if a.tensor == tensor), None)
    if rank is None or any((tensor, axis) not in reached for axis in range(rank)):
        return None
    return tuple(max(1, reached[tensor, axis]) for axis in range(rank))


def _accesses(program: Program) -> Iterator[tuple[Access, dict[str, Interval]]]:
    for _, statement, around in walk_enclosed(program):
        ranges: dict[str, Interval] = {
            s.variable: (s.first, s.first + s.extent - 1) for s in around if isinstance(s, Loop)
        }
        for own in expressions(statement):
            yield from ((access, ranges) for access in accesses(own))


def _with_shapes(program: Program, reached: Mapping[_Axis, int], less: Mapping[_Axis, int]) -> Program:
    """Declared sizes no larger than what is reached, or so much less; at least 1."""

    def shape(declared: Declaration | Alloc) -> tuple[int, ...]:
        sizes = enumerate(declared.shape)
        return tuple(
            max(1, min(size, reached.get((declared.tensor, axis), size)) - less.get((declared.tensor, axis), 0))
            for axis, size in sizes
        )

    def visit(statement: Stmt) -> Stmt:
        match statement:
            case Alloc():
                return replace(statement, shape=shape(statement))
            case Loop(body=body) | Guard(body=body):
                return replace(statement, body=tuple(visit(s) for s in body))
            case Equation():
                return statement

    inputs = tuple(replace(d, shape=shape(d)) for d in program.inputs)
    outputs = tuple(replace(d, shape=shape(d)) for d in program.outputs)
    return Program(inputs, outputs, tuple(visit(s) for s in program.body))
