"""What workers share: an entry is read as it was written, whoever is killed, and trials are made once a pool."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leir.printer import to_text
from stepTP.frontend import translated
from stepTP.verify import board as board_module
from stepTP.verify import task
from stepTP.verify.board import Board
from stepTP.verify.carry import packed, unpacked
from stepTP.verify.compare import Expected
from stepTP.verify.inputs import Draw
from stepTP.verify.pool import Pool
from stepTP.verify.prepare import Trial, Trials, Unverified
from stepTP.verify.task import SourceKey, prepared_trials
from tests.stepTP.test_verify_task import COMMON, FUSED, LAYER, SOFTMAX, STATES

FAULTS = "tests.stepTP.faults."
KEY = SourceKey("softmax", "", SOFTMAX, 1, 0)


@pytest.fixture
def own_board(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A board of this process."""
    monkeypatch.setattr(board_module, "_board", Board())
    prepared_trials.cache_clear()
    yield
    prepared_trials.cache_clear()


class Clock:
    """In place of `time`: it passes where one sleeps."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


def in_child(work: Any) -> int:
    """The exit code of a process that does some work; negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def same_bits(a: Any, b: Any) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def assert_equal(one: Trials, other: Trials) -> None:
    assert (one.names, one.skipped) == (other.names, other.skipped)
    for a, b in zip(one.trials, other.trials, strict=True):
        assert list(a.inputs) == list(b.inputs) and list(a.expected) == list(b.expected)
        assert all(same_bits(array, b.inputs[name]) for name, array in a.inputs.items())
        for name, expected in a.expected.items():
            assert expected.dtype == b.expected[name].dtype
            assert same_bits(expected.value, b.expected[name].value)
            assert same_bits(expected.tolerance, b.expected[name].tolerance)


def test_what_one_process_writes_another_reads() -> None:
    shared = Board()
    assert shared.get(b"a") is None
    assert in_child(lambda: shared.put(b"a", b"from a child")) == 0
    assert (shared.get(b"a"), shared.get(b"b")) == (b"from a child", None)
    shared.put(b"b", b"")
    assert in_child(lambda: check(shared.get(b"a") == b"from a child" and shared.get(b"b") == b"")) == 0


def check(holds: bool) -> None:
    assert holds


def test_a_full_board_is_begun_anew_for_all() -> None:
    shared = Board(limit=4096)
    assert in_child(lambda: [shared.put(str(n).encode(), bytes([n]) * 500) for n in range(20)]) == 0
    kept = [n for n in range(20) if shared.get(str(n).encode()) is not None]
    assert kept == list(range(kept[0], 20)) and kept[0] > 0
    assert all(shared.get(str(n).encode()) == bytes([n]) * 500 for n in kept)
    shared.put(b"large", bytes(5000))
    assert shared.get(b"large") is None and shared.get(b"19") == bytes([19]) * 500


def test_a_writer_that_is_killed_halfway_leaves_the_board_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = Board()
    shared.put(b"before", b"1")

    def half(file: int, content: bytes, place: int) -> int:
        written(file, content[: len(content) // 2], place)
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    written = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(board_module.os, "pwrite", half)
        assert in_child(lambda: shared.put(b"torn", b"2" * 1000)) == -signal.SIGKILL
    assert (shared.get(b"before"), shared.get(b"torn")) == (b"1", None)
    shared.put(b"after", b"3")
    assert (shared.get(b"before"), shared.get(b"torn"), shared.get(b"after")) == (b"1", None, b"3")


def test_a_stopped_worker_that_holds_the_board_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(board_module, "time", clock)
    shared = Board()
    shared.put(b"a", b"1")
    child = os.fork()
    if child == 0:
        with shared._alone(0), shared.making(b"b"):
            os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    with shared.making(b"b"):
        assert clock.passed == pytest.approx(board_module._MAKING_S, abs=0.01)
        assert shared.get(b"a") is None
        shared.put(b"b", b"2")
    assert clock.passed == pytest.approx(board_module._MAKING_S + 2 * board_module._HOLDING_S, abs=0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (shared.get(b"a"), shared.get(b"b")) == (b"1", None)


def test_trials_come_back_bit_for_bit() -> None:
    special = np.array([np.nan, -0.0, np.inf, 5e-324])
    values = np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3))
    drawn = Trial(
        Draw("wide", 1, 3),
        {"A": special.astype(np.float16), "I": values, "S": np.array(True)},
        {"C": Expected(special, np.abs(special), "bf16"), "E": Expected(values, np.zeros((2, 3)), "i64")},
    )
    made = Trials((drawn,), (("edge/0", "nothing is \u221e"),))
    assert_equal(unpacked(packed(made)), made)


def test_a_source_that_cannot_be_verified_is_carried_as_its_reason() -> None:
    with pytest.raises(Unverified, match=r"^no power over a \u03c3$"):
        unpacked(packed(Unverified("no power over a \u03c3")))


@pytest.mark.usefixtures("own_board")
def test_trials_from_the_board_are_those_that_were_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made = prepared_trials(KEY)
    prepared_trials.cache_clear()
    with monkeypatch.context() as patch:
        patch.delattr(task, "_made_trials")
        assert_equal(prepared_trials(KEY), made)
    other = prepared_trials(SourceKey("softmax", "", SOFTMAX, 1, 1))
    assert not same_bits(other.trials[0].inputs["A"], made.trials[0].inputs["A"])


@pytest.mark.usefixtures("own_board")
def test_a_failed_making_is_shared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    key = SourceKey("degenerate", "", "in A_{4};out C_{4};\nL^{4}_i[C_i=A_i*0.0;]\n", 1, 0)
    with pytest.raises(Unverified) as first:
        prepared_trials(key)
    with monkeypatch.context() as patch:
        patch.delattr(task, "_made_trials")
        with pytest.raises(Unverified) as second:
            prepared_trials(key)
    assert str(first.value) == str(second.value)


TASKS = [FAULTS + "verify_and_count", "stepTP.verify.task.verify", "stepTP.intake.translate"]


def at_once(pool: Pool, folder: Path, source: dict[str, Any], leir: str) -> list[Any]:
    """The answers of all workers on a state that each is asked for at the same moment; who makes trials says so."""
    folder.mkdir()
    payload = {**COMMON, "source": source, "leir_source": leir, "folder": str(folder), "workers": pool.workers}
    payload |= {"leir": leir, "parent": None, "bit_exact": False}
    futures = [pool.submit(TASKS[0], payload) for _ in range(pool.workers)]
    return [future.result(120) for future in futures]


def made(folder: Path) -> int:
    return len(list(folder.glob("made-*")))


def test_trials_are_made_once_in_a_pool(tmp_path: Path) -> None:
    """Three workers that begin at the same moment; without a board each makes them, and the answers are the same."""
    layer = to_text(translated(LAYER, "layer")[1].program)
    sources = {"softmax": ({"id": "softmax"}, SOFTMAX), "layer": ({"id": "layer", "torch_code": LAYER}, layer)}
    answers: dict[bool, list[Any]] = {}
    for shared in (True, False):
        with Pool(3, timeout_s=60, tasks=TASKS, board=shared) as pool:
            asked = [at_once(pool, tmp_path / f"{name} {shared}", *source) for name, source in sources.items()]
        answers[shared] = [answer for of_source in asked for answer in of_source]
    assert [made(tmp_path / f"{name} {shared}") for shared in (True, False) for name in sources] == [1, 1, 3, 3]
    assert answers[True] == answers[False] and all(answer["ok"] for answer in answers[True])


@pytest.mark.slow
def test_a_maker_that_is_killed_costs_nothing(tmp_path: Path) -> None:
    """The worker that makes the trials first is killed; another makes them."""
    payload = {**COMMON, "folder": str(tmp_path), "workers": 1, "dies": True, **STATES[0]}
    with Pool(2, timeout_s=60, tasks=TASKS, board=True) as pool:
        futures = [pool.submit(TASKS[0], payload) for _ in range(4)]
        answers = [future.result(120) for future in futures]
    assert answers == [task.verify({**COMMON, **STATES[0]})] * 4
    assert (tmp_path / "dead").exists() and made(tmp_path) == 2


def test_only_pools_that_ask_for_a_board_have_one() -> None:
    """Answers of others are judged without: no worker can tell another what to expect."""
    with Pool(1) as alone, Pool(1, board=True) as shared:
        found = [pool.submit(FAULTS + "has_board", {}).result(60) for pool in (alone, shared)]
    assert found == [False, True]


@pytest.mark.usefixtures("own_board")
def test_a_state_is_verified_as_without() -> None:
    with_board = task.verify({**COMMON, "leir": FUSED, "parent": SOFTMAX, "bit_exact": True})
    prepared_trials.cache_clear()
    again = task.verify({**COMMON, "leir": FUSED, "parent": None, "bit_exact": False})
    assert with_board["ok"] and again["ok"]
    for a, b in zip(with_board["verdicts"], again["verdicts"], strict=True):
        assert {**a, "bit_equal": None} == b
