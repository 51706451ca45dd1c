"""What a machine does while something runs: memory of processes, busy cores, the GPU."""

import os
import shutil
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

TICK_S = 0.5  # between two looks


class Watch:
    """Looks at this process, those below it, the cores and the GPU while something runs."""

    def __init__(self) -> None:
        self.parent = self.worker = self.all_workers = 0
        self.gpu: list[float] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "Watch":
        self.cores = core_times()
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.cores = [b - a for a, b in zip(self.cores, core_times(), strict=True)]

    def _look(self) -> None:
        ask = shutil.which("nvidia-smi")
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        while not self.done.wait(TICK_S):
            sizes = [resident(pid) for pid in below(os.getpid())]
            self.parent = max(self.parent, resident(os.getpid()))
            self.worker = max(self.worker, *sizes, 0)
            self.all_workers = max(self.all_workers, sum(sizes))
            if ask:
                command = [ask, "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]
                command += [f"--id={visible}"] if visible else []
                said = subprocess.run(command, capture_output=True, text=True).stdout.split()
                self.gpu += [float(word) for word in said if word.isdigit()]

    def figures(self) -> dict[str, Any]:
        busy, total = self.cores
        return {
            "memory_mb": {
                "parent": self.parent >> 20, "largest_worker": self.worker >> 20, "workers": self.all_workers >> 20,
            },
            "machine_cores_busy": round((os.cpu_count() or 1) * busy / total, 2) if total else None,
            "gpu_percent": round(sum(self.gpu) / len(self.gpu), 1) if self.gpu else None,
        }  # fmt: skip


def core_times() -> list[int]:
    """Busy and all ticks of the machine's processors."""
    words = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:9]
    ticks = [int(word) for word in words]
    return [sum(ticks) - ticks[3] - ticks[4], sum(ticks)]


def below(pid: int) -> list[int]:
    """All processes that descend from one; none where it has ended."""
    children: list[int] = []
    with suppress(OSError):  # it ends while it is looked at
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text(encoding="utf-8").split())
    return [process for child in children for process in (child, *below(child))]


def processor_s(pid: int) -> float:
    """Seconds of processor time of a process and those below it, and of those that they have waited for."""
    ticks = 0
    for process in (pid, *below(pid)):
        with suppress(OSError):  # it ends while it is looked at
            said = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
            ticks += sum(map(int, said.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Bytes of memory that a process holds, shared ones too; 0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
