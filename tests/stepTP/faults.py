"""Tasks that go wrong, each in its own way; the pool's tests run them in workers."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stepTP.verify.progress import Answered, Progress, Running

_KEPT: list[np.ndarray] = []


class Refused(Exception):
    """Named like the strategies' own, which these tests need not import."""


def double(payload: dict[str, Any]) -> Any:
    return payload["x"] * 2


def process_id(payload: dict[str, Any]) -> Any:
    time.sleep(payload.get("seconds", 0.0))
    return os.getpid()


def environment(payload: dict[str, Any]) -> Any:
    return {name: os.environ.get(name) for name in payload["names"]}


def noisy(payload: dict[str, Any]) -> Any:
    print("on standard output", flush=True)
    os.write(1, b"\x05\x00\x00\x00\x00\x00\x00\x00junk!")
    os.write(2, b"x" * 300_000)
    subprocess.run(["echo", "from a child"], check=True)
    return payload["x"]


def read_standard_input(_: dict[str, Any]) -> Any:
    return sys.stdin.read()


def segfault(_: dict[str, Any]) -> Any:
    ctypes.string_at(8)


def abort(_: dict[str, Any]) -> Any:
    os.write(2, b"the last words\n")
    os.abort()


def leave(_: dict[str, Any]) -> Any:
    os._exit(3)


def stop_itself(_: dict[str, Any]) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)


def hang(_: dict[str, Any]) -> Any:
    while True:
        time.sleep(1)


def hang_in_native_code(_: dict[str, Any]) -> Any:
    ctypes.PyDLL(None).pause()  # holds the interpreter's lock


def hang_with_child(payload: dict[str, Any]) -> Any:
    child = subprocess.Popen(["sleep", "600"])
    Path(payload["pid_file"]).write_text(str(child.pid))
    child.wait()


def hog(_: dict[str, Any]) -> Any:
    blocks = []
    while True:
        blocks.append(np.ones(8 << 20))


def allocation_error(_: dict[str, Any]) -> Any:
    return np.ones(1 << 42)


def grow(payload: dict[str, Any]) -> Any:
    """Keeps what it allocates, as a leaking library does."""
    _KEPT.append(np.ones(payload["bytes"] // 8))
    return os.getpid()


def raise_bug(_: dict[str, Any]) -> Any:
    raise KeyError("not there")


def raise_refused(_: dict[str, Any]) -> Any:
    raise Refused("path-is-a-loop: (0,) is an equation")


def unsendable(_: dict[str, Any]) -> Any:
    return {"f": double}


def send_nonsense(_: dict[str, Any]) -> Any:
    for descriptor in range(3, 20):
        try:
            os.write(descriptor, b"\xff" * 64)
        except OSError:
            continue
    time.sleep(60)


def fail_once(payload: dict[str, Any]) -> Any:
    """Dies on its first run, of which it leaves a mark."""
    mark = Path(payload["mark"])
    if not mark.exists():
        mark.mkdir()
        os._exit(1)
    return "second run"


def nothing(_: dict[str, Any]) -> Any:
    return None


def verify_or_abort(_: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Progress]:
    """Finds every program right, and dies of those that subtract 7 somewhere."""
    for place, state in enumerate(items):
        yield Running(place)
        if "-7.0" in state["leir"]:
            os.abort()
        yield Answered(place, {"ok": True, "cause": "", "message": "", "verdicts": []})


def abort_all(_: dict[str, Any], __: list[dict[str, Any]]) -> Iterator[Progress]:
    yield Running(None)
    os.abort()
