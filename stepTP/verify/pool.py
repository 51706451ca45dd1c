"""Persistent worker processes that may crash, hang or fill the memory at the cost of one program.

    with Pool(workers=2, timeout_s=60) as pool:
        future = pool.submit("stepTP.intake.translate", payload, near=source_id)
        outcome = future.result()          # the task's result, or a Failure
        futures = pool.submit_batch("stepTP.verify.task.verify_batch", payload, items, near=source_id)

A task is the dotted name of a function from plain data (what JSON holds) to plain data, in a module that the worker
imports. Its result must depend on the payload alone: which worker runs it, and what ran there before, is chance. `near`
is a hint: jobs of one `near` go to one worker where that costs no waiting, so that its caches are of use. A task on
several items yields its progress (`stepTP.verify.progress`); the time limit is of one stage of it.

*What a job may cost.* An error that a person can meet (`worker.EXPECTED_ERRORS`) and a bug come back at once as a
`Failure`. A worker that dies, exceeds its time or its memory, breaks its GPU context or sends nonsense is killed with
all it started and replaced. Answers that came before stand. The item that ran is tried once more, alone, in a worker
where nothing ran before; if that is lost too, it is a `Failure`. Items that had not run go on elsewhere. Where it is
not known which item ran, because all were worked on together, each is tried alone. An error in a batch settles nothing:
its item runs again alone, and what comes then counts.

*What a job is not blamed for.* A worker that ends before its task runs, and one ended by a signal that we did not send
and that programs do not die of (SIGKILL, SIGTERM, SIGHUP; the kernel's own for want of memory too): its items are tried
again, later each time. A job to which that happens `_KILLS` times is put to trial: an idle worker lives as long as the
job's did. If it lives, it was the job; if it is killed too, somebody kills workers, and the pool says so and stops.
Where the process that workers come from ends, all go with it, and a job that ran each time is tried apart.

Workers are forked from one process that has imported their tasks (`stepTP.verify.nursery`; where it cannot import one,
each worker does, and the warning `stepTP.verify.spawn.ImportedAlone` says why), each on a core of its own
as far as no other pool has it, and on one of the GPUs given. Leaving the `with` block by an exception (Ctrl-C too)
kills them at once, with all that they started; they die with the parent in any case. A worker that has grown beyond
half of its memory is replaced between two jobs. Each worker is served by one thread of the parent, which stays free of
the libraries that the workers import.
"""

import signal
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from types import TracebackType
from typing import Any

from stepTP.verify import wire
from stepTP.verify.jobs import Failure, Item, Job, abandon, head, suspects_among
from stepTP.verify.machine import available_memory, worker_count
from stepTP.verify.process import FailureKind, Lost, WorkerProcess
from stepTP.verify.spawn import PoolError, Spawner, delay

__all__ = ["Failure", "Pool", "PoolError", "available_memory", "worker_count"]

START_S = 180.0  # seconds to start a worker and to import a task's module: torch and tvm on a busy machine
_LOOK_AHEAD = 64  # how many waiting jobs are searched for one that suits a worker
_HOMES = 4096  # how many `near`s are remembered
_KILLS = 8  # deaths from outside after which a job is put to trial
_ORPHANED = 2  # ends of the process that workers come from, after which a job that ran each time is kept apart
_TRIALS = 3  # trials that show that somebody kills workers
_TRIAL_S = 1.0  # how long an idle worker must live at least
_STARTS = 8  # workers killed before they ran anything, in a row, after which there is no use in more
_STAGES = 8  # that a task on several items may tell of for each; more of them are nonsense
_REST = "stepTP.verify.worker.rest"


class Pool:
    """A fixed number of workers; see the module's description. Safe to use from several threads.

    `gpus`: as CUDA_VISIBLE_DEVICES calls them; each worker sees one of them. `tasks`: tasks whose modules are imported
    before the first worker starts; those of others are when they are first asked for. `board`: whether workers tell
    each other what they made (`stepTP.verify.board`): only where all programs are ours.
    """

    def __init__(
        self,
        workers: int | None = None,
        timeout_s: float = 60.0,
        memory_bytes: int = 4 << 30,
        start_s: float = START_S,
        gpus: Sequence[str] = (),
        tasks: Sequence[str] = (),
        board: bool = False,
    ) -> None:
        self.workers = worker_count(memory_bytes) if workers is None else workers
        if self.workers < 1:
            raise ValueError(f"a pool needs a worker, not {self.workers}")
        self._timeout_s, self._memory_bytes = timeout_s, memory_bytes
        modules = [_module_of(task) for task in tasks]
        self._spawner = Spawner(self.workers, modules, gpus, memory_bytes, start_s, board)
        self._waiting: deque[Job] = deque()
        self._changed = threading.Condition()
        self._busy = 0  # threads whose job may come back
        self._closing = False
        self._killed = False
        self._live: dict[int, WorkerProcess] = {}  # by the number of the thread that serves it
        self._homes: OrderedDict[str, int] = OrderedDict()
        self._threads = [threading.Thread(target=self._serve, args=(n,), daemon=True) for n in range(self.workers)]
        for thread in self._threads:
            thread.start()

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        """Queues a job; the future gives the task's result or a `Failure`. TypeError for a payload JSON lacks."""
        item = Item(b"")
        self._queue(Job(task, head(task, payload), near, (item,), batch=False))
        return item.future

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        """Queues a job on several items, for a task that yields its progress; a future for each item.

        TypeError for a payload or an item JSON lacks.
        """
        made = tuple(Item(wire.body(item)) for item in items)
        if made:
            self._queue(Job(task, head(task, payload), near, made, batch=True))
        return [item.future for item in made]

    def close(self) -> None:
        """Lets the queued jobs finish, then ends the workers."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()
        self._spawner.end()

    def kill(self) -> None:
        """Ends every worker at once; jobs without a result are cancelled. A second Ctrl-C does not stop it halfway."""
        with _uninterrupted():
            with self._changed:
                self._closing = self._killed = True
                abandoned = list(self._waiting)
                self._waiting.clear()
                for worker in self._live.values():
                    worker.kill()
                self._changed.notify_all()
            self._spawner.end(haste=True)
            for job in abandoned:
                abandon(job.items)
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

    def _queue(self, job: Job) -> None:
        with self._changed:
            if self._closing:
                raise PoolError("the pool is closed")
            self._waiting.append(job)
            self._changed.notify()

    def _return(self, *jobs: Job) -> None:
        """Puts jobs back, to be taken first."""
        with self._changed:
            if self._killed:
                for job in jobs:
                    abandon(job.items)
                return
            self._waiting.extendleft(reversed(jobs))
            self._changed.notify_all()

    def _next(self, number: int) -> Job | None:
        """The job that worker `number` should do now; blocks; None when there will be no more."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = list(islice((found for found in enumerate(self._waiting) if found[1].due <= now), _LOOK_AHEAD))
                if due:
                    break
                if self._closing and not self._waiting and not self._busy:
                    return None
                later = min((job.due for job in self._waiting), default=None)
                self._changed.wait(None if later is None else max(0.001, later - now))
            # First what this worker knows, then what none knows, then what another worker knows: always the oldest.
            place, job = min(due, key=lambda found: {number: 0, None: 1}.get(self._homes.get(found[1].near), 2))
            del self._waiting[place]
            if job.near:
                self._homes[job.near] = number
                self._homes.move_to_end(job.near)
                if len(self._homes) > _HOMES:
                    self._homes.popitem(last=False)
            self._busy += 1
            return job

    def _serve(self, number: int) -> None:
        try:
            while (job := self._next(number)) is not None:
                try:
                    self._run(number, job)
                except Exception as error:
                    # No worker can be had, or a bug of the pool: it must reach who waits, and the thread must go on.
                    if self._killed:
                        abandon(job.items)
                    for item in job.items:
                        if not item.future.done():
                            item.future.set_exception(error)
                    self._drop(number)
                finally:
                    with self._changed:
                        self._busy -= 1
                        if self._closing:
                            self._changed.notify_all()
        finally:
            self._drop(number)

    def _run(self, number: int, job: Job) -> None:
        """Sends a job to a worker; settles its items, or returns what is to run again to the queue."""
        wanted = [item for item in job.items if item.begin()]
        if not wanted:
            return
        if len(wanted) < len(job.items):
            job = job.part(wanted, fresh=job.fresh, apart=job.apart)
        worker = self._live.get(number)
        if worker is not None and (job.apart or (job.fresh and worker.used)):
            self._drop(number)
            worker = None
        if worker is None:
            worker = self._start(number, _module_of(job.task), job.apart)
        left, at, begun = dict(enumerate(job.items)), None, time.monotonic()
        told, most = 0, _STAGES * (len(left) + 1) if job.batch else 1
        try:
            for message in worker.ask(job.request(), self._timeout_s):
                match message:
                    case {"state": "running", "item": place} if told < most and (place is None or place in left):
                        told, at = told + 1, place
                    case {"state": "answered", "item": int(place), "result": result} if place == at:
                        at = None
                        left.pop(place).future.set_result(result)
                    case {"state": "done", "result": result}:
                        for item in left.values():
                            empty = Failure("bug", job.task, "the task ended without an answer to this item")
                            item.future.set_result(empty if job.batch else result)
                    case {"state": "refused" | "bug" as kind}:
                        self._take_error(job, message, kind, left, at)
                    case _:
                        raise Lost("crash", "the worker sent nonsense", "", begun=True)
        except Lost as lost:
            self._drop(number)
            self._take_loss(number, job, lost, left, at, time.monotonic() - begun)
            return
        if job.apart or worker.resident_bytes() > self._memory_bytes // 2:
            self._drop(number)

    def _take_error(
        self, job: Job, message: dict[str, Any], kind: FailureKind, left: dict[int, Item], at: int | None
    ) -> None:
        """An error settles a job that is alone; in a batch, who may have caused it runs again alone."""
        if not job.batch or len(job.items) == 1:
            cause = message["message"].strip() or message["error"]
            failure = Failure(kind, job.task, cause, message["error"], message.get("traceback", ""))
            for item in left.values():
                item.future.set_result(failure)
            return
        suspects, rest = suspects_among(left, at)
        self._return(*(job.part([item]) for item in suspects), *([job.part(rest)] if rest else []))

    def _take_loss(
        self, number: int, job: Job, lost: Lost, left: dict[int, Item], at: int | None, lasted_s: float
    ) -> None:
        """What a lost worker costs; see the module's description. Raises PoolError where no job can run."""
        if self._killed:
            abandon(left.values())
            return
        if not lost.begun:
            job.starts += 1
            if job.starts == (_STARTS if lost.outside else 2):
                raise PoolError(f"workers end before they run anything: {lost.cause}\n{lost.detail}")
            again = job.part(list(left.values()), fresh=True, apart=job.apart, delay_s=delay(job.starts - 1))
            self._return(again)
            return
        suspects, rest = suspects_among(left, at)
        again = [job.part(rest)] if rest else []
        for item in suspects:
            if lost.nursery and not job.apart:
                item.orphaned += 1
                guilty = False
            elif lost.outside:
                item.kills += 1
                item.lasted_s = max(item.lasted_s, lasted_s)
                guilty = item.kills == _KILLS and self._is_guilty(number, item)
            else:
                item.losses += 1
                guilty = item.losses == 2
            if guilty:
                item.future.set_result(Failure(lost.kind, job.task, lost.cause, detail=lost.detail))
            else:
                apart = item.orphaned >= _ORPHANED
                again.insert(0, job.part([item], fresh=True, apart=apart, delay_s=delay(item.kills)))
        self._return(*again)

    def _is_guilty(self, number: int, item: Item) -> bool:
        """Whether a worker that does nothing outlives the item's. Raises PoolError where none did, several times."""
        worker = self._start(number, _module_of(_REST))
        seconds = max(_TRIAL_S, 2 * item.lasted_s)
        try:
            for _ in worker.ask(wire.encode({"task": _REST, "payload": {"seconds": seconds}}), 2 * seconds + 60):
                pass
        except Lost as lost:
            self._drop(number)
            item.kills, item.trials = 0, item.trials + 1
            if item.trials == _TRIALS:
                raise PoolError(f"somebody ends the workers, one that does nothing too: {lost.cause}") from None
            return False
        return True

    def _start(self, number: int, module: str, apart: bool = False) -> WorkerProcess:
        def note(worker: WorkerProcess | None) -> None:
            with self._changed:
                if worker is None:
                    self._live.pop(number, None)
                    return
                self._live[number] = worker
                if self._killed:
                    worker.kill()

        return self._spawner.spawn(number, module, note, apart)

    def _drop(self, number: int) -> None:
        with self._changed:
            worker = self._live.pop(number, None)
        if worker is not None:
            worker.end()


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C is ignored meanwhile; only the main thread hears it at all."""
    own = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or own is None:  # None: not Python's to give back
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, own)


def _module_of(task: str) -> str:
    return task.rpartition(".")[0]
