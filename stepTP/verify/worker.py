"""A worker process of the pool: `python -m stepTP.verify.worker PARENT_PID`.

It reads requests from standard input and writes replies to what was standard output; whatever libraries print goes to
standard error, which the parent keeps the end of. It ends when its input ends or when its parent dies.

A request is `{"task": "package.module.function", "payload": {...}}`. The replies are `{"state": "ready"}` once after
the start, then for each request `{"state": "running"}` when the task's module is imported, and `{"state": "done",
"result"}`, `{"state": "refused", "error", "message"}` for an error that a person can meet, or `{"state": "bug",
"error", "message", "traceback"}` for any other.
"""

import ctypes
import faulthandler
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from stepTP.verify import wire

# The errors that a program or a file can cause; they travel by name, so that a parent need not import their modules.
EXPECTED_ERRORS = (
    "ConfigError",
    "ExportFailed",
    "IllFormed",
    "InterpreterError",
    "NoDevice",
    "ParseError",
    "Refused",
    "SourceError",
    "StepError",
    "UnsupportedOp",
    "Unverified",
)
_PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when its workers end
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    faulthandler.enable()

    def reply(message: dict[str, Any] | bytes) -> None:
        replies.write(message if isinstance(message, bytes) else wire.encode(message))
        replies.flush()

    reply({"state": "ready"})
    while (request := wire.read(requests)) is not None:
        assert isinstance(request, dict)
        reply(answer(request["task"], request["payload"], lambda: reply({"state": "running"})))
    os._exit(0)  # the destructors of torch and tvm take seconds, and can crash


def answer(task: str, payload: dict[str, Any], started: Callable[[], None]) -> bytes:
    """Runs one task; the encoded reply. A result that JSON does not hold is a bug of the task."""
    try:
        function = find_task(task)
        started()
        return wire.encode({"state": "done", "result": function(payload)})
    except MemoryError as error:
        return wire.encode({"state": "memory", "error": "MemoryError", "message": str(error)})
    except Exception as error:
        # The one place where every error is caught: it is sent to the parent, which reports it with its program.
        name = expected_name(error)
        shown = {"error": name or type(error).__name__, "message": str(error)}
        if name:
            return wire.encode({"state": "refused", **shown})
        return wire.encode({"state": "bug", **shown, "traceback": traceback.format_exc()})


def find_task(task: str) -> Callable[[dict[str, Any]], Any]:
    """The function of a dotted name. Raises ImportError or AttributeError."""
    module, _, name = task.rpartition(".")
    return getattr(importlib.import_module(module), name)


def expected_name(error: Exception) -> str | None:
    """The name by which an expected error travels; None for an error that is a bug."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((name for name in names if name in EXPECTED_ERRORS), None)


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent dies, however it dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)


if __name__ == "__main__":
    main()
