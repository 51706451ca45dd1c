"""Single-step evaluation end to end: what is asked, replies from a server and from a file, what is written."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepTP.answer import write_answer
from stepTP.chat import ChatError, Endpoint
from stepTP.evaluate import single as single_module
from stepTP.evaluate.questions import (
    EvaluationError,
    Question,
    Reply,
    held_out_families,
    questions_of,
    read_lines,
    replies_to,
)
from stepTP.evaluate.settings import SETTINGS, require_same
from stepTP.evaluate.single import Asking, ask_endpoint, step_of
from stepTP.prompt import catalog_text, prompt
from stepTP.records import SourceRecord, Step, StepRow, to_line
from stepTP.verify import Outcome, ScoreReport
from tests.stepTP.standin import standin
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_evaluate_metrics import report
from tests.stepTP.test_score import AFTER_SPLIT, REVERSED, SOFTMAX, SPLIT, TORCH, row_of

__all__ = ["steptp"]  # a fixture

RIGHT = write_answer(Step(**SPLIT), AFTER_SPLIT)
WRONG = write_answer(Step(**SPLIT), REVERSED)
FAMILIES = ("attention", "mlp", "softmax")


def row(family: str, source: int, state: int, strategy: str = "loop_split") -> StepRow:
    name = f"{family}-{source}"
    record = SourceRecord(id=name, family=family, torch_code="", torch_sha="", license="")
    told = {"id": f"{name}-{state}-{strategy}", "source": record, "state_id_before": f"s{state}", "strategy": strategy}
    return row_of("").model_copy(update={**told, "depth": state + 1})


ROWS = [row(f, n, s, k) for f in FAMILIES for n in (1, 2) for s in (0, 1) for k in ("loop_split", "online_softmax")]


def softmax_rows(folder: Path) -> Path:
    """A file of rows at SOFTMAX, with its module."""
    file = folder / "steps.jsonl"
    rows = [r.model_copy(update={"source": r.source.model_copy(update={"torch_code": TORCH})}) for r in ROWS]
    file.write_text("".join(map(to_line, rows)))
    return file


def test_a_state_is_asked_about_once_and_families_take_turns() -> None:
    asked = questions_of(ROWS, {})
    assert len(asked) == len({q.id for q in asked}) == 12
    assert {q.known for q in asked} == {("loop_split", "online_softmax")}
    assert sorted(q.depth for q in asked) == [0] * 6 + [1] * 6
    for start in range(0, 12, 3):
        assert sorted(q.family for q in asked[start : start + 3]) == list(FAMILIES)
    assert questions_of(reversed(ROWS), {}) == asked
    assert questions_of(ROWS, {}, limit=4) == asked[:4]
    assert questions_of(ROWS, {}, seed=1) != asked
    assert questions_of(ROWS, {}, families=["mlp"]) == [q for q in asked if q.family == "mlp"]
    fewer = questions_of([r for r in ROWS if r.source.family != "mlp"], {})
    assert fewer == [q for q in asked if q.family != "mlp"]
    assert all(q.task.needs_leir for q in questions_of(ROWS, {}, needs_leir=True))


def test_families_are_held_out_by_their_names_alone() -> None:
    names = [f"family{n}" for n in range(20)]
    chosen = held_out_families(names, 0.25)
    assert len(chosen) == 5
    assert held_out_families(reversed(names), 0.25) == chosen
    assert held_out_families(["a", "b"], 0.001) in (["a"], ["b"])
    with pytest.raises(EvaluationError, match="build more"):
        held_out_families(["a"], 0.5)


def test_replies_are_matched_or_refused(tmp_path: Path) -> None:
    asked = questions_of(ROWS, {}, limit=2)
    file = tmp_path / "replies.jsonl"
    replies = [Reply(question=q.id, sample=n, text="t") for q in reversed(asked) for n in (1, 0)]
    assert [(r.question, r.sample) for r in replies_to(asked, replies, file)] == [
        (q.id, n) for q in asked for n in (0, 1)
    ]
    with pytest.raises(EvaluationError, match="twice"):
        replies_to(asked, [replies[0], replies[0]], file)
    with pytest.raises(EvaluationError, match="no reply is to one of the 2"):
        replies_to(asked, [Reply(question="other", text="")], file)
    whole = replies[0].model_dump_json()
    file.write_text(f"{whole}\n{whole[:20]}")
    assert list(read_lines(file, Reply)) == [replies[0]]  # the cut line is left out
    file.write_text(f"{whole}\n{whole}")
    assert list(read_lines(file, Reply)) == [replies[0]] * 2  # a last line may lack its line break
    file.write_text(f"{whole}\n{{}}\n{whole}\n")
    with pytest.raises(EvaluationError, match=r"replies.jsonl:2: question: Field required"):
        list(read_lines(file, Reply))
    file.write_bytes(b"\xff\n")
    with pytest.raises(EvaluationError, match="not UTF-8"):
        list(read_lines(file, Reply))


def test_the_step_of_a_reply_is_its_answer_without_the_program() -> None:
    assert step_of(f"<think>because</think>{RIGHT}") == json.dumps(SPLIT)
    assert step_of("no answer") is None
    assert step_of(json.dumps({"leir": SOFTMAX})) is None


def test_the_prompt_holds_the_state_and_the_catalog_every_strategy() -> None:
    from strategies.catalog import strategies

    system, user = prompt(SOFTMAX)
    assert (system["role"], user) == ("system", {"role": "user", "content": SOFTMAX.strip()})
    text = catalog_text()
    for kind in strategies():
        (line,) = [line for line in text.split("\n") if line.startswith(f"{kind.name}(")]
        assert all(f"{name}: " in line for name in kind.model_fields)
    assert 'kind: "bx" | "by" | "bz" | "tx" | "ty" | "tz" | "serial"' in text


def test_an_endpoint_is_asked_and_asked_again_only_for_what_is_missing(tmp_path: Path) -> None:
    asked = questions_of(ROWS, {}, limit=3)
    failures = iter([429, 500])

    def script(body: dict[str, Any]) -> tuple[int, Any]:
        if (status := next(failures, 200)) != 200:
            return status, "later"
        return 200, {"content": f"reply {body['seed']}", "reasoning_content": "so"}

    with standin(script) as server:
        endpoint = Endpoint(server.url, "m", temperature=0.5, max_tokens=9)
        first = ask_endpoint(asked[:2], endpoint, tmp_path, samples=2, workers=1)
        assert len(server.asked) == 4 + 2  # two were told to come later
        request = server.asked[-1]
        assert (request["path"], request["model"], request["temperature"], request["max_tokens"]) == (
            "/v1/chat/completions", "m", 0.5, 9,
        )  # fmt: skip
        assert request["messages"] == Asking().messages(asked[1])
        assert [(r.question, r.sample, r.text) for r in first] == [
            (q.id, n, f"<think>so</think>reply {n}") for q in asked[:2] for n in (0, 1)
        ]
        assert (first[0].prompt_tokens, first[0].completion_tokens) == (11, 7)
        with (tmp_path / "replies.jsonl").open("a") as lines:
            lines.write('{"question": "cut')
        again = ask_endpoint(asked, endpoint, tmp_path, samples=2, workers=4)
        assert len(server.asked) == 6 + 2
        assert again[:4] == first
        assert sorted(map(str, read_lines(tmp_path / "replies.jsonl", Reply))) == sorted(map(str, again))
        (tmp_path / "other").mkdir()
        ask_endpoint(asked[:1], endpoint, tmp_path / "other", asking=Asking(explain=True))
        assert catalog_text() in server.asked[-1]["messages"][0]["content"]


@pytest.mark.parametrize(("status", "said"), [(400, "no such model"), (401, "no key")])
def test_what_an_endpoint_refuses_is_said(tmp_path: Path, status: int, said: str) -> None:
    with standin(lambda _: (status, said)) as server, pytest.raises(ChatError, match=rf"{status}: .*{said}"):
        ask_endpoint(questions_of(ROWS, {}, limit=1), Endpoint(server.url, "m"), tmp_path)


def test_a_server_that_is_not_there_is_said(tmp_path: Path) -> None:
    with standin(lambda _: (200, "")) as server:
        pass
    with pytest.raises(ChatError, match="is the server up"):
        ask_endpoint(questions_of(ROWS, {}, limit=1), Endpoint(server.url, "m", retries=0), tmp_path)


class ScriptedScorer:
    """Says of RIGHT, WRONG and a step alone what a scorer says of them, as the slow test below finds."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> "ScriptedScorer":
        return self

    def __exit__(self, *_: object) -> None: ...

    def score_many(self, answers: Any, measure: bool = False) -> list[ScoreReport]:
        assert not measure
        return [self._report(text) for text, _ in answers]

    def _report(self, text: str) -> ScoreReport:
        known = {"strategy": "loop_split", "state_id": "s"}
        if text == WRONG:
            legal = Outcome(status="fail", code="another-program")
            return report("parsed", "well_formed", "lowers", "runs", "equal", "bit_equal", legal=legal, **known)
        assert text in (RIGHT, json.dumps(SPLIT))
        return report("parsed", "well_formed", "legal", "lowers", "runs", "equal", "bit_equal", **known)


@pytest.mark.parametrize("scorer", ["scripted", pytest.param("real", marks=pytest.mark.slow)])
def test_the_command_judges_a_servers_answers(
    steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scorer: str
) -> None:
    """A scripted model is right at its first sample and writes another program at its second."""
    monkeypatch.setattr(single_module, "CHUNK", 3)
    if scorer == "scripted":
        monkeypatch.setattr("stepTP.verify.scorer.Scorer", ScriptedScorer)
    rows, out = softmax_rows(tmp_path), tmp_path / "out"
    with standin(lambda body: (200, RIGHT if body["seed"] == 0 else WRONG)) as server:
        told = ["--endpoint", server.url, "--model", "m", "--samples", "2", "--limit", "2", "--workers", "1"]
        found = steptp.json("eval", "single", rows, "--out", out, *told)
        assert len(server.asked) == 4
        changed = steptp.fails("eval", "single", rows, "--out", out, *told, "--model", "n", "--no-reasoning")
        assert f"{out}: begun with other settings (model: 'm', now 'n', reasoning: True, now False)" in changed
        assert len(server.asked) == 4
    values = {name: estimate["value"] for name, estimate in found["rates"].items()}
    assert values == {
        "parsed": 1.0, "well_formed": 1.0, "legal": 0.5, "executable": 0.5, "equal": 0.5, "bit_equal": 0.5,
        "same_meaning": 1.0, "step_legal": 1.0, "step_equal": 1.0,
    }  # fmt: skip
    assert found["failures"] == {"legal: another-program": 2}
    assert found["samples"]["accepted_at_2"]["value"] == 1.0
    assert json.loads((out / "summary.json").read_text()) == found
    assert (out / "index.html").read_text().startswith("<!doctype html>")
    assert len((out / "scores.jsonl").read_text().splitlines()) == 4
    # The same replies from a file give the same figures, and no server is needed.
    again = steptp.json(
        "eval", "single", rows, "--out", tmp_path / "again", "--answers", out / "replies.jsonl", "--limit", "2",
        "--workers", "1",
    )  # fmt: skip
    assert again["rates"] == found["rates"]


def test_a_question_is_put_as_it_is_wanted() -> None:
    from stepTP.answer import form

    (with_program,) = questions_of(ROWS, {}, limit=1, needs_leir=True)
    (alone,) = questions_of(ROWS, {}, limit=1, needs_leir=False)
    assert Asking().messages(with_program) == prompt(SOFTMAX)
    assert Asking(thought=False).messages(alone) == prompt(SOFTMAX, form(leir=False, thought=False))
    shown = Asking(spelling="tir", texts={SOFTMAX: "def main(): ..."})
    assert shown.messages(alone) == prompt("def main(): ...", form(leir=False), "tir")


def test_the_command_writes_its_questions(steptp: Steptp, tmp_path: Path) -> None:
    rows = softmax_rows(tmp_path)
    code, _, err = steptp("eval", "single", rows, "--questions", "--out", tmp_path / "q", "--family", "mlp")
    assert (code, err) == (0, "")
    written = [json.loads(line) for line in (tmp_path / "q" / "questions.jsonl").read_text().splitlines()]
    assert len(written) == 4
    assert {entry["family"] for entry in written} == {"mlp"}
    assert written[0]["messages"] == prompt(SOFTMAX)


def test_the_command_says_what_is_wrong(steptp: Steptp, tmp_path: Path) -> None:
    rows = softmax_rows(tmp_path)
    out = ("--out", tmp_path / "o")
    assert "give one of --answers" in steptp.fails("eval", "single", rows, *out)
    assert "go together" in steptp.fails("eval", "single", rows, *out, "--endpoint", "http://localhost:1")
    assert "no rows of family 'rnn': choose of attention, mlp" in steptp.fails(
        "eval", "single", rows, *out, "--questions", "--family", "rnn"
    )
    assert "no rows with held_out 'program'" in steptp.fails(
        "eval", "single", rows, *out, "--questions", "--held-out", "program"
    )
    assert "no such file" in steptp.fails("eval", "single", rows, *out, "--answers", tmp_path / "none")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert "no reply is to one of" in steptp.fails("eval", "single", rows, *out, "--answers", empty)


def test_settings_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    require_same(tmp_path, {"model": "m"})
    require_same(tmp_path, {"model": "m", "other": 1})
    assert json.loads((tmp_path / SETTINGS).read_text()) == {"model": "m", "other": 1}
    for text in ("{", "[]"):
        (tmp_path / SETTINGS).write_text(text)
        with pytest.raises(EvaluationError, match=r"settings.json: damaged: name a new folder"):
            require_same(tmp_path, {"model": "m"})


def test_a_question_is_data() -> None:
    asked = questions_of(ROWS, {}, limit=1)[0]
    assert Question.model_validate_json(asked.model_dump_json()) == asked
