"""Rewards: monotone, bounded, nothing for a copy; and each trainer's signature, with the trainer itself elsewhere."""

import asyncio
import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest

from stepTP.rewards import verifiers, verl
from stepTP.rewards.shaping import Shaping, Unscored, crowds, reward
from stepTP.rewards.tasks import columns_of, task_data, text_of
from stepTP.rewards.trl import StepReward
from stepTP.verify import Outcome, Problem, ScoreReport, Task
from tests.stepTP.test_score import ALL, FREE, TASK

PASS, FAIL = Outcome(status="pass"), Outcome(status="fail", code="x")


def report(*stages: str, **fields: Any) -> ScoreReport:
    """One that passed these stages."""
    return ScoreReport(**dict.fromkeys(stages, PASS), **fields)


def test_each_stage_adds_its_weight() -> None:
    found = [reward(report(*ALL[:n])) for n in range(7)]
    assert found == pytest.approx([0, 0.05, 0.1, 0.4, 0.4, 0.4, 0.8])


def test_a_right_program_that_is_no_legal_step_earns_no_more_than_a_well_formed_one() -> None:
    copied = report("parsed", "well_formed", "lowers", "runs", "equal", "speedup", legal=FAIL, speedup_vs_state=100.0)
    assert reward(copied) == reward(report("parsed", "well_formed"))


def test_where_no_step_is_asked_for_none_is_missed() -> None:
    free = report("parsed", "well_formed", "lowers", "runs", "equal", legal=Outcome(code="no-step"))
    assert reward(free) == pytest.approx(0.8)


def test_speed_counts_after_equality_alone() -> None:
    assert reward(report(*ALL[:5], "speedup", equal=FAIL, speedup_vs_state=100.0)) == pytest.approx(0.4)
    speeds = [0.1, 1.0, 1.5, 2.0, 8.0, 1e9]
    noise = report(*ALL, speedup=Outcome(status="fail", code="within-noise"), speedup_vs_state=100.0)
    assert reward(noise) == pytest.approx(0.8)
    found = [reward(report(*ALL, "speedup", speedup_vs_state=speed)) for speed in speeds]
    assert found == sorted(found)
    assert found == pytest.approx([0.8, 0.8, 0.8 + 0.2 * 0.19499, 0.8 + 0.2 / 3, 1.0, 1.0], abs=1e-4)


def test_passing_one_more_stage_never_lowers_a_reward() -> None:
    for passed in itertools.product((PASS, FAIL), repeat=4):
        stages = dict(zip(("parsed", "well_formed", "legal", "equal"), passed, strict=True))
        value = reward(ScoreReport(**stages))
        assert 0 <= value <= 1
        assert all(reward(ScoreReport(**{**stages, name: PASS})) >= value for name in stages)


def test_weights_are_the_users_and_are_checked() -> None:
    sparse = Shaping(parsed=0, well_formed=0, legal=0, equal=1, speed=0)
    assert [reward(report(*ALL[:n]), sparse) for n in (2, 3, 6)] == [0, 0, 1]
    for bad in ({"equal": -0.1}, {"equal": 0.9}, {"full_speedup": 1.0}, {"speed": float("nan")}):
        with pytest.raises(ValueError, match=r"weights|full_speedup"):
            Shaping(**bad)


def test_what_equality_adds_is_shared_by_answers_of_one_strategy_to_one_state() -> None:
    shared = Shaping(shared=True)
    right, wrong = report(*ALL, strategy="loop_split"), report(*ALL[:5], equal=FAIL, strategy="loop_split")
    other = report(*ALL, "speedup", strategy="apart", speedup_vs_state=8.0)
    found = [right, wrong, right, other, right, ScoreReport(error=Problem(kind="pool", message="gone"))]
    states = ["A", "A", "A", "A", "B", "A"]
    assert crowds(found, states) == [2, 1, 2, 1, 1, 1]
    assert [reward(one, shared, crowd) for one, crowd in zip(found[:5], [2, 1, 2, 1, 1], strict=True)] == pytest.approx(
        [0.6, 0.4, 0.6, 1.0, 0.8]
    )
    assert reward(right, Shaping(), 2) == reward(right)
    assert reward(right, shared, 1000) > reward(wrong, shared)  # right is worth more, whatever the crowd


def test_trl_shares_within_a_call() -> None:
    told = Told(*[report(*ALL, strategy="loop_split")] * 2)
    columns = columns_of(TASK)
    calls = [{name: [value, value + end] for name, value in columns.items()} for end in ("", " ")]
    for call, expected in zip(calls, (0.6, 0.8), strict=True):
        call["source"] = [columns["source"]] * 2
        function = StepReward(Shaping(shared=True), told)  # pyright: ignore[reportArgumentType]
        assert function(completions=["a", "b"], **call) == pytest.approx([expected] * 2)


def test_an_error_is_no_reward() -> None:
    with pytest.raises(Unscored, match="pool: no worker"):
        reward(ScoreReport(error=Problem(kind="pool", message="no worker")))


@pytest.mark.parametrize("task", [TASK, FREE])
def test_a_task_survives_its_columns(task: Task) -> None:
    columns = columns_of(task)
    assert Task.model_validate(task_data(**columns)) == task
    assert Task.model_validate(task_data(columns["state"], json.loads(columns["source"]))) == task
    with pytest.raises(ValueError, match="JSON object"):
        task_data(task.state, "[]")


@pytest.mark.parametrize(
    "completion",
    [
        "text",
        [{"role": "assistant", "content": "text"}],
        [{"role": "assistant", "content": "no"}, {"role": "assistant", "content": [{"type": "text", "text": "text"}]}],
    ],
)
def test_a_completion_is_text_or_a_conversation(completion: Any) -> None:
    assert text_of(completion) == "text"
    assert text_of([]) == text_of([{"role": "assistant", "content": None}]) == ""


class Told:
    """A scorer that says what it is told to, and what it was asked."""

    def __init__(self, *reports: ScoreReport) -> None:
        self.reports, self.asked = reports, []

    def score_many(self, answers: Any) -> list[ScoreReport]:
        self.asked += answers
        return list(self.reports)

    def score(self, text: str, task: Any) -> ScoreReport:
        return self.score_many([(text, task)])[0]


def test_trl_gets_a_list_and_none_where_it_is_nobodys_fault(caplog: pytest.LogCaptureFixture) -> None:
    told = Told(report(*ALL), ScoreReport(error=Problem(kind="task", message="no source")))
    function = StepReward(Shaping(equal=0.3), told)  # pyright: ignore[reportArgumentType]
    columns = {name: [value] * 2 for name, value in columns_of(TASK).items()}
    found = function(
        prompts=["p"] * 2, completions=["a", [{"role": "assistant", "content": "b"}]], trainer_state=None, **columns
    )
    assert found == [pytest.approx(0.7), None]
    assert "an answer has no reward: task: no source" in caplog.text
    assert [text for text, _ in told.asked] == ["a", "b"]
    assert Task.model_validate(told.asked[0][1]) == TASK
    assert function.__name__ == "step_reward"


def test_verl_gets_a_score_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(report(*ALL[:3]))
    monkeypatch.setattr(verl, "score", told.score)
    found = verl.compute_score("steptp", "answer", TASK.model_dump_json(), {"num_turns": 1})
    assert found == {"score": pytest.approx(0.4), "acc": 0, "parsed": 1, "well_formed": 1, "legal": 1, "equal": 0}
    assert Task.model_validate(told.asked[0][1]) == TASK


def test_verifiers_gets_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told(report(*ALL))
    monkeypatch.setattr(verifiers, "score", told.score)
    task, trace = SimpleNamespace(**columns_of(TASK)), SimpleNamespace(last_reply="answer")
    assert asyncio.run(verifiers.step_reward(task, trace)) == pytest.approx(0.8)
    assert told.asked[0][0] == "answer"
    assert Task.model_validate(told.asked[0][1]) == TASK
