"""One worker process, from the parent's side: its pipes, its time, its memory, its end."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

from stepTP.verify import wire

FailureKind = Literal["refused", "bug", "crash", "timeout", "memory"]

_TICK_S = 0.02  # how often the memory of a running worker is read
_STDERR_BYTES = 4000  # how much of a worker's last output a failure shows
_THREAD_COUNTS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "TVM_NUM_THREADS",
)


class Lost(Exception):
    """The worker can no longer be used."""

    def __init__(self, kind: FailureKind, cause: str, detail: str) -> None:
        super().__init__(cause)
        self.kind: FailureKind = kind
        self.cause = cause
        self.detail = detail


class NotDelivered(Exception):
    """The worker was gone before the request reached it."""


class WorkerProcess:
    """One process, and the parent's ends of its pipes."""

    def __init__(self, memory_bytes: int, start_s: float) -> None:
        self._memory_bytes, self._start_s = memory_bytes, start_s
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.update(dict.fromkeys(_THREAD_COUNTS, "1"))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stepTP.verify.worker", str(os.getpid())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment, bufsize=0, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._requests, self._replies, self._errors = (
            self._process.stdin, self._process.stdout, self._process.stderr
        )  # fmt: skip
        self._reaping = threading.Lock()
        self._decoder = wire.Decoder()
        self._stderr = b""
        self._selector = selectors.DefaultSelector()
        for stream in (self._replies, self._errors):
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)

    def wait_until_ready(self) -> None:
        self._receive(self._start_s, "start")

    def ask(self, request: bytes, timeout_s: float) -> dict[str, Any]:
        """One request, one reply. Raises Lost, or NotDelivered."""
        self._stderr = b""
        try:
            self._write(request)
        except BrokenPipeError:
            raise NotDelivered from None
        reply = self._receive(self._start_s, "import its task")
        if reply["state"] == "running":
            reply = self._receive(timeout_s, "finish")
        if reply["state"] == "memory":
            raise self._lost("memory", self._memory_cause())
        return reply

    def _write(self, request: bytes) -> None:
        view = memoryview(request)
        while view:
            view = view[self._requests.write(view) :]

    def _receive(self, seconds: float, doing: str) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while True:
            try:
                message = self._decoder.take()
            except wire.WireError as error:
                raise self._lost("crash", f"the worker sent nonsense: {error}") from None
            if message is not None:
                if not isinstance(message, dict) or "state" not in message:
                    raise self._lost("crash", "the worker sent nonsense")
                return message
            if time.monotonic() > deadline:
                raise self._lost("timeout", f"did not {doing} within {seconds:g} s")
            if self.resident_bytes() > self._memory_bytes:
                raise self._lost("memory", self._memory_cause())
            for key, _ in self._selector.select(_TICK_S):
                piece = os.read(key.fd, 1 << 20)
                if key.fileobj is self._errors:
                    self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]
                    if not piece:
                        self._selector.unregister(self._errors)
                elif piece:
                    self._decoder.feed(piece)
                else:
                    raise self._ended()

    def _memory_cause(self) -> str:
        return f"used more than {self._memory_bytes >> 20} MiB of memory"

    def _ended(self) -> Lost:
        for _ in range(100):
            # Without reaping: until it is reaped, its process group cannot become that of another.
            if end := os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                if end.si_code == os.CLD_EXITED:
                    return self._lost("crash", f"ended with exit status {end.si_status}")
                return self._lost("crash", f"killed by {signal.Signals(end.si_status).name}")
            time.sleep(0.01)
        return self._lost("crash", "the worker closed its output")

    def _lost(self, kind: FailureKind, cause: str) -> Lost:
        self.kill()
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(self._errors.fileno(), 1 << 16):
                self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]
        return Lost(kind, cause, self._stderr.decode(errors="replace").strip())

    def resident_bytes(self) -> int:
        """The memory that the process holds now; 0 once it has ended."""
        fields = read_text(Path(f"/proc/{self._process.pid}/statm")).split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def kill(self) -> None:
        """Kills the process and all that it started."""
        with self._reaping:
            if self._process.returncode is None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kills, waits, closes."""
        self.kill()
        with self._reaping:
            self._process.wait()
        self._selector.close()
        for stream in (self._requests, self._replies, self._errors):
            stream.close()


def read_text(path: Path) -> str:
    """A file of the system; empty where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
