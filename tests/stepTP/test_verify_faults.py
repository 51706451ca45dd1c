"""Many jobs, a fifth of which go wrong in every way there is: the others' results stand, and the bad ones are named."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from stepTP.verify import pool as pool_module
from stepTP.verify.pool import Failure, Pool, PoolError
from stepTP.verify.spawn import ImportedAlone
from tests.stepTP.test_verify_pool import is_alive, wait_until_dead

FAULTS = "tests.stepTP.faults."
TIMEOUT_S = 1.0
# How each fault ends: its kind, and whether it is the time limit that ends it.
FAULT_KINDS = {
    "segfault": "crash",
    "abort": "crash",
    "leave": "crash",
    "overflow_stack": "crash",
    "corrupt_heap": "crash",
    "send_nonsense": "crash",
    "close_pipes": "crash",
    "lie": "crash",
    "breed": "crash",
    "hog": "memory or timeout",  # whichever it meets first on a busy machine
    "hang_in_native_code": "timeout",
    "spin": "timeout",
    "stop_itself": "timeout",
    "raise_bug": "bug",
}
MARK = "STEPTP_TEST_DESCENDANT"


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Stands in the environment of every process that the test starts, and of theirs."""
    monkeypatch.setenv(MARK, str(tmp_path))
    return str(tmp_path)


def marked(mark: str) -> list[int]:
    """The processes of a mark but this one."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if f"{MARK}={mark}".encode() in environment.split(b"\0") and is_alive(int(folder.name)):
                found.append(int(folder.name))
    return found


def wait_until_none(mark: str, seconds: float = 10.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def mixture(jobs: int, bad: int, seed: int) -> list[str]:
    """The tasks of so many jobs, in an order that is drawn; the bad ones are of each kind in turn."""
    names = ["rest"] * (jobs - bad) + list(islice(cycle(FAULT_KINDS), bad))
    random.Random(seed).shuffle(names)
    return names


def check(names: list[str], results: list[Any]) -> None:
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        if name == "rest":
            assert result == number, f"job {number}"
        else:
            assert isinstance(result, Failure), f"{name} gives {result}"
            assert result.kind in FAULT_KINDS[name], f"{name}: {result}"


def payload(number: int, seconds: float = 0.05) -> dict[str, Any]:
    return {"x": number, "seconds": seconds, "children": 6}


@pytest.mark.parametrize(
    ("batch", "seed"),
    [(8, 0), *(pytest.param(batch, seed, marks=pytest.mark.slow) for batch in (1, 8) for seed in range(1, 6))],
)
def test_200_jobs_of_which_40_go_wrong(batch: int, seed: int, mark: str) -> None:
    """Seconds: at most half more than the good jobs alone take, and the limits that expired, over the workers.

    A job that hangs and is among the last to begin keeps one worker longer than its share.
    """
    names, workers = mixture(200, 40, seed), 4
    with Pool(workers, TIMEOUT_S, memory_bytes=256 << 20, tasks=[FAULTS + "rest"]) as pool:
        pool.submit(FAULTS + "rest", payload(0)).result(timeout=120)
        good = [number for number, name in enumerate(names) if name == "rest"]
        begun = time.monotonic()
        check(["rest"] * 200, [*run(pool, batch, ["rest"] * 200)])
        alone_s = (time.monotonic() - begun) * len(good) / 200
        begun = time.monotonic()
        results = [*run(pool, batch, names)]
        took_s = time.monotonic() - begun
    check(names, results)
    pairs = zip(names, results, strict=True)  # what only closed its pipes is given a second to end, too
    expiring = [name for name, result in pairs if name == "close_pipes" or getattr(result, "kind", "") == "timeout"]
    expired_s = 2 * TIMEOUT_S * len(expiring)
    aim_s = 1.5 * alone_s + expired_s / workers
    told = f"{took_s:.2f} s; good ones alone {alone_s:.2f} s, expired {expired_s} s, aim {aim_s:.2f} s"
    print(f"batch {batch}, order {seed}: {told}")
    assert took_s < aim_s + 20  # a busy machine starts processes slowly; each retry of a hang beyond one would show
    assert wait_until_none(mark) == []


def run(pool: Pool, batch: int, names: list[str]) -> Iterator[Any]:
    """The results of the tasks, in order: each a job, or in batches."""
    futures: list[Any] = []
    for start in range(0, len(names), batch):
        some = [(number, names[number]) for number in range(start, min(start + batch, len(names)))]
        if batch == 1:
            futures += [pool.submit(FAULTS + name, payload(number)) for number, name in some]
        else:
            items = [{"task": name, **payload(number)} for number, name in some]
            futures += pool.submit_batch(FAULTS + "work_each", {}, items)
    for future in futures:
        yield future.result(timeout=120)


def test_a_batch_keeps_its_answers_and_names_its_culprit() -> None:
    """The items before it ran once, those after it once, in another worker."""
    items = [{"task": "rest", "x": n, "seconds": 0} for n in range(6)]
    items[3] = {"task": "segfault"}
    ran: list[Any] = []
    with Pool(workers=1) as pool:
        original = pool._take_loss

        def noted(number: int, job: Any, lost: Any, left: Any, at: Any, lasted: float) -> None:
            ran.append((len(job.items), sorted(left), at))
            original(number, job, lost, left, at, lasted)

        pool._take_loss = noted  # type: ignore[method-assign]
        results = [f.result(timeout=60) for f in pool.submit_batch(FAULTS + "work_each", {}, items)]
    assert ran == [(6, [3, 4, 5], 3), (1, [0], 0)]
    assert [r if n != 3 else r.cause for n, r in enumerate(results)] == [0, 1, 2, "killed by SIGSEGV", 4, 5]


def test_a_hang_in_a_batch_costs_two_limits() -> None:
    items = [{"task": "rest", "x": n, "seconds": 0} for n in range(8)]
    items[2] = {"task": "hang"}
    expired: list[list[int]] = []
    with Pool(workers=1, timeout_s=1.5) as pool:
        original = pool._take_loss

        def noted(number: int, job: Any, lost: Any, left: Any, at: Any, lasted: float) -> None:
            expired.append(sorted(left))
            original(number, job, lost, left, at, lasted)

        pool._take_loss = noted  # type: ignore[method-assign]
        results = [f.result(timeout=60) for f in pool.submit_batch(FAULTS + "work_each", {}, items)]
    assert [n for n, r in enumerate(results) if isinstance(r, Failure)] == [2]
    assert [len(left) for left in expired] == [6, 1]  # in its batch, and alone; no other item waits for a limit


def test_where_all_are_worked_on_together_each_is_tried_alone() -> None:
    items: list[dict[str, Any]] = [{"task": "rest", "x": n, "seconds": 0} for n in range(5)]
    items[1]["together"] = "abort"
    items[4]["together"] = "raise_bug"
    with Pool(workers=2) as pool:
        results = [f.result(timeout=60) for f in pool.submit_batch(FAULTS + "work_each", {}, items)]
    assert [results[n] for n in (0, 2, 3)] == [0, 2, 3]
    assert (results[1].kind, results[4].kind, results[4].error) == ("crash", "bug", "KeyError")


def test_errors_in_a_batch_are_their_items_own() -> None:
    tasks = ["double", "raise_refused", "double", "raise_bug", "allocation_error", "unsendable", "double"]
    with Pool(workers=1) as pool:
        futures = pool.submit_batch(FAULTS + "work_each", {}, [{"task": t, "x": n} for n, t in enumerate(tasks)])
        results = [f.result(timeout=60) for f in futures]
    assert [results[n] for n in (0, 2, 6)] == [0, 4, 12]
    assert [results[n].kind for n in (1, 3, 4, 5)] == ["refused", "bug", "memory", "bug"]
    assert results[1].message == "Refused: path-is-a-loop: (0,) is an equation"


def test_a_task_that_answers_too_little_or_is_no_generator() -> None:
    with Pool(workers=1) as pool:
        first, second = pool.submit_batch(FAULTS + "answer_some", {}, [1, 2])
        assert first.result(timeout=60) == 1
        assert second.result(timeout=60).kind == "bug"
        (third,) = pool.submit_batch(FAULTS + "double", {"x": 1}, [1])
        assert third.result(timeout=60).error == "TypeError"
        assert pool.submit_batch(FAULTS + "work_each", {}, []) == []


def test_a_program_that_kills_itself_is_named_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_KILLS", 4)
    with Pool(workers=2, timeout_s=30) as pool:
        good = [pool.submit(FAULTS + "rest", {"x": n, "seconds": 0.3}) for n in range(12)]
        bad = [pool.submit(FAULTS + name, {}) for name in ("kill_itself", "kill_its_group", "kill_its_parents_group")]
        causes = [future.result(timeout=120).cause for future in bad]
        assert [future.result(timeout=120) for future in good] == list(range(12))
    assert causes == ["killed by SIGKILL", "killed by SIGTERM", "ended with its nursery"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_killed_seven_times_from_outside_costs_nothing(tmp_path: Path, how: signal.Signals) -> None:
    """Somebody kills the worker of one job as soon as it runs, seven times."""
    mark, kills = tmp_path / "pid", 0
    items = [{"task": "rest", "x": n, "seconds": 0} for n in range(4)]
    items[2] = {"task": "wait_for_killer", "mark": str(mark), "x": 2}
    with Pool(workers=1, timeout_s=60) as pool:
        futures = pool.submit_batch(FAULTS + "work_each", {}, items)
        while kills < 7:
            if mark.exists() and (text := mark.read_text()):
                mark.unlink()
                os.kill(int(text), how)
                kills += 1
            time.sleep(0.005)
        mark.with_suffix(".go").touch()
        assert [future.result(timeout=60) for future in futures] == [0, 1, 2, 3]


def test_whoever_kills_every_worker_stops_the_pool_and_rejects_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_KILLS", 3)
    done = threading.Event()
    with Pool(workers=1, timeout_s=60) as pool:
        future = pool.submit(FAULTS + "rest", {"x": 1, "seconds": 30})

        def kill_all() -> None:
            while not done.wait(0.05):
                for worker in list(pool._live.values()):
                    if worker.used:
                        worker.kill()

        killer = threading.Thread(target=kill_all)
        killer.start()
        with pytest.raises(PoolError, match="somebody ends the workers"):
            future.result(timeout=120)
        done.set()
        killer.join()


def test_workers_that_die_before_they_run_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first three are killed while they start, the fourth is let live."""
    from stepTP.verify.process import WorkerProcess

    original, killed = WorkerProcess.wait_until_ready, []

    def kill_first(self: WorkerProcess) -> None:
        original(self)
        if len(killed) < 3:
            killed.append(self._process)
            os.kill(self._process, signal.SIGKILL)

    monkeypatch.setattr(WorkerProcess, "wait_until_ready", kill_first)
    with Pool(workers=1) as pool:
        assert pool.submit(FAULTS + "double", {"x": 4}).result(timeout=60) == 8
    assert len(killed) == 3


def test_a_module_whose_import_kills_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its jobs have no result, and the others have theirs."""
    (tmp_path / "deadly.py").write_text("import os\nos.abort()\n")
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n"
        "def task(payload): return threading.active_count()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(ImportedAlone) as told, Pool(workers=2) as pool:
        good = [pool.submit(FAULTS + "double", {"x": n}) for n in range(4)]
        with pytest.raises(PoolError, match="before they run anything: killed by SIGABRT"):
            pool.submit("deadly.task", {}).result(timeout=60)
        assert pool.submit("threaded.task", {}).result(timeout=60) == 2
        assert [future.result(timeout=60) for future in good] == [0, 2, 4, 6]
    messages = " ".join(str(warning.message) for warning in told)
    assert "deadly alone: killed by SIGABRT" in messages
    assert "threaded: its import started threads" in messages


PARENT = """
import signal, sys
from pathlib import Path
from stepTP.verify.pool import Pool
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
with Pool(workers=2, timeout_s=600) as pool:
    hanging = [pool.submit("tests.stepTP.faults.breed_and_hang", {"mark": f"{sys.argv[1]}/{n}"}) for n in range(2)]
    print("started", flush=True)
    hanging[0].result()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_descendant_outlives_the_parent(how: signal.Signals, mark: str, tmp_path: Path) -> None:
    """Children of workers too, that went into sessions of their own."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not all((tmp_path / str(n)).exists() for n in range(2)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(marked(mark)) == 8  # the parent, the nursery, two workers with two children each
    parent.send_signal(how)
    parent.wait(timeout=20)
    assert wait_until_none(mark) == []


def test_an_end_before_the_first_worker_is_there(mark: str) -> None:
    """The pool is left while its workers start: nothing goes on."""
    for pause in (0.0, 0.02, 0.1):
        with pytest.raises(KeyboardInterrupt), Pool(workers=2) as pool:
            pool.submit("tests.stepTP.slow_import.task", {"x": 1})
            time.sleep(pause)
            begun = time.monotonic()
            raise KeyboardInterrupt
        assert time.monotonic() - begun < 5
    assert wait_until_none(mark) == []


def test_a_second_interruption_does_not_stop_the_end_halfway(mark: str) -> None:
    with pytest.raises(KeyboardInterrupt), Pool(workers=1, timeout_s=600) as pool:
        hanging = pool.submit(FAULTS + "hang_in_native_code", {})
        pool.submit(FAULTS + "double", {"x": 1})
        end = pool._spawner.end

        def interrupted(haste: bool = False) -> None:
            signal.raise_signal(signal.SIGINT)
            end(haste)

        pool._spawner.end = interrupted  # type: ignore[method-assign]
        raise KeyboardInterrupt
    assert wait_until_none(mark) == [] and hanging.done()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_flood_of_messages_ends() -> None:
    with Pool(workers=1, timeout_s=5) as pool:
        items = [{"task": "flood"}, {"task": "double", "x": 2}]
        failures = [pool.submit(FAULTS + "flood", {}), *pool.submit_batch(FAULTS + "work_each", {}, items)]
        answers = [failure.result(timeout=60) for failure in failures]
        assert [answer.cause for answer in answers[:2]] == ["the worker sent nonsense"] * 2
        assert answers[2] == 4
        assert pool.submit(FAULTS + "double", {"x": 4}).result(timeout=60) == 8


def test_a_killed_worker_takes_its_orphans_along(mark: str) -> None:
    with Pool(workers=1) as pool:
        assert pool.submit(FAULTS + "breed", {"children": 9}).result(timeout=60).cause == "killed by SIGABRT"
        worker = pool.submit(FAULTS + "process_id", {}).result(timeout=60)
        assert len(marked(mark)) == 2  # the nursery and this worker
        assert is_alive(worker)
    assert wait_until_dead([worker]) == []


CHILDREN = """
import os, subprocess
from stepTP.verify import kernel
kernel.adopt_orphans()
started = [subprocess.Popen(["sleep", "60"], start_new_session=apart) for apart in (False, True)]
orphan = int(subprocess.check_output("sleep 60 >/dev/null & echo $!", shell=True))
ended = os.fork() or os._exit(0)
os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
expected = sorted([*(process.pid for process in started), orphan, ended])
try:
    assert sorted(kernel.children()) == expected, "listed"
    assert sorted(kernel.children_among_all()) == expected, "looked for"
    read = kernel.Path.read_text
    def unlisted(self):
        if self.name == "children":
            raise FileNotFoundError
        return read(self)
    kernel.Path.read_text = unlisted
    assert sorted(kernel.children()) == expected, "where the kernel has no list"
finally:
    for process in expected:
        os.kill(process, 9)
assert len(kernel.children()) == 4, "killed"
while expected:
    expected.remove(os.wait()[0])
    assert sorted(kernel.children()) == expected, "waited for"
"""


def test_children_are_found_however_they_came_and_went() -> None:
    """Of the group and of a session of their own, adopted, ended; from the kernel's list and without one."""
    subprocess.run([sys.executable, "-c", CHILDREN], check=True, timeout=60)
