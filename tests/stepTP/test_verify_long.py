"""Long runs: real verifications with faults among them, and so many jobs that a leak would show."""

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from stepTP.verify.pool import Failure, Pool

pytestmark = pytest.mark.slow

SOFTMAX = (
    "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[D_i max=A_{i,j};]L^{16,32}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,32}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)
COMMON = {"source": {"id": "softmax"}, "leir_source": SOFTMAX, "targets": ["llvm"], "draws": 1, "seed": 0}
VERIFY = "stepTP.verify.task.verify_batch"
FAULTY = "tests.stepTP.faults.verify_with_faults"
JOBS = 200
TIMEOUT_S = 20.0
FAULTS = ("segfault", "abort", "leave", "corrupt_heap", "overflow_stack", "hog", "close_pipes", "hang_in_native_code")


def program(number: int) -> dict[str, Any]:
    """The softmax with a name of its own, so that nobody knows it; every tenth is wrong."""
    text = SOFTMAX.replace("E_i", f"E{number}_i")
    return {"leir": text.replace("A_{i,j}-D_i)/", "A_{i,31-j}-D_i)/") if number % 10 == 9 else text,
            "parent": None, "bit_exact": False}  # fmt: skip


def ask(pool: Pool, task: str, items: list[dict[str, Any]], batch: int = 8) -> "Iterator[Future[Any]]":
    for start in range(0, len(items), batch):
        yield from pool.submit_batch(task, COMMON, items[start : start + batch], near="softmax")


def test_200_verifications_of_which_40_go_wrong() -> None:
    """Seconds: at most half more than the good ones take, the limits that expired, and two fresh workers for each loss.

    A fresh worker prepares the source again, which takes as long as some twenty of these programs.
    """
    workers = 2
    with Pool(workers, TIMEOUT_S, memory_bytes=2 << 30, tasks=[VERIFY, FAULTY]) as pool:
        pool.submit("stepTP.verify.worker.rest", {"seconds": 0}).result()
        begun = time.monotonic()
        next(ask(pool, VERIFY, [program(1000)])).result()
        fresh_s = time.monotonic() - begun
        begun = time.monotonic()
        alone = [future.result() for future in ask(pool, VERIFY, [program(n) for n in range(JOBS) if n % 5 != 2])]
        alone_s = time.monotonic() - begun
        items = [program(300 + n) for n in range(JOBS)]
        for n in range(2, JOBS, 5):
            items[n]["fault"] = FAULTS[n // 5 % len(FAULTS)]
        begun = time.monotonic()
        answers = [future.result() for future in [*ask(pool, FAULTY, items)]]
        took_s = time.monotonic() - begun
    assert len(alone) == JOBS * 4 // 5
    for n, answer in enumerate(answers):
        if n % 5 == 2:
            kind = {"hog": "memory", "hang_in_native_code": "timeout"}.get(items[n]["fault"], "crash")
            assert isinstance(answer, Failure) and answer.kind == kind, (n, items[n]["fault"], answer)
        else:
            assert answer["ok"] == (n % 10 != 9), (n, answer)
    expired_s = 2 * TIMEOUT_S * sum(item.get("fault") == "hang_in_native_code" for item in items)
    restarts_s = 2 * fresh_s * sum("fault" in item for item in items)
    aim_s = 1.5 * alone_s + (expired_s + restarts_s) / workers
    print(f"took {took_s:.1f} s: good ones alone {alone_s:.1f} s, expired {expired_s} s, restarts {restarts_s:.1f} s")
    assert took_s < aim_s + 3 * TIMEOUT_S  # a busy machine


def test_10_000_jobs_leave_everything_flat() -> None:
    """Small jobs of as many sources: memory, descriptors, threads and mappings of worker, nursery and parent."""
    with Pool(1, timeout_s=300) as pool:
        seen: list[dict[str, int]] = []
        for stage in range(5):
            futures = [pool.submit("tests.stepTP.faults.double", {"x": n}, f"{stage} {n}") for n in range(2000)]
            assert [future.result() for future in futures] == [2 * n for n in range(2000)]
            del futures
            seen.append(measured(pool))
            print(seen[-1])
    first, last = seen[2], seen[-1]  # the pool remembers some thousand sources
    assert last["worker"] == first["worker"], "the worker was replaced"
    for name in ("worker_kib", "nursery_kib", "parent_kib"):
        assert last[name] <= first[name] + 1000, (name, seen)
    for name in ("maps", "worker_fds", "nursery_fds", "parent_fds", "worker_threads", "parent_threads"):
        assert last[name] <= first[name] + (2 if name == "maps" else 0), (name, seen)


FORMS = ("L^{64,64}_{i,j}[D_i max=A_{i,j};]", "L^{64,64}_{j,i}[D_i max=A_{i,j};]",
         "L^{64,64}_{i,j}[D_i max=A_{i,63-j};]", "L^{64,2,32}_{i,j,k}[D_i max=A_{i,j*32+k};]")  # fmt: skip
REST = (
    "L^{64,64}_{i,j}[E_i+=exp(A_{i,j}-D_i);]L^{64,64}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i*{k}.5;]"
)  # fmt: skip


def test_10_000_verifications_leave_memory_flat() -> None:
    """Real ones of twenty sources: 2,500 libraries are compiled and loaded, of which a worker keeps a part.

    All that a worker keeps is full by the fourth part of the jobs: 256 MiB of outputs, 2,048 functions, 16 sources.
    """
    jobs, sources = 10_000, 20
    with Pool(1, timeout_s=300, memory_bytes=4 << 30, tasks=[VERIFY]) as pool:
        seen: list[dict[str, int]] = []
        for stage in range(10):
            futures: list[Future[Any]] = []
            for n in range(stage * jobs // 10, (stage + 1) * jobs // 10):
                rest = REST.replace("{k}", str(n * sources // jobs))
                head = "in A_{64,64};out C_{64,64};"
                common = {**COMMON, "leir_source": head + FORMS[0] + rest}
                leir = head + FORMS[n % 4] + rest.replace("E_i", f"E{n // 4}_i")
                payload = {**common, "leir": leir, "parent": None, "bit_exact": False}
                futures.append(pool.submit("stepTP.verify.task.verify", payload, near="long"))
            assert all(future.result()["ok"] for future in futures)
            del futures
            seen.append(measured(pool))
            print((stage + 1) * jobs // 10, {name: seen[-1][name] for name in seen[-1] if name.endswith("kib")})
    settled, last = seen[5], seen[-1]
    assert last["worker"] == seen[0]["worker"], "the worker was replaced"
    assert last["worker_kib"] <= 1.03 * settled["worker_kib"], seen
    for name in ("nursery_kib", "parent_kib"):
        assert last[name] <= settled[name] + 2000, (name, seen)
    for name in ("worker_fds", "nursery_fds", "parent_fds", "worker_threads", "parent_threads"):
        assert last[name] <= settled[name], (name, seen)


def measured(pool: Pool) -> dict[str, int]:
    worker, nursery = pool._live[0]._process, pool._spawner._nursery
    assert nursery is not None
    processes = {"worker": worker, "nursery": nursery._process.pid, "parent": os.getpid()}
    result = {"worker": worker, "maps": len(Path(f"/proc/{worker}/maps").read_text().splitlines())}
    for name, process in processes.items():
        folder = Path(f"/proc/{process}")
        result[f"{name}_kib"] = int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
        result[f"{name}_fds"] = len(list((folder / "fd").iterdir()))
        result[f"{name}_threads"] = len(list((folder / "task").iterdir()))
    return result
