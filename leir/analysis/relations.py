"""Relations between instances of two programs compared as isl sees them: who runs, and who writes for whom."""

from functools import lru_cache
from typing import Any

from leir.analysis.dataflow import FlowQuestion, flow
from leir.analysis.isl import a_set, a_union, bounded, library

Instance = tuple[str, tuple[int, ...]]  # a name in isl, and the values of its dimensions


@lru_cache(maxsize=2_000)
def wrong_instance(whole: str, pieces: str) -> tuple[str, tuple[int, ...]] | None:
    """An instance that runs never, twice, or although it should not; None if there is none. Raises TooHard."""

    def ask() -> tuple[str, tuple[int, ...]] | None:
        wanted, runs = a_set(whole).to_union_set(), a_union(pieces)
        ran = runs.range()
        for reason, wrong in (("no longer runs", wanted.subtract(ran)), ("did not run before", ran.subtract(wanted))):
            if not wrong.is_empty():
                return reason, _instances(wrong)[0][1]
        if not runs.is_injective():
            pairs = runs.apply_range(runs.reverse())
            twice = pairs.subtract(runs.domain().identity()).domain().apply(runs)
            return "runs twice", _instances(twice)[0][1]
        return None

    return bounded(ask)


def reads_unwritten(question: FlowQuestion) -> bool:
    """Whether some read finds nothing written. Raises TooHard."""
    found = flow(question)[1]
    return bounded(lambda: not found.is_empty())


@lru_cache(maxsize=2_000)
def wrong_writer(
    old: FlowQuestion, new: FlowQuestion, match: str
) -> tuple[Instance, list[Instance], list[Instance]] | None:
    """A reader whose writers differ, in terms of `before`, with its writers before and after. Raises TooHard."""
    old_flow, new_flow = flow(old)[0], flow(new)[0]

    def ask() -> tuple[Instance, list[Instance], list[Instance]] | None:
        matching = a_union(match)
        moved = new_flow.apply_domain(matching).apply_range(matching)
        for more, less in ((old_flow, moved), (moved, old_flow)):
            difference = more.subtract(less)
            if not difference.is_empty():
                reader = library().UnionSet.from_point(difference.range().sample_point())
                was, becomes = (side.intersect_range(reader).domain() for side in (old_flow, moved))
                return _instances(reader)[0], _instances(was), _instances(becomes)
        return None

    return bounded(ask)


def _instances(found: Any) -> list[Instance]:
    """The first point of each named set of a union, in the order of names."""
    result: list[Instance] = []
    dimension = library().dim_type.set
    pieces: list[Any] = []
    found.foreach_set(pieces.append)
    for piece in pieces:
        point = piece.lexmin().sample_point()
        values = tuple(point.get_coordinate_val(dimension, n).to_python() for n in range(piece.dim(dimension)))
        result.append((piece.get_tuple_name(), values))
    return sorted(result)
