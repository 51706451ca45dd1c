"""`steptp minimise`: what it is given, what it prints, and what it says where nothing fails."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stepTP.records import RejectedRow, to_line
from stepTP.stats import run_rows
from stepTP.verify import pool
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_minimise import OVERFLOW, SOFTMAX, SPLIT_SUM, SUM, rejected

__all__ = ["steptp"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def overflow(tmp_path: Path) -> Path:
    file = tmp_path / "overflow.leir"
    file.write_text(OVERFLOW)
    return file


def plant(monkeypatch: pytest.MonkeyPatch, fault: str, interrupted_after: int | None = None) -> None:
    """The command's workers have a fault, and Ctrl-C is pressed after so many tasks."""

    class PlantedPool(pool.Pool):
        def __init__(self, workers: int | None, timeout_s: float, gpus: Sequence[str], tasks: Sequence[str]) -> None:
            super().__init__(workers, timeout_s, gpus=gpus, tasks=(*tasks, "tests.stepTP.planted.with_fault"))
            self.asked = 0

        def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
            self.asked += 1
            if interrupted_after is not None and self.asked > interrupted_after:
                raise KeyboardInterrupt
            given = {"fault": fault, "task": task, "payload": payload}
            return super().submit("tests.stepTP.planted.with_fault", given, near)

    monkeypatch.setattr(pool, "Pool", PlantedPool)


def test_what_it_prints_can_be_given_again(steptp: Steptp, overflow: Path, tmp_path: Path) -> None:
    report = steptp.json("minimise", overflow)
    assert set(report) == {"failing", "leir", "steps", "against", "text", "before", "after", "trials", "stopped"}
    assert (report["failing"]["stage"], report["failing"]["cause"]) == ("check", "integer-overflow")
    assert (report["before"]["statements"], report["before"]["iterations"]) == (7, 40)
    assert report["after"]["statements"] == 2 and not report["stopped"]
    written = tmp_path / "minimal.leir"
    code, out, err = steptp("minimise", "-", "--out", written, stdin=report["text"])
    assert (code, out, written.read_text()) == (0, "", report["text"]), err
    assert "statements 2 to 2" in err
    code, out, err = steptp("minimise", overflow, "--trials", "2", "--workers", "1")
    assert code == 0 and out.startswith("# fails: check: integer-overflow") and out != report["text"]
    assert "2 trials: " in err and "stopped by 2 trials, at " in err and "give it again to go on" in err
    (found,) = steptp.json("check", written, code=1)
    assert {d["code"] for d in found["diagnostics"]} == {"integer-overflow"}


def test_a_rejected_row_by_its_line(steptp: Steptp, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "split_swaps_differences")
    row = rejected(
        stage="verify",
        cause="wrong-result",
        leir_before=SOFTMAX,
        step=SPLIT_SUM,
        leir_after=SOFTMAX,
        state_id_before="",
    )
    report = steptp.json("minimise", "-", "--workers", "2", stdin=to_line(row))
    assert report["failing"]["cause"] == "wrong-result"
    assert report["steps"] == [{"strategy": "loop_split", "args": {"path": [0], "factor": 2}}]
    assert '# inputs {"id":"sum","seed":0,"draws":1}' in report["text"]
    other = row.model_copy(update={"cause": "crash"})
    message = steptp.fails("minimise", "-", "--workers", "2", stdin=to_line(other))
    assert "does not fail as recorded (crash): it fails otherwise now, run: wrong-result (llvm)" in message


def test_a_step_from_the_command_line(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, "split_swaps_differences")
    (tmp_path / "before.leir").write_text(SOFTMAX)
    step = json.dumps(SPLIT_SUM.model_dump())
    report = steptp.json("minimise", tmp_path / "before.leir", "--step", step, "--workers", "2")
    assert report["leir"] == "in F;out G;\nL^3_j[G=0-1;]\n"


def test_ctrl_c_prints_the_best_so_far(steptp: Steptp, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant(monkeypatch, "nothing", interrupted_after=12)
    (tmp_path / "overflow.leir").write_text(OVERFLOW)
    code, out, err = steptp("minimise", tmp_path / "overflow.leir", "--workers", "1")
    assert code == 130 and "stopped by Ctrl-C" in err
    assert out.startswith("# fails: check: integer-overflow") and "Q_" not in out
    plant(monkeypatch, "nothing", interrupted_after=0)
    assert steptp("minimise", tmp_path / "overflow.leir", "--workers", "1")[:2] == (130, "")


def test_a_killed_command_takes_its_workers_along(tmp_path: Path, overflow: Path) -> None:
    command = [sys.executable, "-m", "stepTP.cli", "minimise", str(overflow), "--out", str(tmp_path / "out.leir")]
    asked = subprocess.Popen(command, cwd=ROOT)
    try:
        assert _wait_for(lambda: _workers_of(asked.pid))
    finally:
        asked.kill()
        asked.wait()
    assert _wait_for(lambda: not _workers_of(asked.pid))
    assert [file.name for file in tmp_path.iterdir()] == [overflow.name]


def _workers_of(process: int) -> list[str]:
    """The processes that workers of a command come from, and the workers."""
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # one that ends meanwhile
            words = file.read_bytes().split(b"\0")
            found += [file.parent.name] * (b"stepTP.verify.nursery" in words and str(process).encode() in words)
    return found


def _wait_for(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + 60
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(holds)


def test_rows_of_a_run(steptp: Steptp, small_run: Path) -> None:
    """Their verdicts are invented, so that their programs do not fail; what was left out by a rule is no failure."""
    rows = [row for row in run_rows(small_run, "rejected") if isinstance(row, RejectedRow)]
    wrong = next(row for row in rows if row.stage == "verify" and row.cause == "wrong-result")
    message = steptp.fails("minimise", f"{small_run}#{wrong.id}", "--workers", "2")
    assert message.startswith(f"{small_run}#{wrong.id}: does not fail as recorded (wrong-result): ")
    seen = next(row for row in rows if row.stage == "walk")
    assert "walk left it out (state-seen), nothing of it fails" in steptp.fails("minimise", f"{small_run}#{seen.id}")
    for which in ("", "zzz"):
        assert "no row has that id: give all 16 digits" in steptp.fails("minimise", f"{small_run}#{which}")
    lines = len((small_run / "rejected.jsonl").read_text().splitlines())
    assert f"numbered 0 to {lines - 1}" in steptp.fails("minimise", f"{small_run}/rejected.jsonl#{lines}")
    assert f"holds {lines} rows: name one" in steptp.fails("minimise", small_run / "rejected.jsonl")


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (("-",), SUM, "<stdin>: does not fail: "),
        (("-",), "", "<stdin>:1:1: "),
        (("-",), "in A_4;out C_4;\nL^4_i[C_i=A_i]", "<stdin>:2:14: found ']'"),
        (("-",), "{}", "<stdin>:1: "),
        (
            ("-", "--cause", "out-of-bounds"),
            OVERFLOW,
            "<stdin>: does not fail by out-of-bounds: check: integer-overflow",
        ),
        (("-", "--step", "loop_split"), SUM, "--step: no step: write"),
        (("-", "--target", "tpu"), SUM, "Invalid value for '--target'"),
        (("-", "--out", "/nowhere/x.leir"), SUM, "/nowhere/x.leir: there is no folder /nowhere"),
        (("nowhere#0",), "", "nowhere: no such run or file"),
        (("nowhere.leir",), "", "nowhere.leir: no such file"),
        ((".",), "", ".: is a folder"),
    ],
)
def test_what_cannot_be_shrunk(steptp: Steptp, arguments: tuple[str, ...], text: str, message: str) -> None:
    assert steptp.fails("minimise", *arguments, stdin=text).startswith(message)


def test_rows_and_pairs_have_no_other_steps(steptp: Steptp, tmp_path: Path) -> None:
    (tmp_path / "sum.leir").write_text(SUM)
    step = json.dumps(SPLIT_SUM.model_dump())
    given = ("minimise", "-", "--step", step)
    assert "give --step or --against, not both" in steptp.fails(
        *given, "--against", str(tmp_path / "sum.leir"), stdin=SUM
    )
    assert "a row has its own steps" in steptp.fails(*given, stdin="{}")
