"""Persistent worker processes that may crash, hang or fill the memory at the cost of one job.

    with Pool(workers=2, timeout_s=60) as pool:
        future = pool.submit("stepTP.verify.task.verify", payload, near=source_id)
        outcome = future.result()          # the task's result, or a Failure

A task is the dotted name of a function from plain data (what JSON holds) to plain data, in a module that the worker
imports. Its result must depend on the payload alone: which worker runs it, and what ran there before, is chance. `near`
is a hint: jobs of one `near` go to one worker where that costs no waiting, so that its caches are of use.

An error that a person can meet (`worker.EXPECTED_ERRORS`) and a bug come back at once as a `Failure`. A worker that
dies, exceeds its time or its memory, or sends nonsense is killed with all it started and replaced, and its job runs
once more on a fresh worker; if that fails too, it is a `Failure`. The time counts from when the task's module is
imported. Leaving the `with` block by an exception (Ctrl-C too) kills the workers at once; workers die with the parent
in any case. A worker that has grown beyond half of its memory is replaced between two jobs.

Each worker is served by one thread of the parent, which therefore stays free of the libraries that the workers import.
"""

import os
import threading
from collections import deque
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from stepTP.verify import wire
from stepTP.verify.process import FailureKind, Lost, NotDelivered, WorkerProcess, read_text

START_S = 180.0  # seconds to start a worker and to import a task's module: torch and tvm on a busy machine
_LOOK_AHEAD = 64  # how many waiting jobs are searched for one that suits a worker


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no result.

    `refused`: the task raised an error that a person can meet, named by `error`. `bug`: any other exception. `crash`,
    `timeout`, `memory`: the worker was lost, twice. `cause` is one line and the same on every run, but for bugs and
    expected errors whose own message is not; `detail` (a traceback, the last lines on standard error) may differ.
    """

    kind: FailureKind
    task: str
    cause: str
    error: str = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """The cause, after the error's name if it has one."""
        return f"{self.error}: {self.cause}" if self.error else self.cause


@dataclass(slots=True)
class _Job:
    task: str
    request: bytes
    near: str
    future: "Future[Any]"
    attempts: int = 0


def worker_count(memory_bytes: int) -> int:
    """How many workers this machine carries: one a core that we may use, as far as memory allows; at least 1."""
    return max(1, min(len(os.sched_getaffinity(0)), available_memory() // memory_bytes))


def available_memory() -> int:
    """Bytes that new processes can have: what the kernel reports, or what the control group leaves."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in read_text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit = read_text(Path("/sys/fs/cgroup/memory.max")).strip()
    if limit.isdigit():
        used = read_text(Path("/sys/fs/cgroup/memory.current")).strip()
        free = min(free, max(0, int(limit) - int(used or 0)))
    return free


class PoolError(RuntimeError):
    """The pool cannot run any job: it is closed, or no worker starts."""


class Pool:
    """A fixed number of workers; see the module's description. Safe to use from several threads."""

    def __init__(
        self, workers: int | None = None, timeout_s: float = 60.0, memory_bytes: int = 4 << 30, start_s: float = START_S
    ) -> None:
        self.workers = worker_count(memory_bytes) if workers is None else workers
        if self.workers < 1:
            raise ValueError(f"a pool needs a worker, not {self.workers}")
        self._timeout_s, self._memory_bytes, self._start_s = timeout_s, memory_bytes, start_s
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._killed = False
        self._live: list[WorkerProcess] = []
        self._homes: dict[str, int] = {}
        self._threads = [threading.Thread(target=self._serve, args=(n,), daemon=True) for n in range(self.workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        """Queues a job; the future gives the task's result or a `Failure`. TypeError for a payload JSON lacks."""
        job = _Job(task, wire.encode({"task": task, "payload": payload}), near, Future())
        with self._changed:
            if self._closing:
                raise PoolError("the pool is closed")
            self._waiting.append(job)
            self._changed.notify()
        return job.future

    def close(self) -> None:
        """Lets the queued jobs finish, then ends the workers."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def kill(self) -> None:
        """Ends every worker at once; jobs without a result are cancelled."""
        with self._changed:
            self._closing = self._killed = True
            abandoned = list(self._waiting)
            self._waiting.clear()
            for worker in self._live:
                worker.kill()
            self._changed.notify_all()
        for job in abandoned:
            job.future.cancel()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
            return
        try:
            self.close()
        except BaseException:  # Ctrl-C while the last jobs run
            self.kill()
            raise

    def _next(self, number: int) -> _Job | None:
        """The job that worker `number` should do now; blocks; None when there will be no more."""
        with self._changed:
            while not self._waiting:
                if self._closing:
                    return None
                self._changed.wait()
            # First what this worker knows, then what none knows, then what another worker knows: always the oldest.
            ranks = [
                {number: 0, None: 1}.get(self._homes.get(job.near), 2) for job in islice(self._waiting, _LOOK_AHEAD)
            ]
            place = ranks.index(min(ranks))
            job = self._waiting[place]
            del self._waiting[place]
            if job.near:
                self._homes[job.near] = number
            return job

    def _serve(self, number: int) -> None:
        worker: WorkerProcess | None = None
        try:
            while (job := self._next(number)) is not None:
                if not job.future.set_running_or_notify_cancel():
                    continue
                try:
                    worker = self._run(worker, job)
                except Exception as error:
                    # No worker can be had, or a bug of the pool: it must reach who waits, and the thread must go on.
                    job.future.set_exception(error)
                    worker = None
                if not job.future.done():
                    job.future.set_exception(CancelledError())
        finally:
            if worker is not None:
                self._drop(worker)

    def _run(self, worker: "WorkerProcess | None", job: _Job) -> "WorkerProcess | None":
        """Settles one job; the worker to go on with, None where it was lost."""
        while not self._killed:
            if worker is None:
                worker = self._start()
            try:
                reply = worker.ask(job.request, self._timeout_s)
            except NotDelivered:  # it died while it was idle: not this job's doing
                self._drop(worker)
                worker = None
                continue
            except Lost as lost:
                self._drop(worker)
                worker = None
                job.attempts += 1
                if job.attempts == 2 and not self._killed:
                    job.future.set_result(Failure(lost.kind, job.task, lost.cause, detail=lost.detail))
                    return None
                continue
            if reply["state"] == "done":
                job.future.set_result(reply["result"])
            else:
                cause = reply["message"].strip() or reply["error"]
                job.future.set_result(
                    Failure(reply["state"], job.task, cause, reply["error"], reply.get("traceback", ""))
                )
            if worker.resident_bytes() > self._memory_bytes // 2:
                self._drop(worker)
                return None
            return worker
        return worker

    def _start(self) -> "WorkerProcess":
        """A fresh worker that is ready. Raises PoolError where none can be had."""
        worker = WorkerProcess(self._memory_bytes, self._start_s)
        with self._changed:
            self._live.append(worker)
            if self._killed:
                worker.kill()
        try:
            worker.wait_until_ready()
        except Lost as lost:
            self._drop(worker)
            raise PoolError(f"a worker does not start: {lost.cause}\n{lost.detail}") from None
        return worker

    def _drop(self, worker: "WorkerProcess") -> None:
        worker.end()
        with self._changed:
            self._live.remove(worker)
