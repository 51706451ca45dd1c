"""Choices and trajectories from verified steps: whole, without doubles, and none with a missing part."""

from stepTP.grouping import MOST_CHOICES, MOST_REFUSED, choices, rates_of, trajectories
from stepTP.records import FactRecord, RefusalRow, Step, StepRow
from tests.stepTP.test_filter import row


def rates(steps: list[StepRow]) -> dict[str, float]:
    return rates_of(row.strategy for row in steps)


def step(before: str, after: str, strategy: str, path: tuple[Step, ...] = (), undoes: int = 0) -> StepRow:
    made = row("s", strategy, before, after)
    states = {"state_id_before": before, "state_id_after": after}
    return made.model_copy(
        update={**states, "args": {"to": after}, "path": path, "depth": len(path) + 1, "undoes": undoes}
    )


def taken(row: StepRow) -> Step:
    return Step(strategy=row.strategy, args=row.args)


def refusal(strategy: str) -> RefusalRow:
    facts = tuple(FactRecord(name=name, holds=name == "a", evidence="") for name in "ab")
    return RefusalRow(
        id=strategy, split="train", held_out=None, source_id="s", family="s", depth=1, state_id="A", leir="A",
        strategy=strategy, level="operator", args={}, fact="b", facts=facts,
    )  # fmt: skip


AB = step("A", "B", "split")
BC = step("B", "C", "fuse", (taken(AB),))
CD = step("C", "D", "split", (taken(AB), taken(BC)))
CE = step("C", "E", "tile", (taken(AB), taken(BC)))
BACK = step("C", "B", "fission", (taken(AB), taken(BC)), undoes=1)


def test_a_state_with_two_strategies_is_a_choice() -> None:
    steps = [AB, BC, CD, CE, BACK]
    (found,) = choices(steps, [], rates(steps))
    assert (found.state_id, found.depth, found.path) == ("C", 2, CD.path)
    assert {choice.strategy for choice in found.choices} == {"split", "tile", "fission"}
    assert {choice.step: choice.undoes for choice in found.choices}[BACK.id] == 1


def test_two_steps_of_one_strategy_are_no_choice() -> None:
    steps = [AB, step("A", "C", "split")]
    assert list(choices(steps, [], rates(steps))) == []


def test_choices_are_bounded_and_begin_with_rare_strategies() -> None:
    many = [step("A", f"s{n}", f"s{n:02}") for n in range(12)]
    often = [step(f"X{n}", f"Y{m}{n}", f"s{m:02}") for n in range(400) for m in range(4)]
    refusals = [refusal(f"r{n}") for n in range(9)]
    found = next(row for row in choices([*many, *often], refusals, rates([*many, *often])) if row.state_id == "A")
    assert len(found.choices) == MOST_CHOICES
    assert not {f"s{m:02}" for m in range(4)} & {choice.strategy for choice in found.choices}
    assert len(found.refused) == MOST_REFUSED and all(refused.fact.name == "b" for refused in found.refused)


def test_a_trajectory_has_every_state() -> None:
    steps = [CD, BC, AB, CE, BACK]
    (found,) = trajectories(steps, rates(steps))
    assert (found.leir, found.length) == ("A", 3)
    assert [s.leir_after for s in found.steps][:2] == ["B", "C"]
    assert found.steps[2].leir_after in ("D", "E")  # one of two that differ in the last step alone, and not back


def test_a_trajectory_without_one_of_its_steps_is_none() -> None:
    assert list(trajectories([AB, CD], rates([AB, CD]))) == []
