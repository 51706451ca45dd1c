"""Distances of dependences: by how many iterations of each loop two instances are apart that touch one element.

Dependences are those of `leir.analysis.dependence`: storage is expanded by lifetime, one of the two writes, and a value
that is overwritten in between counts.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

from leir.analysis.dependence import Touch, index_alone, is_known, is_reduction, pairs, same_element, touches_by_tensor
from leir.analysis.isl import Box, TooHard, a_set, bounded, conjunction, library, point_of, question
from leir.analysis.model import lifetimes, reach
from leir.syntax import Path, Program

LISTED = 3  # distances of a nest, and of one pair of accesses; more become the box around them


def distances(
    program: Program, path: Path, first: int, last: int, unordered: Collection[Path] = ()
) -> tuple[Box, ...] | None:
    """The distances of dependences between iterations of the loops `first` to `last` (itself not one of them).

    Loops are numbered from the outside in. All of them are around the statements at and below `path`, which are looked
    at, in one iteration of the loops before `first`. Each box is one distance, or holds several; there is none where no
    two iterations depend on each other. Dependences between two of the accumulations `unordered`, by one operator, do
    not count. None where subscripts or guards are not quasi-affine, or a guard that reads a tensor stands between.
    """
    life = lifetimes(program)
    found: list[Box] = []
    for tensor, touches in touches_by_tensor(program, path).items():
        for source, target in pairs(touches):
            is_free = source.statement.path in unordered and target.statement.path in unordered
            if is_free and is_reduction(source, target):
                continue
            boxes = _of_pair(source, target, range(first, last), life, tensor)
            if boxes is None:
                return None
            found += boxes
    distinct = tuple(sorted(dict.fromkeys(found)))
    return distinct if len(distinct) <= LISTED else (_around(distinct),)


def _around(boxes: Sequence[Box]) -> Box:
    """The smallest box that holds some others."""
    return tuple((min(low for low, _ in ends), max(high for _, high in ends)) for ends in zip(*boxes, strict=True))


def _of_pair(source: Touch, target: Touch, loops: range, life: dict[str, int], tensor: str) -> tuple[Box, ...] | None:
    """The distances from instances of one access to later ones of the other; None where they are not known."""
    first = loops.start
    if min(len(source.statement.loops), len(target.statement.loops)) < loops.stop:
        return None  # a guard that reads a tensor stands between the loops
    fixed = [n for n in loops if n < life.get(tensor, 0) or index_alone(source, n) & index_alone(target, n)]
    if len(fixed) == len(loops):
        return ()
    if not (is_known(source) and is_known(target)):
        return None
    xs, ys = source.statement.dimensions("x", first), target.statement.dimensions("y", first)
    steps = [f"d{n}" for n in loops]
    where = [f"{step} = {ys[n]}-{xs[n]}" for step, n in zip(steps, loops, strict=True)]
    where.append(_positive(steps))
    where += reach(source.statement, source.use, "x", first) + reach(target.statement, target.use, "y", first)
    where += same_element(source, target, first, life)
    answer = _boxes(question([*steps, *xs, *ys[first:]], where), len(steps))
    return None if isinstance(answer, str) else answer


def _positive(steps: Sequence[str]) -> str:
    """isl text: the steps are lexicographically positive."""
    ways = [conjunction([*(f"{zero} = 0" for zero in steps[:n]), f"{step} > 0"]) for n, step in enumerate(steps)]
    return f"({' or '.join(f'({way})' for way in ways)})"


@lru_cache(maxsize=20_000)
def _boxes(text: str, kept: int) -> tuple[Box, ...] | str:
    """The points of a bounded set, less its dimensions after the first `kept`; or the box around them, if many."""

    def ask() -> tuple[Box, ...]:
        dimension = library().dim_type.set
        whole = a_set(text)
        rest = whole = whole.project_out(dimension, kept, whole.dim(dimension) - kept)
        points: list[Box] = []
        while (point := point_of(rest)) is not None:
            if len(points) == LISTED:
                return (
                    tuple((whole.dim_min_val(n).to_python(), whole.dim_max_val(n).to_python()) for n in range(kept)),
                )
            points.append(tuple((value, value) for value in point))
            rest = rest.subtract(a_set(_alone(point)))
        return tuple(points)

    try:
        return bounded(ask)
    except TooHard as error:
        return str(error)


def _alone(point: Iterable[int]) -> str:
    """The set of one point, as isl text."""
    return f"{{ [{','.join(str(value) for value in point)}] }}"
