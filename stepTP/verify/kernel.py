"""What is asked of the Linux kernel about processes, and has no name in Python."""

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with(parent: int) -> None:
    """Asks the kernel to kill this process when its parent dies, however it dies."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)


def outlive_parent() -> None:
    """Takes back `die_with`."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)


def adopt_orphans() -> None:
    """From now on, descendants whose parent dies become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """The processes whose parent is this one, ended ones that nobody waited for included.

    For a process of one thread, which alone waits for its children: the kernel's list is each thread's own, and lacks
    none as long as none goes while it is read.
    """
    own = os.getpid()
    try:
        listed = Path(f"/proc/{own}/task/{own}/children").read_text()
    except OSError:  # some kernels are built without
        return children_among_all()
    return [int(process) for process in listed.split()]


def children_among_all() -> list[int]:
    """The same from a look at every process, which takes milliseconds for each hundred."""
    own = str(os.getpid())
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            fields = read_text(folder / "stat").rpartition(")")[2].split()
            if len(fields) > 1 and fields[1] == own:
                found.append(int(folder.name))
    return found


def read_text(path: Path) -> str:
    """A file of the system; empty where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
