"""Rows of several steps: the choices that a state offers, and the trajectories that steps make one after the other.

Both are made of verified steps of one source, in the second pass. Where only some can be taken, rare strategies go
first: a race by hash (`stepTP.draw.arrival`), in which a strategy's rate is 1 over its number of rows in the whole run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stepTP.draw import arrival
from stepTP.records import (
    ChoicesRow,
    Objective,
    RefusalRow,
    RefusedChoice,
    Step,
    StepRow,
    TakenStep,
    TrajectoryRow,
    row_id,
    step_json,
)

MOST_CHOICES = 8  # of one state, each of another strategy
MOST_REFUSED = 4
SHORTEST = 3  # steps of a trajectory


def rates_of(strategies: Iterable[str]) -> dict[str, float]:
    """The rate of each strategy in a race, from the strategies of all steps."""
    return {name: 1 / count for name, count in Counter(strategies).items()}


def choices(
    steps: Sequence[StepRow], refusals: Sequence[RefusalRow], rates: Mapping[str, float]
) -> Iterator[ChoicesRow]:
    """A row for each state with steps of two strategies or more, in the order of the states' first steps."""
    at: dict[tuple[str, str], list[StepRow]] = defaultdict(list)
    for row in steps:
        at[row.source.id, row.state_id_before].append(row)
    refused: dict[tuple[str, str], list[RefusalRow]] = defaultdict(list)
    for row in refusals:
        refused[row.source_id, row.state_id].append(row)
    for key, rows in at.items():
        of_each: dict[str, StepRow] = {}
        for row in _in_race(rows, rates):
            of_each.setdefault(row.strategy, row)
        if len(of_each) > 1:
            yield _choices_row(list(of_each.values())[:MOST_CHOICES], _refused(refused[key]))


def trajectories(steps: Sequence[StepRow], rates: Mapping[str, float]) -> Iterator[TrajectoryRow]:
    """A row for each state that was expanded last on its way: the path to it, and one step from it."""
    by_end = {(row.source.id, _path_key((*row.path, _step(row)))): row for row in steps if not row.undoes}
    went_on = {(row.source.id, _path_key(row.path)) for row in steps if not row.undoes}
    last: dict[tuple[str, str], list[StepRow]] = defaultdict(list)
    for end, row in by_end.items():
        if end not in went_on and row.depth >= SHORTEST:
            last[row.source.id, _path_key(row.path)].append(row)
    for rows in last.values():
        row = next(_in_race(rows, rates))
        whole = [by_end.get((row.source.id, _path_key(row.path[:n]))) for n in range(1, row.depth)]
        found = [step for step in whole if step is not None]
        if len(found) == len(whole):  # a step may be missing: what cannot be explained, or is left out, has no row
            yield trajectory_row([*found, row])


def trajectory_row(steps: Sequence[StepRow], objective: Objective | None = None) -> TrajectoryRow:
    """The row of steps that follow each other. `objective`: of the search that took them; None: the walk did."""
    first, last = steps[0], steps[-1]
    return TrajectoryRow(
        id=row_id("trajectory", *(row.id for row in steps)),
        split=first.split,
        held_out=first.held_out,
        source=first.source,
        names=first.names,
        program_signature=first.program_signature,
        origin="walk" if objective is None else "search",
        objective=objective,
        state_id=first.state_id_before,
        leir=first.leir_before,
        length=last.depth,
        steps=tuple(map(_taken, steps)),
        tool_versions=first.tool_versions,
    )


def _in_race(rows: Sequence[StepRow], rates: Mapping[str, float]) -> Iterator[StepRow]:
    return iter(sorted(rows, key=lambda row: (arrival(rates[row.strategy], "grouping", row.id), row.id)))


def _refused(rows: Sequence[RefusalRow]) -> tuple[RefusedChoice, ...]:
    """Some of a state's refusals, each of another strategy."""
    of_each: dict[str, RefusalRow] = {}
    for row in sorted(rows, key=lambda row: arrival(1.0, "grouping", row.id)):
        of_each.setdefault(row.strategy, row)
    chosen = list(of_each.values())[:MOST_REFUSED]
    return tuple(RefusedChoice(strategy=row.strategy, args=row.args, fact=row.facts[-1]) for row in chosen)


def _step(row: StepRow) -> Step:
    return Step(strategy=row.strategy, args=row.args)


def _path_key(path: Sequence[Step]) -> str:
    return "\n".join(map(step_json, path))


def _choices_row(steps: Sequence[StepRow], refused: tuple[RefusedChoice, ...]) -> ChoicesRow:
    first = steps[0]
    return ChoicesRow(
        id=row_id("choices", first.source.id, first.state_id_before),
        split=first.split,
        held_out=first.held_out,
        source=first.source,
        names=first.names,
        program_signature=first.program_signature,
        depth=len(first.path),
        path=first.path,
        state_id=first.state_id_before,
        leir=first.leir_before,
        choices=tuple(map(_taken, steps)),
        refused=refused,
        tool_versions=first.tool_versions,
    )


def _taken(row: StepRow) -> TakenStep:
    return TakenStep(
        step=row.id,
        strategy=row.strategy,
        level=row.level,
        args=row.args,
        bit_exact=row.bit_exact,
        undoes=row.undoes,
        leir_after=row.leir_after,
        state_id_after=row.state_id_after,
        reasoning=row.reasoning,
        answer=row.answer,
        verification=row.verification,
    )
