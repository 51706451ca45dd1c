"""How what a nest touches of a tensor is staged in a nearer memory: the box, its copy, and the new accesses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from leir.analysis.access import tensors
from leir.analysis.affine import Interval, interval
from leir.analysis.box import Box, NoBox, Use, as_sum, bounding_box, plus, position
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
from leir.syntax import (
    Access,
    Binary,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Scope,
    Stmt,
    Unary,
    Variable,
)


@dataclass(frozen=True, slots=True)
class Staging:
    """`tensor`'s elements in `box` live in `cache` while a nest runs.

    `owners` are the thread loops that the nest begins with, where each thread has a box of its own; `kept` the numbers
    of the box's axes of more than one place, the only ones that the cache has.
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
    place = _place(box, {n: Variable(name) for n, name in steps.items()})
    near = Access(cache, tuple(Variable(name) for name in (*(loop.variable for loop in owners), *names)))
    far = Access(tensor, tuple(place))
    loops = [Loop("L", steps[n], box.shape[n], 0, ()) for n in kept]
    around = [*loops_around(program, path), *owners, *loops]
    outside = {loop.variable for loop in (*loops_around(program, path), *owners)}
    guards = _guards(uses, box, outside, {n: Variable(name) for n, name in steps.items()})
    bounds = _inside(far, tensors(program)[tensor].shape, around, guards)
    levels = [*owners, *loops, *(Guard(condition, ()) for condition in (*guards, *bounds))]
    (copied,), (stored,) = (nested(levels, (Equation(to, "=", come),)) for to, come in ((near, far), (far, near)))
    return Staging(tensor, cache, box, owners, kept, copied, stored)


@lru_cache(maxsize=4096)  # a step leaves most nests as they are
def staged_elements(nest: Stmt, tensor: str, scope: Scope) -> int | None:
    """How many elements `staging` has in the cache for a nest; None where what it touches is no box."""
    owners = _owners(nest) if scope == "l" else ()
    try:
        box = bounding_box(use for use, _ in _uses(nest, tensor, owners))
    except NoBox:
        return None
    return prod(loop.first + loop.extent for loop in owners) * prod(box.shape)


def _place(box: Box, steps: Mapping[int, Expr]) -> list[Expr]:
    """The tensor's subscripts at a place of the box, which `steps` gives along the axes that have more than one."""
    result = list(box.first)
    for number, axis in enumerate(box.axes):
        if number in steps:
            step = steps[number] if axis.stride == 1 else Binary("*", steps[number], Integer(axis.stride))
            result[axis.dimension] = plus(result[axis.dimension], step)
    return result


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
    uses: Sequence[tuple[Use, tuple[Expr, ...]]], box: Box, outside: set[str], steps: Mapping[int, Expr]
) -> list[Expr]:
    """The guards around every use, as far as they can be said of the copy: what is not used need not be copied."""
    places = [position(box, use) for use, _ in uses]
    names: dict[str, Expr] = {}
    for number, step in steps.items():
        match {place[number] for place in places}:
            case found if len(found) == 1 and isinstance(only := next(iter(found)), Variable):
                names[only.name] = step
            case _:
                pass
    far = _place(box, steps)
    first, *others = ([_of_copy(guard, use, far, names, outside) for guard in guards] for use, guards in uses)
    return [said for said in first if said is not None and all(said in other for other in others)]


def _of_copy(condition: Expr, use: Use, far: Sequence[Expr], names: dict[str, Expr], outside: set[str]) -> Expr | None:
    """A guard around a use in terms of the element at `far`; None where it depends on more than which element that is.

    An operand that differs from a subscript of the use by what the loops around decide follows the element's own. A
    loop variable in `names` is a place in the box.
    """
    match condition:
        case Binary("&&" | "||" | "<" | "<=" | ">" | ">=" | "==" | "!=" as op, left, right):
            sides = [_of_copy(side, use, far, names, outside) for side in (left, right)]
            return None if sides[0] is None or sides[1] is None else Binary(op, sides[0], sides[1])
        case _ if any(accesses(condition)):
            return None
        case _ if variables_of(condition) <= outside:
            return condition
        case _:
            for index, place in zip(use.indices, far, strict=True):
                apart = plus(condition, Unary("-", index))
                if variables_of(apart) <= outside:
                    return plus(place, apart)
            known = variables_of(condition) <= outside | set(names)
            return substitute_in(condition, names) if known else None


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
            if not any(_says(claim, part) for guard in guards for claim in _claims(guard)):
                result = part if result is None else Binary("&&", result, part)
    return [] if result is None else [result]


def _claims(guard: Expr) -> Iterator[Expr]:
    """The comparisons that hold where a guard does, what is compared with a number on the left."""
    match guard:
        case Binary("&&", left, right):
            yield from (*_claims(left), *_claims(right))
        case Binary("<=", Integer() as low, right):
            yield Binary(">=", right, low)
        case _:
            yield guard


def _says(guard: Expr, part: Binary) -> bool:
    """Whether a guard is the same comparison, its left side written as another sum."""
    return (
        isinstance(guard, Binary)
        and (guard.op, guard.right) == (part.op, part.right)
        and as_sum(guard.left) == as_sum(part.left)
    )
