"""Attention in one pass: the schedule of `schedules.attention`, where the program is the plain one that it starts from.

Its steps hold paths and the names of new tensors, and these are the same in any program of one `state_id`.
"""

from collections.abc import Iterator

from leir.canonical import state_id
from leir.parser import parse
from leir.syntax import Program
from schedules.attention import source, trajectory
from schedules.trajectory import Trajectory
from stepTP.search.experts.rule import Rule

# Queries and keys of a block, and of a thread; the depth of a stage.
_TILES = (
    (64, 32, (4, 4), 0),
    (64, 64, (8, 4), 16),
    (64, 32, (8, 4), 0),
    (32, 32, (4, 4), 0),
)
_WIDTH = 32  # a multiple of which the trajectory's tiles need


def rules(program: Program) -> Iterator[Rule]:
    """The tilings that the sizes allow."""
    shapes = [declared.shape for declared in program.inputs]
    if len(shapes) != 3 or any(len(shape) != 3 for shape in shapes):
        return
    (heads, queries, width), (_, keys, _), _ = shapes
    if width % _WIDTH:
        return
    plain = source(heads, queries, keys, width, 0, "f32")
    if state_id(parse(plain)) != state_id(program):
        return
    for rows, columns, thread, chunk in _TILES:
        if rows < queries and columns < keys:
            yield Rule(
                f"attention in one pass, {rows} queries by {columns} keys, {thread[0]}x{thread[1]} a thread",
                lambda t, _, tiles=(rows, columns, thread), chunk=chunk: _follow(
                    t, trajectory(heads, queries, keys, width, *tiles, chunk=chunk)
                ),
            )


def _follow(t: Trajectory, other: Trajectory) -> None:
    for step in other.steps:
        t.take(step.name, **step.to_json()["args"])
