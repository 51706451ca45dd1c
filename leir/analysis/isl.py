"""Questions to isl, the integer set library, as text: the one place that imports `islpy`.

A question is the text of a set or map in isl's notation with positional names, so that the same question asked about
another program, loop or pair of accesses is answered from a cache. The work on one question is bounded by isl's own
count of operations, not by a clock: the answer never depends on the machine.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

OPERATIONS = 500_000  # for one question: about a second at most; ordinary ones take under 10,000

Answer = TypeVar("Answer")
Point = tuple[int, ...]
Box = tuple[tuple[int, int], ...]  # the first and the last value in each dimension


class TooHard(Exception):
    """isl did not answer within `OPERATIONS`: the caller answers conservatively."""


@cache
def library() -> Any:
    """The module `islpy`, imported on first use because it takes longer to load than a command-line start may take."""
    import islpy

    return islpy


@cache
def context() -> Any:
    """The isl context of every set here."""
    result = library().Context()
    result.set_max_operations(OPERATIONS)
    return result


def bounded(question: Callable[[], Answer]) -> Answer:
    """The answer, found within `OPERATIONS`. Raises TooHard."""
    context().reset_operations()
    try:
        return question()
    except library().Error:
        if _is_spent():
            raise TooHard("isl's limit of operations") from None
        raise


def _is_spent() -> bool:
    """Whether the operations are used up: then nothing works any more, while the error may name what failed last."""
    try:
        a_set("{ [a] : 0 <= a < 2 or 3 <= a < 5 }").is_empty()
    except library().Error:
        return True
    return False


def a_set(text: str) -> Any:
    """The set that the text writes."""
    return library().Set.read_from_str(context(), text)


def a_union(text: str) -> Any:
    """The union map that the text writes."""
    return library().UnionMap.read_from_str(context(), text)


def conjunction(constraints: Iterable[str]) -> str:
    """The constraints as one, as isl text; each only once."""
    return " and ".join(dict.fromkeys(constraints)) or "true"


def question(dimensions: Sequence[str], constraints: Iterable[str]) -> str:
    """The set of the points with these dimensions that meet the constraints, as isl text."""
    return f"{{ [{','.join(dimensions)}] : {conjunction(constraints)} }}"


def union(pieces: Iterable[str]) -> str:
    """A set or map of several pieces as isl text."""
    return f"{{ {'; '.join(pieces)} }}"


def point_of(found: Any) -> Point | None:
    """The first point of a set in lexicographic order, any point where there is no first; None if it is empty."""
    if found.is_empty():
        return None
    try:
        single = found.lexmin()
    except library().Error:
        single = found
    point = single.sample_point()
    dimension = library().dim_type.set
    return tuple(point.get_coordinate_val(dimension, number).to_python() for number in range(found.dim(dimension)))


def example(text: str) -> Point | None:
    """A point of the set that the text writes, its first where it has one; None if it is empty. Raises TooHard."""
    answer = _example(text)
    if isinstance(answer, str):
        raise TooHard(answer)
    return answer


@lru_cache(maxsize=50_000)
def _example(text: str) -> Point | str | None:
    try:
        return bounded(lambda: point_of(a_set(text)))
    except TooHard as error:
        return str(error)


def left_over(whole: str, part: str, projected: int) -> Point | None:
    """A point of the set `whole` that no point of `part`, less its last `projected` dimensions, equals; None if there
    is none. Raises TooHard.
    """
    answer = _left_over(whole, part, projected)
    if isinstance(answer, str):
        raise TooHard(answer)
    return answer


@lru_cache(maxsize=10_000)
def _left_over(whole: str, part: str, projected: int) -> Point | str | None:
    def ask() -> Point | None:
        found = a_set(part)
        dimension = library().dim_type.set
        found = found.project_out(dimension, found.dim(dimension) - projected, projected)
        return point_of(a_set(whole).subtract(found))

    try:
        return bounded(ask)
    except TooHard as error:
        return str(error)


def largest(text: str, dimension: int) -> int | None:
    """The largest value of one dimension of a set; None if the set is empty or unbounded. Raises TooHard."""
    return _extreme(text, dimension, True)


def smallest(text: str, dimension: int) -> int | None:
    """The smallest value of one dimension of a set; None if the set is empty or unbounded. Raises TooHard."""
    return _extreme(text, dimension, False)


def _extreme(text: str, dimension: int, most: bool) -> int | None:
    answer = _cached_extreme(text, dimension, most)
    if isinstance(answer, str):
        raise TooHard(answer)
    return answer


@lru_cache(maxsize=10_000)
def _cached_extreme(text: str, dimension: int, most: bool) -> int | str | None:
    def ask() -> int | None:
        found = a_set(text)
        if found.is_empty():
            return None
        value = found.dim_max_val(dimension) if most else found.dim_min_val(dimension)
        return value.to_python() if value.is_int() else None

    try:
        return bounded(ask)
    except TooHard as error:
        return str(error)


def box_hulls(text: str, projected: int) -> tuple[tuple[Box, ...], bool]:
    """Of a bounded set, less its dimensions after the first `projected`: the smallest box around the points of each run
    of values of the first dimension, in their order; and whether the boxes hold nothing else. Raises TooHard.
    """
    answer = _box_hulls(text, projected)
    if isinstance(answer, str):
        raise TooHard(answer)
    return answer


@lru_cache(maxsize=10_000)
def _box_hulls(text: str, projected: int) -> tuple[tuple[Box, ...], bool] | str:
    def ask() -> tuple[tuple[Box, ...], bool]:
        dimension = library().dim_type.set
        found = a_set(text)
        found = found.project_out(dimension, projected, found.dim(dimension) - projected).coalesce()
        values = found.project_out(dimension, 1, projected - 1)
        boxes: list[Box] = []
        covered = found.subtract(found)
        while not values.is_empty():
            first = values.dim_min_val(0).to_python()
            beyond = a_set(f"{{ [v] : v > {first} }}").subtract(values)
            last = beyond.dim_min_val(0).to_python() - 1
            run = found.intersect(_within([(first, last)], projected))
            box = tuple((run.dim_min_val(n).to_python(), run.dim_max_val(n).to_python()) for n in range(projected))
            boxes.append(box)
            covered = covered.union(_within(box, projected))
            values = values.intersect(a_set(f"{{ [v] : v > {last} }}"))
        return tuple(boxes), bool(covered.is_subset(found))

    try:
        return bounded(ask)
    except TooHard as error:
        return str(error)


def _within(box: Sequence[tuple[int, int]], dimensions: int) -> Any:
    """The points whose first coordinates lie in the box."""
    bounds = [f"{low} <= d{number} <= {high}" for number, (low, high) in enumerate(box)]
    return a_set(question([f"d{number}" for number in range(dimensions)], bounds))
