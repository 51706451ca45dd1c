"""Fresh workers: where they come from, and where they are put."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from stepTP.verify.machine import claim_core
from stepTP.verify.nursery import THREADED
from stepTP.verify.process import Lost, Unborn, WorkerProcess, ended_how

_TRIES = 8  # workers and nurseries killed in their first moment, in a row, after which there is no use in more
_DELAY_S, _LONGEST_DELAY_S = 0.02, 1.0
_STDERR_BYTES = 4000  # how much of a nursery's output an error shows
_END_S = 10.0  # how long a nursery may take to clean up
_HASTE_S = 0.5  # the same where everything is to end at once
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TVM_NUM_THREADS",
)


class PoolError(RuntimeError):
    """The pool cannot run any job: it is closed, no worker starts, or somebody kills them."""


class ImportedAlone(UserWarning):
    """No nursery can import a module: every worker does, which takes each of them seconds and memory of its own."""


def delay(times: int) -> float:
    """Seconds to wait before trying again what was killed from outside so many times in a row; 0 at first."""
    return min(_LONGEST_DELAY_S, _DELAY_S * 2**times) if times else 0.0


class Nursery:
    """The process that workers are forked from; `stepTP.verify.nursery` is what runs in it."""

    def __init__(self, board: bool) -> None:
        """`board`: whether its workers share one."""
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.update(dict.fromkeys(_THREAD_COUNTS, "1"))
        self.asked: set[str] = set()  # modules, by any of its requests
        self._errors = os.memfd_create("nursery")  # not a pipe, which nobody would empty
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            command = [sys.executable, "-m", "stepTP.verify.nursery", str(theirs.fileno()), str(os.getpid())]
            self._process = subprocess.Popen(
                [*command, *(["board"] if board else [])],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._errors,
                env=environment, pass_fds=(theirs.fileno(),), start_new_session=True,
            )  # fmt: skip
        finally:
            theirs.close()

    def bearer(self, request: dict[str, Any]) -> Callable[[list[int]], None]:
        """What asks for a worker at the other ends of four pipes; it raises OSError where the nursery has ended."""

        def bear(pipes: list[int]) -> None:
            socket.send_fds(self._control, [json.dumps(request).encode()], pipes)

        return bear

    def end(self, patience_s: float) -> tuple[int, str]:
        """Ends it, with all workers and what they started. Its exit code, negative for a signal, and its last words."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            status = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:  # it imports, or waits for what cannot be killed
            self._process.kill()
            status = self._process.wait()
        self._control.close()
        size = os.lseek(self._errors, 0, os.SEEK_END)
        words = os.pread(self._errors, _STDERR_BYTES, max(0, size - _STDERR_BYTES))
        os.close(self._errors)
        return status, words.decode(errors="replace").strip()


class Spawner:
    """Makes the workers of a pool, in places of their own: a core, as far as no other pool has it, and one of the GPUs.

    A nursery that ends is replaced. A module whose import ends it is left to the workers from then on, with a warning:
    the one that started threads, or else all that it was asked for and none had imported.
    """

    def __init__(
        self,
        places: int,
        modules: Sequence[str],
        gpus: Sequence[str],
        memory_bytes: int,
        start_s: float,
        board: bool = False,
    ) -> None:
        self._memory_bytes, self._start_s, self._board = memory_bytes, start_s, board
        self._gpus = tuple(gpus)
        self._claims = [claim_core() for _ in range(places)]
        self._lock = threading.Lock()
        self._nursery: Nursery | None = None
        self._modules = dict.fromkeys(modules)  # that a nursery imports, in this order
        self._imported: set[str] = set()  # that a nursery has survived
        self._unfit: set[str] = set()  # that one has not
        self._untold: list[str] = []  # warnings of those, for when a worker has started without
        self._ended = False

    def spawn(
        self, place: int, module: str, note: Callable[[WorkerProcess | None], None], apart: bool = False
    ) -> WorkerProcess:
        """A worker that is ready, and has a module imported. Raises PoolError where none can be had.

        `note` hears of every process while it starts, so that another thread can kill it; None where it is gone.
        `apart`: in a nursery of its own, so that whatever befalls that befalls no other worker; it shares no board.
        """
        claim, why = self._claims[place], ""
        request = {
            "core": claim[0] if claim else None,
            "gpu": self._gpus[place % len(self._gpus)] if self._gpus else None,
        }
        for attempt in range(_TRIES + len(self._modules)):  # each module may end one
            time.sleep(delay(attempt))
            with self._lock:
                if self._ended:
                    raise PoolError("the pool has ended")
                nursery = Nursery(self._board and not apart) if apart or self._nursery is None else self._nursery
                if not apart:
                    self._nursery = nursery
                modules = [name for name in dict.fromkeys((*self._modules, module)) if name not in self._unfit]
                nursery.asked.update(modules)
                bear = nursery.bearer({**request, "modules": modules})
                try:
                    worker = WorkerProcess(bear, self._memory_bytes, self._start_s)
                except OSError:  # the nursery has ended
                    why = self._replace(nursery, modules)
                    continue
                worker.nursery = nursery if apart else None
            note(worker)
            try:
                worker.wait_until_ready()
            except Lost as lost:
                note(None)
                worker.end()
                why = f"{lost.cause}\n{lost.detail}"
                if isinstance(lost, Unborn):
                    with self._lock:
                        why = self._replace(nursery, modules, hung=lost.kind == "timeout")
                continue
            with self._lock:
                self._modules.update(dict.fromkeys(modules))
                self._imported.update(modules)
                untold, self._untold = self._untold, []
            for message in untold:
                warnings.warn(message, ImportedAlone, 2)
            return worker
        raise PoolError(f"a worker does not start: {why}")

    def end(self, haste: bool = False) -> None:
        """Ends all workers and what they started, and gives up the cores."""
        with self._lock:
            self._ended = True
            if self._nursery is not None:
                self._nursery.end(_HASTE_S if haste else _END_S)
            self._nursery = None
            for claim in self._claims:
                if claim is not None:
                    claim[1].close()

    def _replace(self, nursery: Nursery, asked: list[str], hung: bool = False) -> str:
        """Ends a nursery that made no worker; what to say of it. Raises PoolError where another would do no better."""
        if self._nursery is not nursery:
            return "ended with its nursery"  # its worker's own, or another thread saw to it
        self._nursery = None
        code, words = nursery.end(_HASTE_S)
        why = f"did not start within {self._start_s:g} s" if hung else ended_how(code)
        if hung or code != -signal.SIGKILL:
            suspects = [name for name in asked if name not in self._imported]
            last = words.rpartition("\n")[2]
            if code == THREADED and (culprit := last.partition(":")[0]) in nursery.asked:
                suspects = [culprit]
            if not suspects:
                raise PoolError(f"a worker does not start: {why}\n{words}")
            self._unfit.update(suspects)
            cause = last if code == THREADED else why
            self._untold.append(f"every worker imports {', '.join(suspects)} alone: {cause}")
        return f"{why}\n{words}"
