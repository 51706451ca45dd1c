"""Tasks that go wrong, each in its own way; the pool's tests run them in workers."""

import ctypes
import fcntl
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stepTP.verify import wire
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
    time.sleep(payload.get("seconds", 0.0))
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


def rest(payload: dict[str, Any]) -> Any:
    """A good job that takes a while."""
    time.sleep(payload["seconds"])
    return payload["x"]


def spin(_: dict[str, Any]) -> Any:
    while True:
        pass


def overflow_stack(_: dict[str, Any]) -> Any:
    ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(4096), b"(" * 200_000, 1)  # it calls itself for each


def corrupt_heap(_: dict[str, Any]) -> Any:
    """Writes over what the allocator keeps beside its blocks, and gives one back."""
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = (ctypes.c_void_p,)
    block = libc.malloc(64)
    ctypes.memset(block - 16, 0xFF, 80)
    libc.free(block)


def close_pipes(_: dict[str, Any]) -> Any:
    os.closerange(0, 256)
    time.sleep(600)


def kill_itself(_: dict[str, Any]) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def kill_its_group(_: dict[str, Any]) -> Any:
    os.killpg(0, signal.SIGTERM)
    time.sleep(600)


def kill_its_parents_group(_: dict[str, Any]) -> Any:
    """The parent's group is the process that all workers come from."""
    os.killpg(os.getpgid(os.getppid()), signal.SIGKILL)
    time.sleep(600)


def breed(payload: dict[str, Any]) -> Any:
    """Leaves children of every kind behind: of its group, of groups and sessions of their own, and orphans."""
    for kind in range(payload["children"]):
        if os.fork() == 0:
            if kind % 3:
                os.setsid()
            if kind % 3 == 2 and os.fork():
                os._exit(0)
            time.sleep(600)
            os._exit(0)
    os.abort()


def breed_and_hang(payload: dict[str, Any]) -> Any:
    subprocess.Popen(["sleep", "601"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        time.sleep(601)
        os._exit(0)
    Path(payload["mark"]).write_text(str(os.getpid()))
    time.sleep(600)


def flood(_: dict[str, Any]) -> Any:
    """Well-formed messages without end, where replies go."""
    message = wire.encode({"state": "running", "item": None})
    descriptor = next(d for d in range(3, 20) if _is_pipe(d) and not _is_readable(d))
    while True:
        os.write(descriptor, message)


def lie(payload: dict[str, Any]) -> Any:
    """A reply for a later item of its batch of eight than its own, or for one that is not there."""
    descriptor = next(d for d in range(3, 20) if _is_pipe(d) and not _is_readable(d))
    os.write(descriptor, wire.encode({"state": "answered", "item": payload["x"] % 8 + 1, "result": "forged"}))
    time.sleep(600)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _is_readable(descriptor: int) -> bool:
    return not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_WRONLY


def work_each(_: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Progress]:
    """Each item is a task here and its payload; "together" is done before, with all."""
    for item in items:
        if item.get("together"):
            globals()[item["together"]](item)
    for place, item in enumerate(items):
        yield Running(place)
        yield Answered(place, globals()[item["task"]](item))


def answer_some(_: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Progress]:
    yield Running(0)
    yield Answered(0, items[0])


def wait_for_killer(payload: dict[str, Any]) -> Any:
    """Tells its process id until it is killed, or until it is let go."""
    mark = Path(payload["mark"])
    while not mark.with_suffix(".go").exists():
        if not mark.exists():
            mark.write_text(str(os.getpid()))
        time.sleep(0.01)
    return payload["x"]


def affinity(_: dict[str, Any]) -> Any:
    return sorted(os.sched_getaffinity(0))


def verify_with_faults(payload: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[Progress]:
    """The real verification, in which a program with a "fault" runs that task instead."""
    from stepTP.verify.task import verify_batch

    compiled = False
    for event in verify_batch(payload, [{k: v for k, v in item.items() if k != "fault"} for item in items]):
        yield event
        match event:
            case Running(None):
                compiled = True
            case Running(int(place)) if compiled and "fault" in items[place]:
                globals()[items[place]["fault"]](items[place])


def has_board(_: dict[str, Any]) -> Any:
    from stepTP.verify.board import board

    return board() is not None


def verify_and_count(payload: dict[str, Any]) -> Any:
    """The real verification; whoever makes trials leaves a mark. It begins when so many `workers` are at it.

    With "dies", the first to make them is killed meanwhile.
    """
    from stepTP.verify import task

    folder, make = Path(payload["folder"]), task._made_trials

    def marked(key: task.SourceKey) -> Any:
        (folder / f"made-{os.getpid()}").touch()
        made = make(key)
        time.sleep(0.2)  # so that the others come while it is at work
        if payload.get("dies") and not (folder / "dead").exists():
            (folder / "dead").touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return made

    (folder / f"here-{os.getpid()}").touch()
    deadline = time.monotonic() + 20
    while len(list(folder.glob("here-*"))) < payload["workers"] and time.monotonic() < deadline:
        time.sleep(0.005)
    task._made_trials = marked
    try:
        return task.verify(payload)
    finally:
        task._made_trials = make
