"""A step that a step makes possible: the program after it offers it, and the program before it none like it."""

from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache

from leir.canonical import state_id
from leir.names import tensor_names
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Loop, Program
from stepTP.draw import digest
from stepTP.narrate.difference import Change
from stepTP.records import Step
from strategies.base import Refused, Strategy, statement_or_none
from strategies.catalog import names, strategy
from strategies.grid import Grid
from strategies.index import named_in
from strategies.memory.layout_transformation import LayoutTransformation

ASKED = 6  # strategies, for each step that is explained
TRIED = 4  # of the steps that these offer, one a strategy


def next_step(
    key: str, before: Program, after: Program, taken: Step, changed: Sequence[Change], grid: Grid
) -> Step | None:
    """A legal step of another strategy where the program changed, whose like the program before does not offer.

    The strategy must have more candidates than before: a loop that only moved is no new one. Few strategies are asked,
    first those that the taken one's page names, then by the hash of `key`; None means that these gave none. `grid`: of
    the build, so that no size is spoken of which it does not try.
    """
    if len(changed) != 1:
        return None
    (change,) = changed
    old, new = ((change.at - 1, change.at - 1 + len(lines)) for lines in (change.old, change.new))
    tensors, tried = tensor_names(before), 0
    for name in _order(key, taken.strategy)[:ASKED]:
        offered = _offered(after, name, grid)
        there = [candidate for candidate in reversed(offered) if _is_there(candidate, tensors, new)]
        known = _known(to_text(before), name, grid) if there else frozenset[Strategy]()
        for candidate in there if len(offered) > len(known) else ():
            if candidate in known or _is_like(candidate, known, old, new):
                continue
            if _is_moved(candidate, known, old, before, after):
                continue
            if tried == TRIED:
                return None
            try:
                applied = candidate.apply(after)
            except Refused:
                tried += 1
                break
            if state_id(applied.program) == state_id(before):
                continue  # that undoes the step
            return Step(**candidate.to_json())
    return None


def _order(key: str, taken: str) -> list[str]:
    """The strategies to ask: the taken one's inverse undoes a part of it, which is nothing that it makes possible."""
    named, inverse = _named_by(taken)
    drawn = sorted(set(names()) - {taken, *named, *inverse}, key=lambda name: digest(key, "next", name))
    return [*named, *drawn]


@cache
def _named_by(taken: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The strategies that a strategy's page names, in its order: those that may follow, and its inverses."""
    text, _, inverses = strategy(taken).page().partition("Inverse:")
    undo = tuple(name for name in named_in(inverses) if name != taken)
    return tuple(name for name in named_in(text) if name not in (taken, *undo)), undo


@lru_cache(maxsize=256)  # a state's steps are explained one after the other
def _known(text: str, name: str, grid: Grid) -> frozenset[Strategy]:
    """What a strategy offers for the program of this text."""
    return frozenset(_offered(parse(text), name, grid))


def _offered(program: Program, name: str, grid: Grid) -> list[Strategy]:
    """A strategy's candidates, each once, in their order."""
    return list(dict.fromkeys(strategy(name).proposed(program, grid)))


def _is_there(step: Strategy, tensors: Collection[str], changed: tuple[int, int]) -> bool:
    """Whether a step is about statements that changed, or about a tensor of `tensors`, which was there before."""
    tensor = getattr(step, "tensor", None)
    if tensor is not None:
        return tensor in tensors
    return any(path and changed[0] <= path[0] < changed[1] for path in _paths(step).values())


def _is_like(step: Strategy, known: frozenset[Strategy], old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether the step was known about a statement that stood where the one it names stands."""
    moved = {name: path for name, path in _paths(step).items() if path and new[0] <= path[0] < new[1]}
    return any(
        step.model_copy(update={name: (number, *path[1:]) for name, path in moved.items()}) in known
        for number in range(*old)
    )


def _is_moved(
    step: Strategy, known: frozenset[Strategy], old: tuple[int, int], before: Program, after: Program
) -> bool:
    """Whether the step was known with its loops at other paths of what changed, or its tensor at another statement."""
    if isinstance(step, LayoutTransformation):
        return any(other.model_copy(update={"at": step.at}) == step for other in known)
    own = _loops(step, after)
    return own is not None and any(
        all(path and old[0] <= path[0] < old[1] for path in _paths(other).values()) and _loops(other, before) == own
        for other in known
    )


def _loops(step: Strategy, program: Program) -> tuple[object, ...] | None:
    """The loops that a step names, as their headers say, and its other arguments; None where it names others."""
    paths = _paths(step)
    found = [node for path in paths.values() if isinstance(node := statement_or_none(program, path), Loop)]
    if not found or len(found) != len(paths):
        return None
    rest = tuple((name, value) for name, value in step if name not in paths)
    return (*((loop.kind, loop.variable, loop.extent, loop.first) for loop in found), rest)


def _paths(step: Strategy) -> dict[str, tuple[int, ...]]:
    """The arguments of a step that are lists of numbers, as paths are."""
    return {name: value for name in type(step).model_fields if _is_numbers(value := getattr(step, name))}


def _is_numbers(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(number, int) for number in value)


def paths_of(step: Step) -> Iterator[list[int]]:
    """The arguments of a step that are paths."""
    lists = (value for value in step.args.values() if isinstance(value, list))
    return (value for value in lists if all(isinstance(number, int) for number in value))
