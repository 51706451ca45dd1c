"""A quick proof that a tensor's values flow as before: accesses to one element keep their order.

If the same pairs of instances touch one element in both programs, and none of those of which one writes is reversed,
then each read finds the same last writer, whatever that is. These are questions about pairs of accesses, much cheaper
than the flow itself. Where they fail, the flow may still be the same.
"""

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from leir.analysis.affine import affine
from leir.analysis.dataflow import Read, Side, tensor_written
from leir.analysis.isl import conjunction, example, question
from leir.analysis.model import Statement, domain, reach, subscripts, time
from leir.syntax import Expr, Path

Origins = Mapping[Path, tuple[Path, tuple[Expr, ...]]]


class Suspect(NamedTuple):
    """A read that runs on another side of a write to its element than before: where a difference is likely to show.

    `path`, `read` and `values` are the equation of `after`, the number of its read, and the values of its loops.
    """

    path: Path
    read: int
    values: tuple[int, ...]


class _Side(NamedTuple):
    """An access of one instance, as isl text: its loops, its domain, and its element and time before and now.

    Elements are the lifetime's iteration and the subscripts, None for an opaque one.
    """

    loops: list[str]
    instances: list[str]
    old_element: list[str | None]
    new_element: list[str | None]
    old_time: list[str]
    new_time: list[str]


class _Access(NamedTuple):
    """An access in both programs: `number` is its number among the equation's reads, None for the write.

    `x` and `y` are two instances of it.
    """

    equation: Statement
    number: int | None
    is_update: bool
    x: _Side
    y: _Side

    @property
    def writes(self) -> bool:
        return self.number is None

    @property
    def is_unmoved(self) -> bool:
        return self.x.old_time == self.x.new_time

    @property
    def is_stored_alike(self) -> bool:
        return self.x.old_element == self.x.new_element


def keeps_order(
    before: Side, after: Side, tensor: str, origins: Origins, same: Collection[Path], unordered: Collection[Path]
) -> bool | Suspect:
    """True if order proves that a tensor's flow is the same; else False, or a read that was overtaken.

    `origins`: for each equation of `after` whose instances stand for those of an equation of `before`, that equation
    and the values of its loops. `same`: equations in unchanged nests. `unordered`: accumulations of `after` whose own
    order is free. Raises TooHard.
    """
    accesses = _accesses(before, after, tensor, origins)
    if accesses is None:
        return False
    if tensor in before.outputs and not all(a.is_stored_alike and None not in a.x.new_element for a in accesses):
        return False
    kept = True
    for first in accesses:
        for second in accesses:
            inside = first.equation.path in same and second.equation.path in same
            if inside or not (first.writes or second.writes):
                continue
            if first.writes and not _touches_alike(first, second):
                return False
            if _is_free(first, unordered) and _is_free(second, unordered):
                continue
            suspect = _reversed(first, second)
            if isinstance(suspect, Suspect):
                return suspect
            kept = kept and suspect is None
    return kept


def _accesses(before: Side, after: Side, tensor: str, origins: Origins) -> list[_Access] | None:
    """The accesses to a tensor; None where a writer has no counterpart in the other program."""
    result: list[_Access] = []
    written: set[Path] = set()
    for path, statement in after.equations.items():
        if path not in origins:
            if tensor_written(statement) == tensor:
                return None
            continue
        old_path, values = origins[path]
        old = before.equations[old_path]
        pairs = list(enumerate(zip(before.reads(old), after.reads(statement), strict=True)))
        accesses: list[tuple[int | None, Read, Read]] = [(n, was, becomes) for n, (was, becomes) in pairs]
        accesses.append((None, Read(old, old.uses[-1]), Read(statement, statement.uses[-1])))
        for number, was, becomes in accesses:
            if becomes.use.access.tensor == tensor:
                x, y = (_side(before, after, statement, values, was, becomes, number, tag) for tag in "xy")
                result.append(_Access(statement, number, becomes.use.mode == "update", x, y))
                if number is None:
                    written.add(old_path)
    if any(tensor_written(s) == tensor and path not in written for path, s in before.equations.items()):
        return None
    return result


def _side(
    before: Side,
    after: Side,
    equation: Statement,
    values: tuple[Expr, ...],
    was: Read,
    becomes: Read,
    number: int | None,
    tag: str,
) -> _Side:
    tensor, last = becomes.use.access.tensor, "1" if number is None else "0"
    loops = equation.dimensions(tag)
    texts = [affine(value, equation.names(tag)) for value in values]
    old_loops = [text for text in texts if text is not None]
    names = {loop.variable: text for (_, loop), text in zip(was.reader.loops, old_loops, strict=False)}
    numbered = dict(zip(was.reader.dimensions("v"), old_loops, strict=False))
    return _Side(
        loops,
        [*domain(equation, tag), *reach(becomes.reader, becomes.use, tag)],
        [*old_loops[: before.life.get(tensor, 0)], *(affine(index, names) for index in was.use.access.indices)],
        [*loops[: after.life.get(tensor, 0)], *subscripts(becomes.use, becomes.reader.names(tag))],
        [*(numbered.get(text, text) for text in time(was.reader, "v")), last],
        [*time(becomes.reader, tag), last],
    )


def _is_free(access: _Access, unordered: Collection[Path]) -> bool:
    return access.equation.path in unordered and access.is_update


def _touches_alike(first: _Access, second: _Access) -> bool:
    """Whether the same pairs of instances touch one element in both programs."""
    if first.is_stored_alike and second.is_stored_alike:
        return True
    then = _equalities(first.x.old_element, second.y.old_element)
    now = _equalities(first.x.new_element, second.y.new_element)
    if set(then) == set(now):
        return True
    dimensions = [*first.x.loops, *second.y.loops]
    where = [*first.x.instances, *second.y.instances]
    return all(
        example(question(dimensions, [*where, *holds, f"not ({conjunction(fails)})"])) is None
        for holds, fails in ((then, now), (now, then))
        if fails
    )


def _equalities(left: list[str | None], right: list[str | None]) -> list[str]:
    """isl constraints that make two elements one. Opaque subscripts say nothing; both programs have the same."""
    pairs = zip(left, right, strict=False)
    return [f"{a} = {b}" for a, b in pairs if a is not None and b is not None and a != b]


def _reversed(first: _Access, second: _Access) -> bool | Suspect | None:
    """Whether some instance x of `first` now runs before, and ran after, a y of `second` that touches its element."""
    if first.is_unmoved and second.is_unmoved:
        return None
    x, y = first.x, second.y
    if not _precedes(x.new_time, y.new_time) or not _precedes(y.old_time, x.old_time):
        return None
    alias: dict[str, str] = {}  # loops of y that must equal one of x for the elements to be one
    for a, b in zip(x.new_element, y.new_element, strict=False):
        if a in x.loops and b in y.loops:
            alias.setdefault(b, a)

    def named(text: str) -> str:
        return re.sub(r"\by\d+\b", lambda found: alias.get(found[0], found[0]), text)

    now = _precedes(x.new_time, [named(text) for text in y.new_time])
    then = _precedes([named(text) for text in y.old_time], x.old_time)
    if not now or not then:
        return None
    where = [*x.instances, *(named(text) for text in y.instances)]
    where += _equalities(x.new_element, [b and named(b) for b in y.new_element])
    dimensions = [*x.loops, *(name for name in y.loops if name not in alias)]
    point = example(question(dimensions, [*where, _either(now), _either(then)]))
    if point is None:
        return None
    values = dict(zip(dimensions, point, strict=True))
    for access, loops in ((first, x.loops), (second, y.loops)):
        if access.number is not None:
            return Suspect(access.equation.path, access.number, tuple(values[named(loop)] for loop in loops))
    return True


def _either(choices: list[list[str]]) -> str:
    return f"({' or '.join(f'({conjunction(choice)})' for choice in choices)})"


def _precedes(first: list[str], second: list[str]) -> list[list[str]]:
    """The ways in which one time is before another: each is a list of isl constraints that hold together."""
    ways: list[list[str]] = []
    equal: list[str] = []
    for a, b in zip(first, second, strict=False):
        if a == b:
            continue
        if _is_number(a) and _is_number(b):
            return [*ways, equal] if int(a) < int(b) else ways
        ways.append([*equal, f"{a} < {b}"])
        equal = [*equal, f"{a} = {b}"]
    return ways


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()
