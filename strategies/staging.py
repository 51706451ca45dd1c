"""How what a nest touches of a tensor is staged in a nearer memory: the box, its copy, and the new accesses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from leir.analysis.access import tensors
from leir.analysis.affine import Interval, interval
from leir.analysis.box import Box, Use, as_sum, bounding_box, plus, position
from leir.analysis.kernels import axis_of, is_thread
from leir.edit import (
    accesses,
    expressions,
    loops_around,
    nested,
    perfect_nest,
    statement_at,
    variables_of,
    walk_enclosed,
)
from leir.names import free_variables, substitute_in, unused_tensor, unused_variable, variables_around
from leir.syntax import Access, Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Scope, Stmt, Variable


@dataclass(frozen=True, slots=True)
class Staging:
    """`tensor`'s elements in `box` live in `cache` while a nest runs.

    `owners` are the thread loops that the nest begins with, where each thread has a box of its own; `kept` the box's
    dimensions of more than one element, the only ones that the cache has.
    """

    tensor: str
    cache: str
    box: Box
    owners: tuple[Loop, ...]
    kept: tuple[int, ...]
    copied: Stmt
    stored: Stmt

    @property
    def shape(self) -> tuple[int, ...]:
        """The cache's shape, its owners first."""
        return (*(loop.first + loop.extent for loop in self.owners), *(self.box.shape[n] for n in self.kept))

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def access(self, expression: Expr) -> Expr:
        """An access of the tensor as one of the cache; any other expression as it is."""
        if not isinstance(expression, Access) or expression.tensor != self.tensor:
            return expression
        place = position(self.box, Use(expression.indices, {}))
        owned = tuple(Variable(loop.variable) for loop in self.owners)
        return Access(self.cache, (*owned, *(place[n] for n in self.kept)))


def staging(program: Program, path: Path, tensor: str, scope: Scope) -> Staging:
    """How the nest at `path`, which uses the tensor, can have it staged. Raises NoBox."""
    nest = statement_at(program, path)
    owners = _owners(nest) if scope == "l" else ()
    uses = list(_uses(nest, tensor, owners))
    box = bounding_box(use for use, _ in uses)
    kept = tuple(number for number, size in enumerate(box.shape) if size > 1)
    cache = unused_tensor(program)
    taken = variables_around(program, path) | set(free_variables(nest))
    names: list[str] = []
    for _ in kept:
        names.append(unused_variable({*taken, *names}))
    steps = dict(zip(kept, names, strict=True))
    place: list[Expr] = [plus(first, Variable(steps[n])) if n in steps else first for n, first in enumerate(box.first)]
    near = Access(cache, tuple(Variable(name) for name in (*(loop.variable for loop in owners), *names)))
    far = Access(tensor, tuple(place))
    loops = [Loop("L", steps[n], box.shape[n], 0, ()) for n in kept]
    around = [*loops_around(program, path), *owners, *loops]
    known = {loop.variable for loop in around}
    guards = _guards(uses, box, known, {n: Variable(name) for n, name in steps.items()})
    bounds = _inside(far, tensors(program)[tensor].shape, around, guards)
    levels = [*owners, *loops, *(Guard(condition, ()) for condition in (*guards, *bounds))]
    (copied,), (stored,) = (nested(levels, (Equation(to, "=", come),)) for to, come in ((near, far), (far, near)))
    return Staging(tensor, cache, box, owners, kept, copied, stored)


def _owners(nest: Stmt) -> tuple[Loop, ...]:
    """The thread loops that a nest begins with."""
    result: list[Loop] = []
    for _, level in perfect_nest(nest):
        if not is_thread(axis_of(level)):
            break
        assert isinstance(level, Loop)
        result.append(level)
    return tuple(result)


def _uses(nest: Stmt, tensor: str, owners: tuple[Loop, ...]) -> Iterator[tuple[Use, tuple[Expr, ...]]]:
    """The accesses of a tensor at and below a nest, each with the guards around it there.

    Their ranges are those of the loops inside the nest that are no owners.
    """
    around = (nest,) if isinstance(nest, Loop | Guard) else ()
    if isinstance(nest, Guard):
        yield from ((Use(a.indices, {}), ()) for a in accesses(nest.condition) if a.tensor == tensor)
    for _, statement, levels in walk_enclosed(nest, (), around):
        inside = [level for level in levels if isinstance(level, Loop) and level not in owners]
        ranges: dict[str, Interval] = {n.variable: _values(n) for n in inside}
        guards = tuple(level.condition for level in levels if isinstance(level, Guard))
        for expression in expressions(statement):
            yield from ((Use(a.indices, ranges), guards) for a in accesses(expression) if a.tensor == tensor)


def _guards(
    uses: Sequence[tuple[Use, tuple[Expr, ...]]], box: Box, known: set[str], steps: Mapping[int, Expr]
) -> list[Expr]:
    """The guards around every use, as far as they can be said of the copy: what is not used need not be copied.

    A loop variable inside that is, in every use, the place in one dimension of the box becomes the copy's own.
    """
    places = [position(box, use) for use, _ in uses]
    names: dict[str, Expr] = {}
    for number, step in steps.items():
        match {place[number] for place in places}:
            case found if len(found) == 1 and isinstance(only := next(iter(found)), Variable):
                names[only.name] = step
            case _:
                pass
    result: list[Expr] = []
    for condition in uses[0][1]:
        everywhere = all(condition in guards for _, guards in uses)
        sayable = variables_of(condition) <= known | set(names) and not any(accesses(condition))
        if everywhere and sayable:
            result.append(substitute_in(condition, names))
    return result


def _values(loop: Loop) -> Interval:
    return (loop.first, loop.first + loop.extent - 1)


def _inside(access: Access, shape: tuple[int, ...], around: list[Loop], guards: list[Expr]) -> list[Expr]:
    """What keeps an access within its tensor, as one condition or none, besides its loops and the guards it has."""
    ranges = {loop.variable: _values(loop) for loop in around}
    result: Expr | None = None
    for index, size in zip(access.indices, shape, strict=True):
        low, high = interval(index, ranges)
        parts = [Binary(">=", index, Integer(0))] if low < 0 else []
        parts += [Binary("<", index, Integer(size))] if high >= size else []
        for part in parts:
            if not any(_says(guard, part) for guard in guards):
                result = part if result is None else Binary("&&", result, part)
    return [] if result is None else [result]


def _says(guard: Expr, part: Binary) -> bool:
    """Whether a guard is the same comparison, its left side written as another sum."""
    return (
        isinstance(guard, Binary)
        and (guard.op, guard.right) == (part.op, part.right)
        and as_sum(guard.left) == as_sum(part.left)
    )
