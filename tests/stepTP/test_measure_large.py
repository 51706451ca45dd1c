"""Timing at real sizes: what was timed is compared, and who times has the device alone."""

import fcntl
import threading
from pathlib import Path
from typing import Any

import pytest

from stepTP.records import Verdict
from stepTP.search.contest import text_of
from stepTP.verify.measure import large

PLAIN = "in A_{16,64};out C_{16};\nL^{16,64}_{i,j}[C_i+=A_{i,j};]\n"
SPLIT = "in A_{16,64};out C_{16};\nL^{16,8,8}_{i,j,k}[C_i+=A_{i,j*8+k};]\n"
HALF = "in A_{16,64};out C_{16};\nL^{16,32}_{i,j}[C_i+=A_{i,j};]\n"
CODE = text_of(
    {"sizes": {"ROWS": 16, "COLUMNS": 64}, "inputs": ["(ROWS, COLUMNS)"], "forward": "a.sum(dim=-1)"}, small=False
)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "_ROUND_S", 1e-4)


def payload(tmp_path: Path, state: str = PLAIN) -> dict[str, Any]:
    shared = {"target": "llvm", "lock": str(tmp_path / "lock"), "longest_s": 1.0}
    return {**shared, "code": CODE, "leir": PLAIN, "state": state}


def test_a_right_program_has_seconds_and_a_verdict(tmp_path: Path) -> None:
    found = large.time_program(payload(tmp_path, SPLIT))
    assert found["seconds"] > 0 and found["error"] == ""
    verdict = Verdict.model_validate(found["verdict"])
    assert (verdict.target, verdict.inputs, verdict.bit_equal) == ("llvm", ("normal/0",), None)
    assert verdict.max_abs <= verdict.tolerance
    assert verdict.bound_used == pytest.approx(verdict.max_abs / verdict.tolerance)
    assert 0 < verdict.bound_used < 1 and 0 < verdict.max_rel < 1e-3 and verdict.max_ulp > 0


def test_what_computes_something_else_has_none(tmp_path: Path) -> None:
    found = large.time_program(payload(tmp_path, HALF))
    assert found["seconds"] is None
    assert found["error"].startswith("wrong result: ")


def test_what_would_take_too_long_on_a_gpu_is_not_run(tmp_path: Path) -> None:
    found = large.time_program({**payload(tmp_path), "target": "cuda", "longest_s": 1e-9})
    assert found == {"seconds": None, "error": found["error"]}
    assert found["error"].startswith("left out: ")


def test_the_module_and_the_limits_are_timed(tmp_path: Path) -> None:
    assert large.time_module({**payload(tmp_path), "compiled": False})["seconds"] > 0
    assert large.least(payload(tmp_path)) == {"bytes": 4 * (16 * 64 + 16), "flops": 2 * 16 * 64}


def test_who_times_waits_for_those_that_share_the_device(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    done = threading.Event()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with large._turn(str(lock), shared=True):  # another that shares goes on
            thread = threading.Thread(target=lambda: (large.time_program(payload(tmp_path)), done.set()))
            thread.start()
            assert not done.wait(0.3)
        fcntl.flock(held, fcntl.LOCK_UN)
        assert done.wait(60)
        thread.join()
