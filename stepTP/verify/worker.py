"""A worker process of the pool, forked by `stepTP.verify.nursery`.

It reads requests from standard input and writes replies to what was standard output; whatever libraries print goes to
standard error, which the parent keeps the end of. It ends when its input ends or when its parent dies.

A request is {"task": "package.module.function", "payload": {...}}, and "items": [...] where the task takes several. The
replies are {"state": "ready"} once after the start, then for each request {"state": "running", "item": None} when the
task's module is imported, and one of

    {"state": "done", "result"}
    {"state": "refused", "error", "message"}          an error that a person can meet
    {"state": "bug", "error", "message", "traceback"} any other error
    {"state": "memory" | "device", "message"}         an allocation failed, the GPU's context is broken: replace me

A task on several items gives {"state": "running", "item"} and {"state": "answered", "item", "result"} in between.
"""

import faulthandler
import importlib
import inspect
import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from stepTP.verify import wire
from stepTP.verify.devices import broken_context
from stepTP.verify.progress import Answered, Running

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
    "Unmeasured",
    "UnsupportedOp",
    "Unverified",
)
# How libraries say that an allocation failed, where they do not raise MemoryError: CUDA, torch, the system.
_NO_MEMORY = ("out of memory", "not enough memory", "an't allocate memory", "annot allocate memory")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when its workers end
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    faulthandler.enable()

    def reply(message: bytes) -> None:
        replies.write(message)
        replies.flush()

    reply(wire.encode({"state": "ready"}))
    while (request := wire.read(requests)) is not None:
        assert isinstance(request, dict)
        reply(answer(request, reply))
    os._exit(0)  # the destructors of torch and tvm take seconds, and can crash


def answer(request: dict[str, Any], reply: Callable[[bytes], None]) -> bytes:
    """Runs one task; the last reply, encoded. A result that JSON does not hold is a bug of the task."""
    try:
        function = find_task(request["task"])
        reply(wire.encode({"state": "running", "item": None}))
        if "items" in request:
            for message in progress(function, request["payload"], request["items"]):
                reply(message)
            return wire.encode({"state": "done", "result": None})
        done = wire.encode({"state": "done", "result": function(request["payload"])})
        broken = broken_context()
        return wire.encode({"state": "device", "message": broken}) if broken else done
    except Exception as error:
        # The one place where every error is caught: it is sent to the parent, which reports it with its program.
        return wire.encode(described(error))


def progress(
    function: Callable[[dict[str, Any], list[Any]], Any], payload: dict[str, Any], items: list[Any]
) -> Iterator[bytes]:
    """The replies of a task on several items while it runs. Raises TypeError for a task that yields nothing."""
    events = function(payload, items)
    if not inspect.isgenerator(events):
        raise TypeError(f"a task on several items yields its progress, not {type(events).__name__}")
    for event in events:
        match event:
            case Running(item):
                yield wire.encode({"state": "running", "item": item})
            case Answered(item, result):
                encoded = wire.encode({"state": "answered", "item": item, "result": result})
                broken = broken_context()
                if broken:
                    yield wire.encode({"state": "device", "message": broken})
                    return
                yield encoded
            case _:
                raise TypeError(f"a task on several items yields its progress, not {event!r}")


def described(error: Exception) -> dict[str, Any]:
    """An error as a reply."""
    broken = broken_context()
    if broken:
        return {"state": "device", "message": broken}
    name, message = expected_name(error), str(error)
    if isinstance(error, MemoryError) or (not name and any(words in message for words in _NO_MEMORY)):
        return {"state": "memory", "message": "an allocation on the GPU failed" if "CUDA" in message else ""}
    shown = {"error": name or type(error).__name__, "message": message}
    if name:
        return {"state": "refused", **shown}
    return {"state": "bug", **shown, "traceback": traceback.format_exc()}


def find_task(task: str) -> Callable[..., Any]:
    """The function of a dotted name. Raises ImportError or AttributeError."""
    module, _, name = task.rpartition(".")
    return getattr(importlib.import_module(module), name)


def expected_name(error: Exception) -> str | None:
    """The name by which an expected error travels; None for an error that is a bug."""
    names = [kind.__name__ for kind in type(error).__mro__]
    return next((name for name in names if name in EXPECTED_ERRORS), None)


def rest(payload: dict[str, Any]) -> None:
    """The pool's own task: nothing, for a while. Whoever kills a worker that does this has nothing against its job."""
    time.sleep(payload["seconds"])
