"""Multi-step evaluation: figures against cases counted by hand, and a scripted policy from search to page."""

import json
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from leir.canonical import state_id
from leir.parser import parse
from leir.printer import to_text
from stepTP.answer import read_answer
from stepTP.evaluate.page import search_page
from stepTP.evaluate.searching import Found, curve, search_program, summarise_searches
from stepTP.records import ProgramRow, Step, to_line
from stepTP.search import policy_of
from stepTP.search.objectives import Predicted
from stepTP.search.policies.scripted import Scripted
from stepTP.search.protocol import Budget, Settings
from stepTP.search.run import leir_source
from stepTP.verify.pool import Failure
from strategies.catalog import parse_step
from strategies.index import names
from tests.stepTP.standin import standin
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_score import SOFTMAX
from tests.stepTP.test_search import GOOD, MAP
from tests.stepTP.test_search import Here as InProcess
from tests.stepTP.test_walk import SOURCE

__all__ = ["steptp"]  # a fixture

SPLIT = Step(strategy="loop_split", args={"path": [0], "factor": 2})
ONLINE = Step(strategy="online_softmax", args={"maximum": [0], "sum": [1]})


def found(source: str, values: Sequence[tuple[int, float]] = (), **fields: Any) -> Found:
    """A search whose program takes 8 seconds."""
    told: dict[str, Any] = {
        "source_id": source, "family": source.partition("-")[0], "search": "beam", "policy": "p", "objective": "o",
        "target": "llvm", "source_s": 8.0, "values": tuple(values), "best": (), "eager_s": None, "compiled_s": None,
        "strategies": {}, "evaluations": len(values), "measurements": 0, "refused": 0, "rejected": 0, "problems": 0,
        "tokens": None, "seconds": 1.0, "ended": "",
    }  # fmt: skip
    return Found(**{**told, **fields})


def test_figures_are_what_was_counted_by_hand() -> None:
    ones = [
        found("a-1", [(1, 4.0), (2, 2.0), (3, 16.0)], best=(SPLIT, SPLIT), refused=1, eager_s=1.0, tokens=10,
              strategies={"loop_split": 3}),
        found("a-2", [(1, 8.0)], best=(), strategies={"online_softmax": 1}, evaluations=3, eager_s=16.0),
        found("b-1", [], source_s=None, ended="no value"),
    ]  # fmt: skip
    (row,) = summarise_searches(ones)
    assert (row["name"], row["programs"], row["not_begun"]) == ("beam / p / o", 3, {"b-1": "no value"})
    best = row["best"]
    assert (best["mean"]["value"], best["geometric_mean"]["value"], best["most"]) == (2.5, 2.0, 4.0)
    assert best["improved"]["value"] == 0.5
    assert row["mean_of_states"]["value"] == pytest.approx(((2 + 4 + 0.5) / 3 + 1) / 2, rel=1e-5)
    assert row["over_eager"]["value"] == pytest.approx((0.5 * 2) ** 0.5)  # 1/2 s and 16/8 s
    assert row["over_compiled"]["value"] is None
    assert row["efficiency"]["value"] == pytest.approx((2 / 4 + 0 / 3) / 2)
    assert row["depth"]["value"] == 1.0
    assert row["strategies"] == {"loop_split": 3, "online_softmax": 1}
    assert row["strategies_on_best"] == {"loop_split": 2}
    assert (row["evaluations"], row["refused"], row["tokens"], row["seconds"]) == (6, 1, 10, 2.0)
    assert {family: e["value"] for family, e in row["families"].items()} == {"a": pytest.approx(2.0)}


def test_the_better_search_comes_first() -> None:
    rows = summarise_searches([found("a-1", [(1, 4.0)], search="x"), found("a-1", [(1, 1.0)], search="y")])
    assert [row["name"] for row in rows] == ["y / p / o", "x / p / o"]
    html = search_page("t", {}, rows)
    assert html.index("y / p / o") < html.index("x / p / o")


def test_a_curve_is_of_the_best_so_far() -> None:
    ones = [found("a-1", [(1, 4.0), (2, 16.0), (3, 2.0)]), found("a-2", [(2, 2.0)])]
    assert curve(ones) == [
        (0, 1.0),
        (1, pytest.approx(2**0.5, abs=1e-6)),
        (2, pytest.approx(8**0.5, abs=1e-6)),
        (3, 4.0),
    ]
    assert curve([]) == []


class Here:
    """Runs a pool's tasks in this process."""

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        del near
        future: Future[Any] = Future()
        future.set_result(resolve_name(task)(payload))
        return future

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        raise AssertionError(f"{task}, {payload}, {items}, {near}: nothing is verified here")


PROGRAM: ProgramRow = SOURCE.model_copy(update={"leir": SOFTMAX, "state_id": state_id(parse(SOFTMAX))})
SETTINGS = Settings(strategies=tuple(sorted(names())), budget=Budget(evaluations=5), verify=None, width=2, depth=3)


def test_a_scripted_search_end_to_end() -> None:
    policy = Scripted((ONLINE, Step(strategy="loop_parallelization", args={"path": [0], "kind": "parallel"})))
    one = search_program(PROGRAM, "beam", policy, Predicted(), SETTINGS, Here())
    assert one.ended == "nothing is left to try"
    assert (one.evaluations, one.refused, one.rejected, one.problems) == (2, 0, 0, 0)
    assert one.strategies == {"loop_parallelization": 1, "online_softmax": 1}
    assert [number for number, _ in one.values] == [1, 2]
    assert one.best_s is not None and one.source_s is not None
    assert one.best_s <= one.source_s
    assert Found.model_validate_json(one.model_dump_json()) == one


def test_a_search_that_cannot_begin_says_so() -> None:
    class Broken(Here):
        def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
            del payload, near
            future: Future[Any] = Future()
            future.set_result(Failure("crash", task, "the worker was lost"))
            return future

    one = search_program(PROGRAM, "beam", Scripted(), Predicted(), SETTINGS, Broken())
    assert (one.source_s, one.best_s, one.values) == (None, None, ())
    assert "the worker was lost" in one.ended


def test_a_policy_answers_questions() -> None:
    """Its moves at a state, as answers that hold; where it has none, the reply is empty."""
    from stepTP.evaluate.proposing import ask_policy
    from stepTP.evaluate.questions import EvaluationError, questions_of
    from tests.stepTP.test_evaluate_single import ROWS

    (asked,) = questions_of(ROWS, {}, limit=1)
    programs = {asked.source_id: PROGRAM}
    replies = ask_policy([asked], programs, policy_of("cost_model"), SETTINGS, Here(), samples=2)
    assert [reply.sample for reply in replies] == [0, 1]
    for reply in replies:
        answer = read_answer(reply.text)
        assert answer.step is not None and answer.leir is not None
        after = parse_step(answer.step.model_dump()).apply(parse(SOFTMAX)).program
        assert to_text(after) == answer.leir
    (empty,) = ask_policy([asked], programs, Scripted(), SETTINGS, Here())
    assert empty.text == ""
    with pytest.raises(EvaluationError, match="program row is missing"):
        ask_policy([asked], {}, Scripted(), SETTINGS, Here())


def test_what_was_timed_of_the_compiled_module_is_told() -> None:
    one = search_program(PROGRAM, "beam", Scripted((ONLINE,)), Predicted(), SETTINGS, Here(), compiled_s=1e-3)
    assert one.compiled_s == 1e-3
    (row,) = summarise_searches([one.model_copy(update={"source_s": 4e-3, "values": ((1, 2e-3),)})])
    assert row["over_compiled"]["value"] == pytest.approx(0.5)


class NoPool(InProcess):
    """A pool without processes, that verifies too."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def __enter__(self) -> "NoPool":
        return self

    def __exit__(self, *_: object) -> None: ...


def test_the_command_asks_a_model_once(steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepTP.verify.pool.Pool", NoPool)
    file, out = tmp_path / "programs.jsonl", tmp_path / "out"
    file.write_text(to_line(leir_source("map", MAP)))
    with standin(lambda _: (200, GOOD)) as server:
        told = ["eval", "search", file, "--out", out, "--policy", "llm", "--endpoint", server.url, "--model", "m",
                "--samples", "1", "--depth", "1", "--evaluations", "3"]  # fmt: skip
        (row,) = steptp.json(*told)["searches"]
        assert (row["name"], row["evaluations"], row["tokens"]) == ("beam / llm m / predicted", 1, 18)
        assert row["strategies"] == {"loop_split": 1}
        (out / "found.jsonl").unlink()  # as if it had been killed before the search was whole
        assert steptp.json(*told)["searches"][0]["best"] == row["best"]
        assert len(server.asked) == 1
        assert steptp.json(*told, "--policy", "random")["searches"]  # beside it
        changed = steptp.fails(*told, "--temperature", "0.1")
        assert f"{out}: begun with other settings (llm m.temperature: 0.8, now 0.1)" in changed
    for wrong in (["--policy", "llm"], ["--policy", "random", "--endpoint", "x", "--model", "m"],
                  ["--policy", "llm", "--endpoint", "x"]):  # fmt: skip
        assert "go together" in steptp.fails("eval", "search", file, "--out", out, *wrong)


def test_the_command_searches_once(steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, str]] = []

    def searched(source: ProgramRow, search: str, policy: Any, *_: object) -> Found:
        calls.append((source.id, search, policy.name))
        values = [(1, 4.0 if search == "beam" else 2.0)]
        return found(source.id, values, search=search, policy=policy.name, objective="predicted")

    monkeypatch.setattr("stepTP.verify.pool.Pool", NoPool)
    monkeypatch.setattr("stepTP.evaluate.searching.search_program", searched)
    file, out = tmp_path / "programs.jsonl", tmp_path / "out"
    file.write_text(to_line(PROGRAM))
    told = ["eval", "search", file, "--out", out, "--search", "beam", "--search", "greedy"]
    result = steptp.json(*told)
    assert [(r["name"], r["best"]["most"]) for r in result["searches"]] == [
        ("greedy / cost_model / predicted", 4.0), ("beam / cost_model / predicted", 2.0),
    ]  # fmt: skip
    assert json.loads((out / "summary.json").read_text()) == result
    assert "greedy / cost_model" in (out / "index.html").read_text()
    assert len(calls) == 2
    assert steptp.json(*told, "--policy", "cost_model", "--policy", "random")["searches"]
    assert len(calls) == 4
    other = steptp.fails(*told, "--evaluations", "51", "--seed", "1")
    assert (
        other
        == f"{out}: begun with other settings (evaluations: 50, now 51, seed: 0, now 1): name a new folder with --out"
    )
    assert len(calls) == 4
    assert "choose of beam" in steptp.fails("eval", "search", file, "--out", out, "--search", "best")
    assert "no program rows of these families" in steptp.fails("eval", "search", file, "--out", out, "--family", "rnn")
