"""`steptp search` as people call it: models and batches, bad input, kills, measuring, and what it prints."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stepTP.records import RejectedRow, StepRow, read_rows
from stepTP.search import OFFLINE, SEARCHES, run
from stepTP.search.journal import done
from stepTP.verify.pool import Failure
from tests.stepTP.standin import standin
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_search import BAD, GOOD, MAP, Here

__all__ = ["steptp"]  # a fixture


class InThisProcess(Here):
    """A pool without processes."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "map.leir"
    file.write_text(MAP)
    return file


@pytest.fixture
def no_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "Pool", InThisProcess)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.leir",), "none.leir: no such file"),
        (("map.leir", "--budget", "0"), "--budget"),
        (("map.leir", "--policy", "best"), "'best' is not one of"),
        (("map.leir", "--search", "best"), "'best' is not one of"),
        (("map.leir", "--out", "map.leir"), "is a file: name a folder"),
        (("map.leir", "--out", "map.leir/x"), "name a place in a folder"),
        (("map.leir", "--plot", "none/x.svg"), "there is no folder none"),
        (("map.leir", "--policy", "llm"), "give --model NAME, and --endpoint URL or"),
        (("map.leir", "--policy", "llm", "--model", "m", "--requests", "x.jsonl"), "--requests FILE --replies FILE"),
        (("map.leir", "--policy", "llm", "--model", "m", "--requests", "no/x", "--replies", "y"), "there is no folder"),
        (("map.leir", "--measurements", "3"), "give both, or neither"),
        (("map.leir", "--model", "m"), "--policy heuristic asks no model"),
        (("map.leir", "--target", "cuda", "--measure"), "no CUDA device here"),
    ],
)
@pytest.mark.usefixtures("no_pool", "program")
def test_what_cannot_be_used_is_told_in_a_line(
    steptp: Steptp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stepTP.verify.devices.cuda_devices", lambda: ())
    assert message in steptp.fails("search", *arguments)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["map.leir"]


def test_help_names_all_that_there_is(steptp: Steptp) -> None:
    _, told, _ = steptp("search", "--help")
    assert f"<{'|'.join(SEARCHES)}>" in told and f"<{'|'.join(sorted((*OFFLINE, 'llm')))}>" in told


@pytest.mark.usefixtures("no_pool")
def test_a_model_searches(steptp: Steptp, tmp_path: Path, program: Path) -> None:
    with standin(lambda _: (200, GOOD)) as server:
        told = ["search", program, "--policy", "llm", "--endpoint", server.url, "--model", "m", "--samples", "1",
                "--budget", "2", "--depth", "1", "--out", tmp_path / "run"]  # fmt: skip
        first = steptp.json(*told, code=1)
        assert [state["step"] for state in first["states"]][1:] == [
            {"strategy": "loop_split", "args": {"path": [0], "factor": 2}}
        ]
        assert first["tokens"] == 18 * len(server.asked) == 18
        assert steptp.json(*told, "--timeout", "9", code=1) == first
        assert len(server.asked) == 1  # the journal has the reply
    (step,) = [row for row in read_rows(tmp_path / "run" / "steps.jsonl") if isinstance(row, StepRow)]
    assert step.verification and step.reasoning and step.strategy == "loop_split"


@pytest.mark.parametrize(
    ("status", "said", "message"),
    [
        (200, b"<html>welcome</html>", "the reply is no JSON"),
        (200, b'{"choices": [', "the reply is no JSON"),
        (200, b'{"choices": {"a": 1}}', "the reply holds no choice"),
        (200, b'{"choices": [{"message": null}]}', "the reply holds no choice"),
        (200, b'{"choices": "none", "usage": 3}', "the reply holds no choice"),
        (404, b"no such model", "404"),
    ],
)
@pytest.mark.usefixtures("no_pool")
def test_a_server_that_answers_garbage_is_told_in_a_line(
    steptp: Steptp, tmp_path: Path, program: Path, status: int, said: bytes, message: str
) -> None:
    with standin(lambda _: (status, said)) as server:
        told = ("search", program, "--policy", "llm", "--endpoint", server.url, "--model", "m", "--out", tmp_path / "r")
        assert message in steptp.fails(*told)


@pytest.mark.usefixtures("no_pool")
def test_what_a_model_says_may_be_anything(steptp: Steptp, tmp_path: Path, program: Path) -> None:
    """Content that is missing or no text is a reply without an answer: asked again, then given up."""
    body = b'{"choices": [{"message": {"content": [1, 2]}}, 3], "usage": {"prompt_tokens": "many"}}'
    with standin(lambda _: (200, body)) as server:
        told = ("search", program, "--policy", "llm", "--endpoint", server.url, "--model", "m", "--samples", "1")
        found = steptp.json(*told, "--out", tmp_path / "r", code=1)
        assert (found["ended"], found["tokens"], len(server.asked)) == ("nothing is left to try", None, 3)


@pytest.mark.usefixtures("no_pool")
def test_a_server_that_is_not_there(steptp: Steptp, tmp_path: Path, program: Path) -> None:
    with standin(lambda _: (200, GOOD)) as server:
        pass
    told = ("search", program, "--policy", "llm", "--endpoint", server.url, "--model", "m", "--out", tmp_path / "r")
    assert "is the server up?" in steptp.fails(*told, "--seconds", "300")  # less than the timeout: asked once


@pytest.mark.usefixtures("no_pool")
def test_a_server_that_hangs_takes_no_longer_than_the_search_may(steptp: Steptp, tmp_path: Path, program: Path) -> None:
    over = threading.Event()
    replied: list[bool] = []

    def hangs(_: object) -> tuple[int, str]:
        replied.append(over.wait(600))
        return 200, GOOD

    with standin(hangs) as server:
        told = ["search", program, "--policy", "llm", "--endpoint", server.url, "--model", "m", "--samples", "1"]
        try:
            found = steptp.json(*told, "--seconds", "1", "--out", tmp_path / "r", code=1)
            assert not replied  # the search did not wait for it
        finally:
            over.set()
    assert found["ended"] == "the 1 seconds are over"
    assert [state["number"] for state in found["states"]] == [0]


@pytest.mark.usefixtures("no_pool")
def test_a_batch_is_answered_in_rounds(steptp: Steptp, tmp_path: Path, program: Path) -> None:
    ask, told = tmp_path / "ask.jsonl", tmp_path / "told.jsonl"
    command = ["search", program, "--policy", "llm", "--model", "m", "--samples", "2", "--depth", "1", "--budget", "3",
               "--requests", ask, "--replies", told, "--out", tmp_path / "run"]  # fmt: skip
    answers = {0: BAD, 1: GOOD}
    found: dict[str, Any] = {}
    for _ in range(4):
        found = steptp.json(*command, code=1)
        if not found["ended"].startswith(("1 questions", "2 questions")):
            break
        questions = [json.loads(line) for line in ask.read_text().splitlines()]
        assert {question["body"]["model"] for question in questions} == {"m"}
        lines = [{"custom_id": q["custom_id"], "text": answers[n % 2]} for n, q in enumerate(questions)]
        told.write_text("".join(json.dumps(line) + "\n" for line in lines))  # in place of the last round's
    assert found["ended"] == "nothing is left to try"
    assert [state["step"]["strategy"] for state in found["states"][1:]] == ["loop_split"]
    told.write_text('{"custom_id": 1}\n')
    assert "told.jsonl:1: is no reply of a batch" in steptp.fails(*command[:-1], tmp_path / "other")


@pytest.mark.usefixtures("no_pool")
def test_what_a_policy_could_not_answer_is_told(
    steptp: Steptp, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(self: InThisProcess, task: str, payload: dict[str, Any], near: str = "") -> Any:
        if task.endswith(".rank"):
            return done(Failure("timeout", task, "it took longer than 60 s"))
        return Here.submit(self, task, payload, near)

    monkeypatch.setattr(InThisProcess, "submit", slow)
    told = ("search", program, "--policy", "cost_model", "--out", tmp_path / "run")
    assert steptp.json(*told, code=1)["problems"] == ["it took longer than 60 s"]
    code, out, _ = steptp(*told)
    assert code == 1
    assert "1 questions to the policy had no answer, the first: it took longer than 60 s" in out
    (row,) = [row for row in read_rows(tmp_path / "run" / "rejected.jsonl") if isinstance(row, RejectedRow)]
    assert (row.stage, row.cause) == ("expand", "timeout")


@pytest.mark.usefixtures("no_pool")
def test_what_is_printed(steptp: Steptp, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = ["search", program, "--policy", "cost_model", "--budget", "3", "--width", "2", "--depth", "1"]
    shown = {}
    for how in ("steps", "leir", "tir", "cuda"):
        plot = tmp_path / f"{how}.svg"
        code, shown[how], _ = steptp(*told, "--out", tmp_path / "run", "--show", how, "--plot", plot)
        assert code == 0
        assert plot.read_text().startswith("<svg")
        assert "2 states verified, 0 rejected" in shown[how]
    assert "over source" in shown["steps"] and "loop_" in shown["steps"]
    assert shown["leir"].startswith("in A_{6,8};out C_{6,8};")
    assert "T.func" in shown["tir"] or "def " in shown["tir"]
    assert "__global__" in shown["cuda"]

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    from stepTP.commands.searching import _Table
    from stepTP.search import policy_of
    from tests.stepTP.test_search import environment

    monkeypatch.setattr(sys, "stderr", terminal)
    with _Table() as table:
        table.update(environment(MAP, policy_of("random")))
        table._live.refresh()
    assert "over source" in terminal.getvalue() and "0 states, 0 timed" in terminal.getvalue()


@pytest.mark.usefixtures("no_pool")
def test_another_search_of_a_program_has_its_own_folder_or_is_told_what_differs(
    steptp: Steptp, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = ["search", program, "--policy", "cost_model", "--budget", "2"]
    runs = {steptp.json(*told, "--search", search)["run"] for search in ("greedy", "chain")}
    assert len(runs) == 2 and all((tmp_path / run / "search.json").is_file() for run in runs)
    found = steptp.json(*told, "--search", "chain", "--out", "here")
    assert found == {**steptp.json(*told, "--search", "chain", "--out", "here"), "run": "here"}
    for more, difference in (
        (["--search", "greedy"], "search: 'chain', now 'greedy'"),
        (["--search", "chain", "--width", "2"], "width: 4, now 2"),
    ):
        assert difference in steptp.fails(*told, *more, "--out", "here")


def command(program: Path, out: Path, *more: str) -> list[str]:
    told = ["search", str(program), "--search", "mcts", "--policy", "random", "--budget", "8", "--width", "2"]
    return [sys.executable, "-m", "stepTP.cli", *told, "--workers", "1", "--out", str(out), *more]


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_with_the_same_tree(tmp_path: Path, program: Path) -> None:
    """SIGKILL, again and again, each time when some answers more have come."""
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    at_once = subprocess.run(command(program, whole), check=False, capture_output=True, timeout=300)
    assert at_once.returncode in (0, 1), at_once.stderr  # 1: none is faster
    journal, last, kills = killed / "journal.jsonl", 0, 0
    ended = -signal.SIGKILL
    while ended == -signal.SIGKILL:
        process = subprocess.Popen(command(program, killed), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
            if lines >= last + 3:
                os.kill(process.pid, signal.SIGKILL)
                last, kills = lines, kills + 1
                break
            time.sleep(0.002)
        ended = process.wait()
    assert ended == at_once.returncode
    assert kills >= 2
    files = sorted(file.relative_to(whole) for file in whole.rglob("*.json*") if file.name != "journal.jsonl")
    assert Path("search.json") in files and Path("steps.jsonl") in files
    for file in files:
        assert (killed / file).read_bytes() == (whole / file).read_bytes(), file


@pytest.mark.slow
def test_states_are_timed_and_the_table_kept(tmp_path: Path, program: Path) -> None:
    told = command(program, tmp_path / "run", "--measure", "--measurements", "2", "--json")
    ended = subprocess.run(told, capture_output=True, timeout=500, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    assert (found["objective"], found["measured"]) == ("measured", True)
    assert 1 <= found["measurements"] <= 2
    valued = [state for state in found["states"] if state["seconds"]]
    assert 2 <= len(valued) <= 3
    from stepTP.measurements import read_measurements

    rows = {row.state_id: row for row in read_measurements(tmp_path / "run" / "measurements.jsonl")}
    assert {state["state_id"] for state in valued} <= set(rows)
    assert all(row.timing is not None for row in rows.values() if row.status == "ok")
