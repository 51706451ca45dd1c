"""What this machine gives to a pool: cores, memory, and what its kernel says of processes that it killed.

A container's share counts, not the host's size: processors by the scheduler's affinity and the control groups' quota,
memory by the control groups' limit. Groups of version 1 and 2 are read, from the process's own up to the root.
"""

import math
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from stepTP.verify.kernel import read_text

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60  # version 1 writes a number of this size for none


def worker_count(memory_bytes: int) -> int:
    """How many workers of this memory fit here: one for each core we may use, as far as memory goes; at least 1."""
    return max(1, min(usable_cores(), available_memory() // memory_bytes))


def usable_cores() -> int:
    """The cores that the scheduler lets us use, or as many as the quota pays for; at least 1."""
    cores = len(os.sched_getaffinity(0))
    quotas = [quota for group in _groups("cpu") if (quota := _quota(group)) is not None]
    return max(1, min([cores, *(math.floor(quota + 0.01) for quota in quotas)]))


def available_memory() -> int:
    """Bytes that new processes can have: what the kernel reports, or what the control groups leave."""
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in read_text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    left = [left for group in _groups("memory") if (left := _left(group)) is not None]
    return max(0, min([free, *left]))


def kills_for_memory() -> int:
    """How many processes the kernel has killed for want of memory: in our control group, or on this machine."""
    for group in _groups("memory"):
        for name in ("memory.events", "memory.oom_control"):
            count = _field(group / name, "oom_kill")
            if count is not None:
                return count
    return _field(Path("/proc/vmstat"), "oom_kill") or 0


def claim_core() -> tuple[int, socket.socket] | None:
    """A core that no pool of this machine has claimed, and the claim, which ends when the socket is closed.

    A claim is a name in the kernel, so that it ends with its holder, however that ends. The first threads of
    all physical cores come before the second ones. None where every core is taken.
    """
    for core in sorted(os.sched_getaffinity(0), key=lambda core: (_thread_of_core(core), core)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0steptp-core-{core}")
        except OSError:
            claim.close()
            continue
        return core, claim
    return None


def _thread_of_core(core: int) -> int:
    """0 for the first hardware thread of a physical core, 1 for the second, ..."""
    siblings = read_text(Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")).strip()
    numbers: list[int] = []
    for part in siblings.split(",") if siblings else []:
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers.index(core) if core in numbers else 0


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control group and those around it, innermost first."""
    for line in read_text(_OWN_CGROUPS).splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            roots = [_CGROUPS, _CGROUPS / "unified"]
        elif controller in controllers.split(","):
            roots = [_CGROUPS / controllers, _CGROUPS / controller]
        else:
            continue
        root = next((root for root in roots if root.is_dir()), None)
        if root is None:
            continue
        inner = Path(*(part for part in path.split("/") if part not in ("", "..")))  # of a group above our namespace
        for folder in (inner, *inner.parents):
            if (root / folder).is_dir():
                yield root / folder


def _quota(group: Path) -> float | None:
    """How many processors' time a control group gets; None without a limit."""
    quota, period = (read_text(group / "cpu.max").split() or ["max", "1"])[:2]
    if quota == "max":
        quota = read_text(group / "cpu.cfs_quota_us").strip()
        period = read_text(group / "cpu.cfs_period_us").strip()
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _left(group: Path) -> int | None:
    """Bytes that a control group may still take; None without a limit. Cached files count as free."""
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        limit, used = (read_text(group / name).strip() for name in (limit_file, used_file))
        if limit.isdecimal() and used.isdecimal() and int(limit) < _NO_LIMIT:
            cached = _field(group / "memory.stat", "inactive_file") or 0
            return max(0, int(limit) - max(0, int(used) - cached))
    return None


def _field(file: Path, name: str) -> int | None:
    """A number in a file of lines like `name 12`."""
    for line in read_text(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdecimal():
            return int(value)
    return None
