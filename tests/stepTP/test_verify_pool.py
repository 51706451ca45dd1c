"""The worker pool: whatever one job does, the others' results stand, and nothing is left behind."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from stepTP.pipeline import TASKS
from stepTP.verify.machine import usable_cores
from stepTP.verify.pool import Failure, Pool, PoolError, available_memory, worker_count
from stepTP.verify.spawn import ImportedAlone

FAULTS = "tests.stepTP.faults."


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_dead(processes: list[int], seconds: float = 5.0) -> list[int]:
    deadline = time.monotonic() + seconds
    while (left := [p for p in processes if is_alive(p)]) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


@pytest.fixture(scope="module")
def pool():
    with Pool(workers=1, timeout_s=30.0, memory_bytes=256 << 20) as pool:
        yield pool


@pytest.fixture(scope="module")
def hasty_pool():
    with Pool(workers=1, timeout_s=1.0) as pool:
        yield pool


def run(pool: Pool, name: str, **payload: object) -> object:
    return pool.submit(FAULTS + name, payload).result(timeout=60)


CRASHES = [
    ("segfault", "crash", "killed by SIGSEGV"),
    ("abort", "crash", "killed by SIGABRT"),
    ("leave", "crash", "ended with exit status 3"),
    ("hog", "memory", "used more than 256 MiB of memory"),
    ("allocation_error", "memory", "used more than 256 MiB of memory"),
    ("send_nonsense", "crash", "the worker sent nonsense: a message of 18446744073709551615 bytes"),
]


@pytest.mark.parametrize(("name", "kind", "cause"), CRASHES)
def test_a_lost_worker_costs_its_job_only(pool: Pool, name: str, kind: str, cause: str) -> None:
    failure = failure_among_good_jobs(pool, name)
    assert (failure.kind, failure.cause, failure.task) == (kind, cause, FAULTS + name)


@pytest.mark.parametrize("name", ["hang", "hang_in_native_code", "stop_itself"])
def test_a_hang_costs_its_job_only(hasty_pool: Pool, name: str) -> None:
    failure = failure_among_good_jobs(hasty_pool, name)
    assert (failure.kind, failure.cause) == ("timeout", "did not finish within 1 s")


def failure_among_good_jobs(pool: Pool, name: str) -> Failure:
    futures = [pool.submit(FAULTS + "double", {"x": 1}), pool.submit(FAULTS + name, {})]
    futures.append(pool.submit(FAULTS + "double", {"x": 2}))
    before, failure, after = [future.result(timeout=60) for future in futures]
    assert (before, after) == (2, 4)
    assert isinstance(failure, Failure)
    return failure


def test_the_last_words_of_a_worker_are_kept(pool: Pool) -> None:
    failure = run(pool, "abort")
    assert isinstance(failure, Failure)
    assert "the last words" in failure.detail
    assert "the last words" not in failure.cause


def test_expected_errors_travel_by_name_and_bugs_with_a_traceback(pool: Pool) -> None:
    refused, bug, unsendable = run(pool, "raise_refused"), run(pool, "raise_bug"), run(pool, "unsendable")
    assert refused == Failure("refused", FAULTS + "raise_refused", "path-is-a-loop: (0,) is an equation", "Refused")
    assert isinstance(bug, Failure)
    assert (bug.kind, bug.error, bug.cause) == ("bug", "KeyError", "'not there'")
    assert "raise_bug" in bug.detail
    assert isinstance(unsendable, Failure)
    assert (unsendable.kind, unsendable.error) == ("bug", "TypeError")


def test_an_unknown_task_is_a_bug(pool: Pool) -> None:
    no_module = pool.submit("tests.stepTP.nowhere.f", {}).result(timeout=60)
    no_function = run(pool, "nothing_of_that_name")
    assert isinstance(no_module, Failure)
    assert isinstance(no_function, Failure)
    assert (no_module.error, no_function.error) == ("ModuleNotFoundError", "AttributeError")


def test_an_error_does_not_cost_the_worker(pool: Pool) -> None:
    first = run(pool, "process_id")
    run(pool, "raise_bug")
    assert run(pool, "process_id") == first


def test_noise_does_not_disturb_the_messages(pool: Pool) -> None:
    assert [run(pool, "noisy", x=n) for n in range(3)] == [0, 1, 2]
    assert run(pool, "read_standard_input") == ""


def test_a_large_payload_and_result(pool: Pool) -> None:
    assert run(pool, "double", x="a" * 5_000_000) == "a" * 10_000_000


def test_a_payload_that_is_not_plain_is_refused_at_once(pool: Pool) -> None:
    with pytest.raises(TypeError):
        pool.submit(FAULTS + "double", {"x": object()})


def test_a_job_that_fails_once_runs_again(pool: Pool, tmp_path: Path) -> None:
    assert run(pool, "fail_once", mark=str(tmp_path / "mark")) == "second run"


def test_a_worker_has_one_thread_and_a_fixed_hash_seed(pool: Pool) -> None:
    names = ["OMP_NUM_THREADS", "TVM_NUM_THREADS", "PYTHONHASHSEED"]
    assert run(pool, "environment", names=names) == dict(zip(names, "110", strict=True))


def test_what_is_imported_before_a_fork_starts_no_cuda(pool: Pool) -> None:
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    assert run(pool, "environment", names=[name]) == {name: "1"}


def test_a_slow_import_is_not_a_hang(hasty_pool: Pool) -> None:
    assert hasty_pool.submit("tests.stepTP.slow_import.task", {"x": 5}).result(timeout=60) == 5


def test_a_worker_that_dies_while_idle_is_replaced() -> None:
    with Pool(workers=1) as pool:
        first = run(pool, "process_id")
        assert isinstance(first, int)
        os.kill(first, signal.SIGKILL)
        assert run(pool, "process_id") != first


def test_a_worker_that_has_grown_is_replaced() -> None:
    with Pool(workers=1, memory_bytes=400 << 20) as pool:
        seen = [run(pool, "grow", bytes=20 << 20) for _ in range(30)]
    assert 1 < len(dict.fromkeys(seen)) < 15


def test_a_killed_worker_takes_its_children_along(tmp_path: Path) -> None:
    pid_file = tmp_path / "child"
    with Pool(workers=1, timeout_s=1.0) as pool:
        failure = run(pool, "hang_with_child", pid_file=str(pid_file))
    assert isinstance(failure, Failure)
    assert wait_until_dead([int(pid_file.read_text())]) == []


def test_no_worker_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no interpreter here >&2\nexit 9\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with Pool(workers=1) as pool:
        futures = [pool.submit(FAULTS + "double", {"x": 1}) for _ in range(2)]
        for future in futures:
            with pytest.raises(PoolError, match="exit status 9\nno interpreter here"):
                future.result(timeout=60)


def test_a_closed_pool_takes_no_jobs() -> None:
    pool = Pool(workers=1)
    pool.close()
    with pytest.raises(PoolError, match="closed"):
        pool.submit(FAULTS + "double", {"x": 1})


def test_queued_jobs_finish_before_the_pool_closes() -> None:
    with Pool(workers=2) as pool:
        futures = [pool.submit(FAULTS + "double", {"x": n}) for n in range(40)]
    assert [future.result(timeout=0) for future in futures] == [2 * n for n in range(40)]


@pytest.mark.parametrize("workers", [1, 3])
def test_500_jobs_with_faults_give_the_same_results_for_any_number_of_workers(workers: int) -> None:
    faults = {100: "segfault", 200: "leave", 300: "raise_bug", 400: "abort"}
    with Pool(workers=workers, timeout_s=20.0) as pool:
        before = max(resident(p) for p in pids(pool, workers))
        futures = [pool.submit(FAULTS + faults.get(n, "double"), {"x": n}, near=str(n % 7)) for n in range(500)]
        results = [future.result(timeout=120) for future in futures]
        after = max(resident(p) for p in pids(pool, workers))
    for number, result in enumerate(results):
        if number in faults:
            assert isinstance(result, Failure)
        else:
            assert result == 2 * number
    assert after < before + (8 << 20)


@pytest.mark.slow
def test_10_000_jobs_leave_memory_flat() -> None:
    """Of the workers and of this process, and no file more is open. In the first half, some jobs kill their workers."""
    seen: list[tuple[int, int, int]] = []
    with Pool(workers=2, timeout_s=20.0) as pool:
        for thousand in range(10):
            tasks = ["abort" if thousand < 5 and n % 500 == 250 else "double" for n in range(1000)]
            futures = [pool.submit(FAULTS + task, {"x": n}, near=str(n % 7)) for n, task in enumerate(tasks)]
            results = [future.result(timeout=120) for future in futures]
            assert all(result == 2 * n for n, result in enumerate(results) if tasks[n] == "double")
            assert sum(isinstance(result, Failure) for result in results) == tasks.count("abort")
            largest = max(resident(process) for process in pids(pool, 2))
            seen.append((largest, resident(os.getpid()), len(list(Path("/proc/self/fd").iterdir()))))
    print(*(f"{worker >> 10} KiB, {own >> 10} KiB, {files} files" for worker, own, files in seen), sep="\n")
    assert seen[-1][0] < seen[5][0] + (4 << 20)
    assert seen[-1][1] < seen[1][1] + (8 << 20)
    assert seen[-1][2] <= seen[1][2] + 1


def pids(pool: Pool, workers: int) -> list[int]:
    futures = [pool.submit(FAULTS + "process_id", {"seconds": 0.2}) for _ in range(workers)]
    return [future.result(timeout=60) for future in futures]


def resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_near_jobs_share_a_worker() -> None:
    with Pool(workers=2) as pool:
        pids(pool, 2)
        futures = [pool.submit(FAULTS + "process_id", {"seconds": 0.02}, near="ab"[n % 2]) for n in range(20)]
        seen = [future.result(timeout=60) for future in futures]
    assert len(set(seen[4:-4:2])) == 1
    assert len(set(seen[5:-4:2])) == 1


PARENT = textwrap.dedent("""
    import signal, sys
    from stepTP.verify.pool import Pool
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell starts in the background ignores it
    with Pool(workers=2, timeout_s=600) as pool:
        for process in [pool.submit("tests.stepTP.faults.process_id", {"seconds": 0.3}) for _ in range(2)]:
            print(process.result(), flush=True)
        hanging = [pool.submit("tests.stepTP.faults.hang_in_native_code", {}) for _ in range(4)]
        print("hanging", flush=True)
        hanging[0].result()
""")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_parent(how: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert parent.stdout
    lines = [parent.stdout.readline().strip() for _ in range(3)]
    workers = [int(line) for line in lines[:2]]
    assert all(is_alive(worker) for worker in workers)
    time.sleep(0.2)
    begun = time.monotonic()
    parent.send_signal(how)
    _, errors = parent.communicate(timeout=20)
    assert time.monotonic() - begun < 10  # seconds, of which a quiet machine needs a fraction: none waits for its task
    assert wait_until_dead(workers) == []
    assert parent.returncode == -how
    assert ("KeyboardInterrupt" in errors) == (how == signal.SIGINT)


def test_the_number_of_workers_follows_cores_and_memory() -> None:
    assert worker_count(1) == usable_cores()
    assert worker_count(available_memory() * 2) == 1
    with pytest.raises(ValueError, match="needs a worker"):
        Pool(workers=0)


def test_a_module_that_starts_a_thread_is_imported_by_workers_alone() -> None:
    alone = "every worker imports tests.stepTP.threaded alone: tests.stepTP.threaded: its import started threads"
    tasks = [FAULTS + "double", "tests.stepTP.threaded.threads", "tests.stepTP.gpu_faults.run"]
    with pytest.warns(ImportedAlone, match=alone) as told, Pool(workers=2, timeout_s=20, tasks=tasks) as pool:
        futures = [pool.submit("tests.stepTP.threaded.threads", {}) for _ in range(4)]
        assert [future.result() for future in futures] == [2, 2, 2, 2]
    assert len(told) == 1


DRIVER = """
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void called(void) { close(creat(getenv("CALLED"), 0600)); }
int cuInit(unsigned flags) { called(); return 100; }
int cuDriverGetVersion(int *version) { called(); *version = 13000; return 0; }
int cuCtxGetCurrent(void **context) { *context = 0; return 3; }
int cuGetProcAddress(void) { called(); return 500; }
int cuGetProcAddress_v2(void) { called(); return 500; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_imports_of_tasks_start_no_cuda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, source in {"libcuda.so.1": DRIVER, "libnvidia-ml.so.1": "int nvmlInit(void) { return 9; }"}.items():
        command = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(tmp_path / name)]
        subprocess.run(command, input=source, text=True, check=True)
    called = tmp_path / "called"
    monkeypatch.setenv("CALLED", str(called))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.delenv("TVM_FFI_DISABLE_TORCH_C_DLPACK", raising=False)
    with Pool(workers=1, timeout_s=60, tasks=("tests.stepTP.driven.count", *TASKS)) as pool:
        assert pool.submit(FAULTS + "double", {"x": 1}).result(timeout=120) == 2
        assert not called.exists()
        assert pool.submit("tests.stepTP.driven.count", {}).result(timeout=120) == 0
        assert called.exists()
