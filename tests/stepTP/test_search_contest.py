"""Searches at real sizes side by side: who goes first, what is kept, and that they go on where they were stopped."""

import importlib
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from leir.canonical import state_id
from leir.parser import parse
from stepTP.records import read_rows
from stepTP.search.contest import DEVICE, Contest, Ending, text_of
from stepTP.search.journal import done
from stepTP.search.protocol import Spent
from stepTP.search.standings import print_tables, report
from tests.stepTP.fakes import VERDICT, explain

MAP = "in A_{8,2048};out C_{8,2048};\nL^{8,2048}_{i,j}[C_{i,j}=A_{i,j}*2.0;]\n"
PROGRAMS = [
    {
        "name": name,
        "bound": "memory",
        "sizes": {"N": 2048},
        "small": {"N": 8},
        "inputs": ["(8, N)"],
        "forward": form,
    }
    for name, form in (("first", "a * 2.0"), ("second", "2.0 * a"))
]
TOLD = {
    "searches": ["greedy", "mcts"], "policies": ["heuristic"], "seed": 0, "width": 2, "depth": 2, "attempts": 1,
    "evaluations": 60, "measurements": 4, "programs": PROGRAMS,
}  # fmt: skip


class Device:
    """Answers where it is asked: the longer a text, the faster; one kind of state computes something wrong."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self._lock = threading.Lock()  # one thread at a time, as a worker has

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        del near
        with self._lock:
            what = payload.get("state") or str(payload.get("compiled", ""))
            self.asked.append((task.removeprefix(f"{DEVICE}."), what))
            return done(json.loads(json.dumps(self._answer(task, payload))))

    def submit_batch(self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = "") -> Any:
        raise AssertionError(f"{task}: nothing is verified here: {payload}, {items}, {near}")

    def _answer(self, task: str, payload: dict[str, Any]) -> Any:
        match task.rpartition(".")[2]:
            case "translate":
                return {
                    "leir": MAP, "state_id": state_id(parse(MAP)), "dtype": "f32", "names": {"A": "a"}, "ops": ["mul"],
                    "structure": "s", "nests": 1, "iterations": 1, "message": "",
                }  # fmt: skip
            case "time_limits":
                return {"bytes_per_s": 4e12, "flops_per_s": 5e13}
            case "least":
                return {"bytes": 1 << 17, "flops": 0}
            case "time_module":
                return {"seconds": 1e-6, "error": ""}
            case "time_program" if "128" in payload["state"]:  # threads of a block
                return {"seconds": None, "error": "wrong result: 0.5 of the largest value away"}
            case "time_program":
                return {"seconds": 1e-3 / len(payload["state"]), "error": "", "verdict": VERDICT}
            case "explain":
                return explain(payload)
            case _:
                module, _, name = task.rpartition(".")
                return getattr(importlib.import_module(module), name)(payload)


def held(folder: Path, device: Device, seconds: float = 600.0) -> Contest:
    contest = Contest(TOLD, folder, device, "cuda", seconds, 4)
    for part in wait(contest.start()).done:
        part.result()
    contest.close()
    return contest


def test_every_program_is_timed_first_and_what_was_compared_is_kept_as_rows(tmp_path: Path) -> None:
    device = Device()
    contest = held(tmp_path, device)
    assert [run.ended[:20] for run in contest.runs] == ["nothing is left to t"] * 2 + ["0 measurements left "] * 2
    for run in contest.runs:
        assert run.env is not None
        assert run.env.measurements <= 4 and run.env.evaluations <= 60
        assert run.env.best is not run.env.root
    timed = [n for n, (task, what) in enumerate(device.asked) if task == "time_program" and "B^" in what]
    compiled = [n for n, (task, what) in enumerate(device.asked) if (task, what) == ("time_module", "True")]
    assert len(compiled) == 2 and min(compiled) > sorted(timed)[1]  # each program has a schedule by then
    rows = list(read_rows(tmp_path / "rows.jsonl"))
    assert contest.rows().count("\n") == len(rows)
    steps = [row for row in rows if row.row == "step"]
    valued = {
        node.state.state_id
        for run in contest.runs
        if run.env is not None
        for node in run.env.nodes
        if node.verification and node is not run.env.root
    }
    assert len({row.state_id_after for row in steps}) == len(valued)
    assert len(steps) == len({row.id for row in steps}) == 2 * len(valued)  # two programs that are the same
    assert all(row.verification for row in steps)
    assert sorted(row.id for row in rows if row.row == "program") == ["first", "second"]
    wrong = [row for row in rows if row.row == "rejected"]
    assert {(row.cause, row.stage) for row in wrong} == {("wrong-result", "verify")}
    found = report(contest, 1.0)
    assert {run["over_eager"] for run in found["runs"]} == {1e-6 / found["runs"][0]["best_s"]}
    assert all(run["visits"] for run in found["runs"] if run["search"] == "mcts")
    print_tables(json.loads(json.dumps(found)))


def test_the_same_folder_asks_nothing_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = report(held(tmp_path, Device()), 1.0)
    device = Device()
    assert report(held(tmp_path, device), 1.0) == first
    assert {task.rpartition(".")[2] for task, _ in device.asked} == {"explain"}
    print_tables(json.loads(json.dumps(first)))
    assert "| best of all | memory-bound | 2 |" in capsys.readouterr().out


def test_what_comes_after_the_time_is_not_begun(tmp_path: Path) -> None:
    device = Device()
    contest = held(tmp_path, device, seconds=0.0)
    assert device.asked == []
    assert {run.ended for run in contest.runs} == {"not begun: no time left"}
    with pytest.raises(Spent, match="the time is over"):
        Ending(device, time.monotonic()).submit("x", {})
    assert report(contest, 0.0)["runs"][0]["ended"] == "not begun: no time left"


def test_a_program_of_the_configuration_is_a_file_that_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(text_of(PROGRAMS[0], True), "x", "exec"), names)
    (given,) = names["get_inputs"]()
    assert tuple(given.shape) == (8, 8)
    assert (names["Model"]()(given) == given * 2).all()
