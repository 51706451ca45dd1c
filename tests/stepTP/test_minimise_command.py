"""`steptp minimise`: what it is given, what it prints, and what it says where nothing fails."""

import errno
import json
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from inspect import signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Protocol

import pytest

from stepTP import manifest
from stepTP.records import RejectedRow, to_line
from stepTP.stats import run_rows
from stepTP.verify import pool
from stepTP.verify.pool import Failure, PoolError
from tests.stepTP.planted import with_fault
from tests.stepTP.test_cli import Steptp, steptp
from tests.stepTP.test_minimise import OVERFLOW, SOFTMAX, SPLIT_SUM, SUM, rejected

__all__ = ["steptp"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def overflow(tmp_path: Path) -> Path:
    file = tmp_path / "overflow.leir"
    file.write_text(OVERFLOW)
    return file


class OwnProcess:
    """What the command needs of a pool, in this process, with a fault. After so many tasks something is raised."""

    workers = 1

    def __init__(self, fault: str, after: int | None, raised: BaseException) -> None:
        self.fault, self.after, self.raised = fault, after, raised
        self.asked = 0

    def __enter__(self) -> "OwnProcess":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def kill(self) -> None:
        pass

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":  # noqa: ARG002 (the pool's)
        self.asked += 1
        if self.after is not None and self.asked > self.after:
            raise self.raised
        answered: Future[Any] = Future()
        try:
            answered.set_result(with_fault({"fault": self.fault, "task": task, "payload": payload}))
        except Exception as error:
            answered.set_result(Failure("bug", task, str(error), type(error).__name__))
        return answered


class Plant(Protocol):
    def __call__(self, fault: str, after: int | None = None, raised: BaseException = ...) -> None: ...


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """The commands that follow run in this process, with a fault."""
    own = signature(pool.Pool)

    def plant(fault: str, after: int | None = None, raised: BaseException = KeyboardInterrupt()) -> None:  # noqa: B008
        def made(*given: Any, **named: Any) -> OwnProcess:
            asked = own.bind(*given, **named).arguments
            assert all(callable(resolve_name(task.replace(".task.", ".task:"))) for task in asked["tasks"])
            return OwnProcess(fault, after, raised)

        monkeypatch.setattr(pool, "Pool", made)

    return plant


def test_what_it_prints_can_be_given_again(steptp: Steptp, plant: Plant, overflow: Path, tmp_path: Path) -> None:
    plant("nothing")
    report = steptp.json("minimise", overflow)
    assert set(report) == {"failing", "leir", "steps", "against", "text", "before", "after", "trials", "stopped"}
    assert (report["failing"]["stage"], report["failing"]["cause"]) == ("check", "integer-overflow")
    assert (report["before"]["statements"], report["before"]["iterations"]) == (7, 40)
    assert report["after"]["statements"] == 2 and not report["stopped"]
    written = tmp_path / "minimal.leir"
    code, out, err = steptp("minimise", "-", "--out", written, stdin=report["text"])
    assert (code, out, written.read_text()) == (0, "", report["text"]), err
    assert "statements 2 to 2" in err
    code, out, err = steptp("minimise", overflow, "--trials", "2")
    assert code == 0 and out.startswith("# fails: check: integer-overflow") and out != report["text"]
    assert "2 trials: " in err and "stopped by 2 trials, at " in err
    assert "give it again, with more --trials or --seconds, to go on" in err
    err = steptp("minimise", overflow, "--trials", "1")[2]
    assert "1 trial: " in err and "stopped by 1 trial, at " in err
    err = steptp("minimise", overflow, "--trials", "0")[2]
    assert "0 trials: " in err and "nothing smaller is known yet" in err
    (found,) = steptp.json("check", written, code=1)
    assert {d["code"] for d in found["diagnostics"]} == {"integer-overflow"}


@pytest.mark.slow
def test_a_pool_of_its_own_finds_the_same(steptp: Steptp, plant: Plant, overflow: Path) -> None:
    own = steptp.json("minimise", overflow, "--workers", "1")
    plant("nothing")
    assert steptp.json("minimise", overflow) == own


def test_a_rejected_row_by_its_line(steptp: Steptp, plant: Plant) -> None:
    plant("split_swaps_differences")
    row = rejected(
        stage="verify",
        cause="wrong-result",
        leir_before=SOFTMAX,
        step=SPLIT_SUM,
        leir_after=SOFTMAX,
        state_id_before="",
    )
    report = steptp.json("minimise", "-", "--trials", "4", stdin=to_line(row))
    assert report["failing"]["cause"] == "wrong-result"
    assert [step["strategy"] for step in report["steps"]] == ["loop_split"]
    assert report["after"]["statements"] < report["before"]["statements"]
    assert '# inputs {"id":"sum","seed":0,"draws":1}' in report["text"]
    other = row.model_copy(update={"cause": "crash"})
    message = steptp.fails("minimise", "-", stdin=to_line(other))
    assert "does not fail as recorded (crash): it fails otherwise now, run: wrong-result (llvm)" in message


def test_a_step_from_the_command_line(steptp: Steptp, plant: Plant, tmp_path: Path) -> None:
    plant("split_swaps_differences")
    (tmp_path / "before.leir").write_text(SOFTMAX)
    step = json.dumps(SPLIT_SUM.model_dump())
    report = steptp.json("minimise", tmp_path / "before.leir", "--step", step, "--trials", "0")
    assert (report["failing"]["cause"], report["leir"]) == ("wrong-result", SOFTMAX)
    assert report["steps"] == [json.loads(step)] and f"# step {step}\n" in report["text"]


def test_ctrl_c_prints_the_best_so_far(steptp: Steptp, plant: Plant, overflow: Path) -> None:
    plant("nothing", after=16)
    code, out, err = steptp("minimise", overflow)
    assert code == 130 and "stopped by Ctrl-C" in err
    assert out.startswith("# fails: check: integer-overflow") and "Q_" not in out
    plant("nothing", after=0)
    assert steptp("minimise", overflow)[:2] == (130, "")


def test_an_error_prints_the_best_so_far(steptp: Steptp, plant: Plant, overflow: Path) -> None:
    plant("nothing", after=16, raised=PoolError("somebody ends the workers"))
    code, out, err = steptp("minimise", overflow)
    assert code == 2 and "stopped by an error" in err and "somebody ends the workers" in err
    assert out.startswith("# fails: check: integer-overflow") and "Q_" not in out


def test_what_cannot_be_written_is_printed(
    steptp: Steptp, plant: Plant, overflow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The place was good when the search began."""
    plant("nothing")

    def full(file: Path, _: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    monkeypatch.setattr(manifest, "write_whole", full)
    code, out, err = steptp("minimise", overflow, "--out", tmp_path / "out.leir", "--trials", "9")
    assert code == 2 and "out.leir: No space left on device: make room" in err
    assert out.startswith("# fails: check: integer-overflow")


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


def test_rows_of_a_run(steptp: Steptp, plant: Plant, small_run: Path) -> None:
    """Their verdicts are invented, so that their programs do not fail; what was left out by a rule is no failure."""
    plant("nothing")
    rows = [row for row in run_rows(small_run, "rejected") if isinstance(row, RejectedRow)]
    wrong = next(row for row in rows if row.stage == "verify" and row.cause == "wrong-result")
    message = steptp.fails("minimise", f"{small_run}#{wrong.id}")
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
def test_what_cannot_be_shrunk(
    steptp: Steptp, plant: Plant, arguments: tuple[str, ...], text: str, message: str
) -> None:
    plant("nothing")
    assert steptp.fails("minimise", *arguments, stdin=text).startswith(message)


def test_a_row_whose_program_is_none(steptp: Steptp) -> None:
    row = rejected(stage="verify", cause="crash", leir_before="in A_4;out", step=SPLIT_SUM, state_id_before="")
    message = steptp.fails("minimise", "-", stdin=to_line(row))
    assert message.startswith("<stdin>: a program of this row is no LEIR: ")


def test_rows_and_pairs_have_no_other_steps(steptp: Steptp, tmp_path: Path) -> None:
    (tmp_path / "sum.leir").write_text(SUM)
    step = json.dumps(SPLIT_SUM.model_dump())
    given = ("minimise", "-", "--step", step)
    assert "give --step or --against, not both" in steptp.fails(
        *given, "--against", str(tmp_path / "sum.leir"), stdin=SUM
    )
    assert "a row has its own steps" in steptp.fails(*given, stdin="{}")
