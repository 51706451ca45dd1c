"""A step that a step makes possible: the program after it offers it, and the program before it none like it."""

from collections.abc import Iterable, Sequence
from functools import lru_cache

from leir.canonical import state_id
from leir.names import tensor_names
from leir.syntax import Program
from stepTP.narrate.difference import Change
from stepTP.records import Step, step_json
from strategies.base import Refused, Strategy
from strategies.catalog import strategies, strategy

TRIED = 4  # strategies, for each step that is explained: one candidate of each


def next_step(before: Program, after: Program, taken: Step, changed: Sequence[Change]) -> Step | None:
    """A legal step of another strategy where the program changed, whose like the program before does not offer.

    The strategy must have more candidates than before: a loop that only moved is no new one. Few are tried: None means
    that none was found.
    """
    if len(changed) != 1:
        return None
    (change,) = changed
    old, new = ((change.at - 1, change.at - 1 + len(lines)) for lines in (change.old, change.new))
    tried, page = 0, strategy(taken.strategy).page()
    for kind in strategies():
        if kind.name == taken.strategy or f"Inverse: {kind.name}" in page:
            continue  # a part of the step undone is nothing that it makes possible
        known, offered = _offered(before, kind.name), _offered(after, kind.name)
        for shown, candidate in reversed(offered.values() if len(offered) > len(known) else ()):
            if not _is_there(shown, before, new) or any(step_json(s) in known for s in _likes(shown, old, new)):
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
            return shown
    return None


@lru_cache(maxsize=512)  # a state's steps share what it offers, and what one step leads to is where the next begins
def _offered(program: Program, name: str) -> dict[str, tuple[Step, Strategy]]:
    """A strategy's candidates by their JSON, in their order."""
    steps = ((Step(**candidate.to_json()), candidate) for candidate in strategy(name).candidates(program))
    return {step_json(step): (step, candidate) for step, candidate in steps}


def _is_there(step: Step, before: Program, changed: tuple[int, int]) -> bool:
    """Whether a step is about statements that changed, or about a tensor that was there before."""
    if "tensor" in step.args:
        return step.args["tensor"] in tensor_names(before)
    return any(path and changed[0] <= path[0] < changed[1] for path in paths_of(step))


def _likes(step: Step, old: tuple[int, int], new: tuple[int, int]) -> Iterable[Step]:
    """The step with the changed statement that it names replaced by each that stood in its place."""
    yield step
    for number in range(*old):
        args = {
            name: [number, *value[1:]] if isinstance(value, list) and value and new[0] <= value[0] < new[1] else value
            for name, value in step.args.items()
        }
        yield Step(strategy=step.strategy, args=args)


def paths_of(step: Step) -> list[list[int]]:
    """The arguments of a step that are paths."""
    lists = (value for value in step.args.values() if isinstance(value, list))
    return [value for value in lists if all(isinstance(number, int) for number in value)]
