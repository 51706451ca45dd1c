"""The process that workers are forked from: `python -m stepTP.verify.nursery CONTROL_FD PARENT_PID [board]`.

It imports what tasks need once, and then makes a worker in milliseconds, not in the seconds of processor time that
torch and tvm take to import; their memory is shared. It runs no task itself, has one thread, and initialises no CUDA,
so that forking it is safe. With `board`, its workers share one (`stepTP.verify.board`).

A request on the control socket is {"modules", "core", "gpu"} with four descriptors: the worker's standard input,
output and error, and the writing end of a pipe that hears the worker's process id at its start and its wait status at
its end.

It is also who cleans up. A worker's end, however it came, ends the worker's process group, and every descendant that
had left the group: orphans come to this process, which kills what it did not make as a worker. When the parent ends,
however it ended, all workers and their descendants end the same way.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from stepTP.verify import kernel, worker
from stepTP.verify.board import open_board
from stepTP.verify.devices import open_gpu

PIPES = 4  # descriptors of a request
THREADED = 2  # the exit status where an import started threads: the last line begins with the module and a colon
STATUS = struct.Struct("<i")  # what the status pipe carries: the process id, then the wait status
_CLEAN_S = 5.0  # how long killed processes are waited for: one in uninterruptible sleep must not block the others
_OOM_SCORE = "800"  # of 1,000: where the machine runs out of memory, workers go before whoever started them


def main() -> None:
    control, parent = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    kernel.adopt_orphans()
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # PyTorch then asks for GPUs without starting CUDA
    os.environ.setdefault("TVM_FFI_DISABLE_TORCH_C_DLPACK", "1")  # it starts CUDA to patch what PyTorch has by now
    if "board" in sys.argv[3:]:
        open_board()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the parent decides when it ends
        signal.signal(number, signal.SIG_IGN)
    woken, waker = os.pipe()
    for descriptor in (woken, waker):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    workers: dict[int, int] = {}  # process id -> its status pipe
    while os.getppid() == parent:
        readable, _, _ = select.select([control, woken], [], [], 1.0)
        if woken in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(woken, 4096)
        reap(workers)
        if control in readable:
            data, pipes, _, _ = socket.recv_fds(control, 1 << 16, PIPES)
            if not data:
                break
            request = json.loads(data)
            load(request["modules"], parent)
            bear(request, pipes, workers, (control.fileno(), woken, waker))
    for process in workers:
        end_group(process)
    end_strays(())
    os._exit(0)


def load(modules: list[str], parent: int) -> None:
    """Imports modules, for all workers to come. One that raises is left to the worker, which reports it.

    An import takes seconds, in which this process hears nothing: if the parent ends, it dies, and its workers with it.
    """
    fresh = [name for name in modules if name not in sys.modules]
    if fresh:
        kernel.die_with(parent)
    for name in fresh:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
        if len(started := list(Path("/proc/self/task").iterdir())) > 1:
            message = f"{name}: its import started threads, which a fork would lose: {len(started) - 1}"
            print(f"\n{message}", file=sys.stderr, flush=True)
            os._exit(THREADED)  # at once: an exit that waits for those threads would take the time for a replacement
    if fresh:
        kernel.outlive_parent()
        gc.collect()
        gc.freeze()  # a collection in a worker writes to no page that it shares


def bear(request: dict[str, Any], pipes: list[int], workers: dict[int, int], own: tuple[int, ...]) -> None:
    """Forks a worker. `own`: the descriptors of this process that a worker must not hold."""
    process = os.fork()
    if process == 0:
        try:
            _become_worker(request, pipes, [*own, *workers.values()])
        except BaseException:  # nothing of this process may run on in the child
            traceback.print_exc()
        finally:
            os._exit(1)
    status = pipes.pop()
    for descriptor in pipes:
        os.close(descriptor)
    workers[process] = status
    with contextlib.suppress(BrokenPipeError):
        os.write(status, STATUS.pack(process))


def _become_worker(request: dict[str, Any], pipes: list[int], others: list[int]) -> None:
    nursery = os.getppid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    for place, descriptor in enumerate(pipes[:3]):
        os.dup2(descriptor, place)
    for descriptor in (*pipes, *others):
        os.close(descriptor)
    kernel.die_with(nursery)
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))  # no dumps: 0 would still feed a program that collects them
    with contextlib.suppress(OSError):  # some sandboxes have no such file; it only orders who goes first
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    if request["core"] is not None:
        with contextlib.suppress(OSError):  # the core went away; it only was the better place
            os.sched_setaffinity(0, {request["core"]})
    if request["gpu"] is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = request["gpu"]
        threading.Thread(target=open_gpu, daemon=True).start()  # while the first jobs need the processor alone
    worker.main()


def reap(workers: dict[int, int]) -> None:
    """Cleans up after every child that has ended, and tells the parent of the workers among them."""
    while (ended := _ended_child()) is not None:
        status_pipe = workers.pop(ended, None)
        if status_pipe is not None:
            end_group(ended)  # before it is reaped, when its number can be no other group's
        _, status = os.waitpid(ended, 0)
        if status_pipe is not None:
            end_strays(workers)
            with contextlib.suppress(BrokenPipeError):  # the parent does not care any more
                os.write(status_pipe, STATUS.pack(status))
            os.close(status_pipe)


def _ended_child() -> int | None:
    try:
        end = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return end.si_pid if end else None


def end_group(process: int) -> None:
    """Kills the process group that a worker leads."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def end_strays(workers: dict[int, int] | tuple[()]) -> None:
    """Kills the children that are not workers, and theirs in turn, which become children of this process."""
    deadline = time.monotonic() + _CLEAN_S
    while time.monotonic() < deadline:
        strays = [process for process in kernel.children() if process not in workers]
        if not strays:
            return
        for process in strays:
            os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.001)


if __name__ == "__main__":
    main()
