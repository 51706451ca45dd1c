"""One worker, from the parent's side: its pipes, its time, its memory, its end."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

from stepTP.verify import wire
from stepTP.verify.kernel import read_text
from stepTP.verify.machine import kills_for_memory
from stepTP.verify.nursery import STATUS

FailureKind = Literal["refused", "bug", "crash", "timeout", "memory", "device"]

_TICK_S = 0.05  # how often the memory of a running worker is read
_STDERR_BYTES = 4000  # how much of a worker's last output a failure shows
_END_S = 10.0  # how long a killed worker's end is waited for: one in uninterruptible sleep must not block the pool
_CLOSED_S = 1.0  # how long after its pipes a worker may take to end
_FINAL = ("done", "refused", "bug")
_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)  # what people, schedulers and the kernel send


class Lost(Exception):
    """The worker can no longer be used.

    `begun`: the task was running. `outside`: a signal ended it that a program sends itself only on purpose.
    `nursery`: so it was with the process that all workers come from, which took them along.
    """

    nursery = False

    def __init__(self, kind: FailureKind, cause: str, detail: str, *, begun: bool = False, outside: bool = False):
        super().__init__(cause)
        self.kind: FailureKind = kind
        self.cause = cause
        self.detail = detail
        self.begun = begun
        self.outside = outside


class Nursery(Protocol):
    """What workers are forked from (`stepTP.verify.spawn`)."""

    def end(self, patience_s: float) -> object: ...


class Unborn(Lost):
    """The nursery did not make the worker."""


class WorkerProcess:
    """One worker, and the parent's ends of its pipes."""

    def __init__(self, bear: Callable[[list[int]], None], memory_bytes: int, start_s: float) -> None:
        """`bear` makes the process at the other ends of four pipes (`stepTP.verify.nursery`); its OSError is raised."""
        self._memory_bytes, self._start_s = memory_bytes, start_s
        self.used = False  # whether a task ran here
        self.nursery: Nursery | None = None  # its own, which ends with it
        self._oom_kills = kills_for_memory()
        self._decoder = wire.Decoder()
        self._stderr = b""
        self._killing = threading.Lock()
        self._process = 0
        self._handle = -1  # the process, whatever else gets its number; readable when it has ended
        pairs = [os.pipe() for _ in range(4)]
        (theirs_in, self._requests), (self._replies, theirs_out), (self._errors, theirs_err), (self._status, told) = (
            pairs
        )
        for descriptor in (self._requests, self._replies, self._errors):
            os.set_blocking(descriptor, False)
        try:
            bear([theirs_in, theirs_out, theirs_err, told])
        except OSError:
            self._forget()
            raise
        finally:
            for descriptor in (theirs_in, theirs_out, theirs_err, told):
                os.close(descriptor)

    def wait_until_ready(self) -> None:
        """Raises Lost."""
        if not _readable(self._status, self._start_s):
            raise Unborn("timeout", f"did not start within {self._start_s:g} s", "")
        born = os.read(self._status, STATUS.size)
        if not born:
            raise Unborn("crash", "ended with its nursery", "")
        with self._killing:
            (self._process,) = STATUS.unpack(born)
            with contextlib.suppress(ProcessLookupError):
                self._handle = os.pidfd_open(self._process)
        if self._handle < 0:
            raise self._ended(begun=False)
        self._receive(self._start_s, "start", begun=False)

    def ask(self, request: bytes, limit_s: float) -> Iterator[dict[str, Any]]:
        """The replies to one request; the last has a state of `_FINAL`. Each has the time limit. Raises Lost."""
        self._stderr = b""
        self._oom_kills = kills_for_memory()
        self._write(request)
        message = self._receive(self._start_s, "import its task", begun=False)
        self.used = True
        while True:
            if message["state"] in ("memory", "device"):
                raise self._lost(message["state"], str(message["message"]) or self._memory_cause(), begun=True)
            yield message
            if message["state"] in _FINAL:
                return
            message = self._receive(limit_s, "finish", begun=True)

    def _write(self, request: bytes) -> None:
        """Writes all of a request, to a worker that may not read it."""
        view, deadline = memoryview(request), time.monotonic() + self._start_s
        poll = select.poll()
        poll.register(self._errors, select.POLLIN)
        poll.register(self._requests, select.POLLOUT)
        while view:
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)]
            if not ready:
                raise self._lost("timeout", f"did not take its task within {self._start_s:g} s", begun=False)
            if self._errors in ready and not self._hear_errors():
                poll.unregister(self._errors)
            if self._requests in ready:
                try:
                    view = view[os.write(self._requests, view) :]
                except BrokenPipeError:
                    raise self._ended(begun=False) from None

    def _receive(self, limit_s: float, doing: str, *, begun: bool) -> dict[str, Any]:
        poll = select.poll()
        for descriptor in (self._replies, self._errors, self._handle):
            poll.register(descriptor, select.POLLIN)
        deadline, ended = time.monotonic() + limit_s, False
        while True:
            message = self._decoded(begun)
            if message is not None:
                return message
            if ended:
                raise self._ended(begun)
            left_s = deadline - time.monotonic()
            late = left_s <= 0  # asked before the last look at the pipes: we may be who is late
            ready = [descriptor for descriptor, _ in poll.poll(max(0.0, min(left_s, _TICK_S)) * 1000)]
            if self._errors in ready and not self._hear_errors():
                poll.unregister(self._errors)
            if self._replies in ready:
                piece = os.read(self._replies, 1 << 20)
                self._decoder.feed(piece)
                ended = not piece
            elif self._handle in ready:  # a child may hold the pipes open
                ended = True
            elif late:
                raise self._lost("timeout", f"did not {doing} within {limit_s:g} s", begun)
            if self.resident_bytes() > self._memory_bytes:
                raise self._lost("memory", self._memory_cause(), begun)

    def _decoded(self, begun: bool) -> dict[str, Any] | None:
        try:
            message = self._decoder.take()
        except wire.WireError as error:
            raise self._lost("crash", f"the worker sent nonsense: {error}", begun) from None
        if message is not None and not _is_reply(message):
            raise self._lost("crash", "the worker sent nonsense", begun)
        return message  # type: ignore[return-value]

    def _hear_errors(self) -> bool:
        """Keeps the end of what it wrote on standard error; False at its end."""
        piece = os.read(self._errors, 1 << 16)
        self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]
        return bool(piece)

    def _memory_cause(self) -> str:
        return f"used more than {self._memory_bytes >> 20} MiB of memory"

    def _ended(self, begun: bool) -> Lost:
        """Why it ended, once it has; it may only have closed its pipes."""
        if self._handle >= 0 and not _readable(self._handle, _CLOSED_S):
            return self._lost("crash", "the worker closed its output", begun)
        heard = os.read(self._status, STATUS.size) if _readable(self._status, _END_S) else b""
        if len(heard) < STATUS.size:
            lost = self._lost("crash", "ended with its nursery", begun, outside=True)
            lost.nursery = True
            return lost
        code = os.waitstatus_to_exitcode(STATUS.unpack(heard)[0])
        if -code == signal.SIGKILL and kills_for_memory() > self._oom_kills:
            return self._lost("memory", "killed by the kernel, which was out of memory", begun, outside=True)
        return self._lost("crash", ended_how(code), begun, outside=-code in _OUTSIDE)

    def _lost(self, kind: FailureKind, cause: str, begun: bool, outside: bool = False) -> Lost:
        self.kill()
        with contextlib.suppress(BlockingIOError):
            while self._hear_errors():
                pass
        return Lost(kind, cause, self._stderr.decode(errors="replace").strip(), begun=begun, outside=outside)

    def resident_bytes(self) -> int:
        """The memory that the process holds now; 0 once it has ended."""
        fields = read_text(Path(f"/proc/{self._process}/statm")).split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def kill(self) -> None:
        """Kills the process; its nursery then kills all that it started. For any thread, at any time."""
        with self._killing:
            if self._handle >= 0:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._handle, signal.SIGKILL)

    def end(self) -> None:
        """Kills, waits until all that it started is dead, closes."""
        self.kill()
        if self._handle >= 0 and _readable(self._status, _END_S):
            os.read(self._status, STATUS.size)
        self._forget()
        if self.nursery is not None:
            self.nursery.end(_END_S)

    def _forget(self) -> None:
        with self._killing:
            for descriptor in (self._requests, self._replies, self._errors, self._status, self._handle):
                if descriptor >= 0:
                    os.close(descriptor)
            self._handle = -1


def _is_reply(message: object) -> bool:
    """Whether a message is one that `stepTP.verify.worker` sends."""
    if not isinstance(message, dict):
        return False
    parts = {
        "ready": (),
        "running": ("item",),
        "answered": ("item", "result"),
        "done": ("result",),
        "refused": ("error", "message"),
        "bug": ("error", "message", "traceback"),
        "memory": ("message",),
        "device": ("message",),
    }.get(str(message.get("state")))
    return parts is not None and set(message) == {"state", *parts}


def _readable(descriptor: int, seconds: float) -> bool:
    """Waits until a descriptor can be read, or its other end is closed."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def ended_how(code: int) -> str:
    """An exit code in words; a negative one is a signal's."""
    if code >= 0:
        return f"ended with exit status {code}"
    name = {number.value: number.name for number in signal.Signals}.get(-code, f"signal {-code}")
    return f"killed by {name}"
