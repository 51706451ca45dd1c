"""What a machine or a container gives to a pool: cores, memory, GPUs."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepTP.verify import devices, machine
from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Pool

GIB = 1 << 30


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The control groups of a process on a host with 64 cores; the test fills them."""
    monkeypatch.setattr(machine, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "_OWN_CGROUPS", tmp_path / "own")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: set(range(64)))
    return tmp_path


def write(root: Path, own: str, **files: str) -> None:
    """Control groups: `own` is the file that names them, the others are `controller__group__file=text`."""
    (root / "own").write_text(own)
    for name, text in files.items():
        file = root / "cgroup" / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.mark.parametrize(
    ("quota", "cores"),
    [("200000 100000", 2), ("max 100000", 64), ("150000 100000", 1), ("50000 100000", 1), ("6400000 50000", 64)],
)
def test_a_quota_of_version_2_counts(container: Path, quota: str, cores: int) -> None:
    write(container, "0::/\n", cpu_dot_max=quota)
    assert machine.usable_cores() == cores
    assert machine.worker_count(1) == cores


def test_the_smallest_quota_of_nested_groups_counts(container: Path) -> None:
    write(container, "0::/pod/box\n", pod__cpu_dot_max="300000 100000", pod__box__cpu_dot_max="max 100000")
    assert machine.usable_cores() == 3
    write(container, "0::/pod/box\n", pod__box__cpu_dot_max="100000 100000")
    assert machine.usable_cores() == 1
    write(container, "0::/../../elsewhere\n", cpu_dot_max="400000 100000")  # above the container's own namespace
    assert machine.usable_cores() == 4


def test_a_quota_of_version_1_counts(container: Path) -> None:
    own = "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n"  # the container sees its own group as the root
    files = {"cpu,cpuacct__cpu_dot_cfs_quota_us": "250000\n", "cpu,cpuacct__cpu_dot_cfs_period_us": "100000\n"}
    write(container, own, **files)
    assert machine.usable_cores() == 2
    write(container, own, **{"cpu,cpuacct__cpu_dot_cfs_quota_us": "-1\n"})
    assert machine.usable_cores() == 64


def test_memory_that_groups_leave(container: Path) -> None:
    free = machine.available_memory()
    write(
        container,
        "0::/box\n",
        box__memory_dot_max=str(3 * GIB),
        box__memory_dot_current=str(2 * GIB),
        box__memory_dot_stat=f"anon 5\ninactive_file {GIB // 2}\n",
    )
    assert machine.available_memory() == min(free, 3 * GIB // 2)
    assert machine.worker_count(GIB) == 1
    assert machine.worker_count(GIB // 4) == min(6, free // (GIB // 4))
    write(container, "4:memory:/box\n0::/\n", memory__box__memory_dot_limit_in_bytes=str((1 << 63) - 4096))
    write(container, "4:memory:/box\n0::/\n", memory__box__memory_dot_usage_in_bytes="4096")
    assert machine.available_memory() > GIB // 8  # no limit is no memory of 0 bytes
    write(container, "4:memory:/box\n0::/\n", memory__box__memory_dot_limit_in_bytes=str(GIB // 16))
    assert machine.available_memory() == GIB // 16 - 4096


def test_kills_for_memory_are_counted_by_our_own_group(container: Path) -> None:
    write(container, "0::/box\n", box__memory_dot_events="low 0\noom 9\noom_kill 7\n")
    assert machine.kills_for_memory() == 7
    write(container, "4:memory:/b\n0::/\n", memory__b__memory_dot_oom_control="under_oom 0\noom_kill 3\n")
    assert machine.kills_for_memory() == 3
    write(container, "")
    assert machine.kills_for_memory() >= 0


def test_pools_of_one_machine_take_different_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers beyond any machine's, so that nobody else claims them."""
    cores = {100_001, 100_002, 100_003}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: cores)
    claims = [machine.claim_core() for _ in range(4)]
    assert [claim[0] for claim in claims if claim] == sorted(cores)
    assert claims[3] is None
    assert claims[1]
    claims[1][1].close()
    again = machine.claim_core()
    assert again and again[0] == 100_002
    for claim in (*claims, again):
        if claim:
            claim[1].close()


def test_a_workers_core_is_its_own_and_free_again_afterwards() -> None:
    with Pool(workers=1) as pool:
        (claim,) = pool._spawner._claims
        allowed = pool.submit("tests.stepTP.faults.affinity", {}).result(timeout=60)
    assert allowed == ([claim[0]] if claim else sorted(os.sched_getaffinity(0)))
    if claim:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as free:
            free.bind(f"\0steptp-core-{claim[0]}")


@pytest.mark.skipif(shutil.which("cc") is None, reason="makes a driver with the C compiler")
def test_the_parent_asks_another_process_for_gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A driver made up: it counts three devices, and none where the variable names none."""
    source = tmp_path / "driver.c"
    source.write_text(
        "#include <stdlib.h>\nint cuInit(unsigned f) { return f; }\n"
        'int cuDeviceGetCount(int *n) { char *v = getenv("CUDA_VISIBLE_DEVICES");\n'
        "*n = v ? (*v ? 2 : 0) : 3; return 0; }"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", source], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(devices, "_DRIVER_FILES", (str(source),))
    for visible, found in ((None, ("0", "1", "2")), ("5,GPU-8932f937", ("5", "GPU-8932f937")), ("", ())):
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        cuda_devices.cache_clear()
        assert cuda_devices() == found
    cuda_devices.cache_clear()
    assert "libcuda" not in Path("/proc/self/maps").read_text()
    monkeypatch.setattr(devices, "_DRIVER_FILES", ())
    assert cuda_devices() == ()
    cuda_devices.cache_clear()


def test_workers_are_spread_over_gpus() -> None:
    with Pool(workers=3, gpus=("0", "GPU-8932f937")) as pool:
        task, names = "tests.stepTP.faults.environment", ["CUDA_VISIBLE_DEVICES"]
        asked = [pool.submit(task, {"names": names, "seconds": 0.05}) for _ in range(30)]
        seen = {future.result(timeout=60)["CUDA_VISIBLE_DEVICES"] for future in asked}
    assert seen == {"0", "GPU-8932f937"}


@pytest.mark.parametrize(
    "module",
    ["stepTP.pipeline", "stepTP.verify.pool", "stepTP.verify.scorer", "stepTP.search.run", "stepTP.commands.rows"],
)
def test_the_parent_loads_no_library_of_the_workers(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'tvm', 'islpy', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Driver:
    """Notes what is asked of it."""

    def __init__(self, initialised: int) -> None:
        self.initialised, self.asked = initialised, list[tuple[object, ...]]()

    def cuInit(self, flags: int) -> int:
        self.asked.append(("init", flags))
        return self.initialised

    def cuDevicePrimaryCtxSetFlags_v2(self, device: int, flags: int) -> int:
        self.asked.append(("flags", device, flags))
        return 0

    def cuDevicePrimaryCtxRetain(self, _: object, device: int) -> int:
        self.asked.append(("retain", device))
        return 0


@pytest.mark.parametrize(
    ("initialised", "asked"), [(0, [("init", 0), ("flags", 0, 4), ("retain", 0)]), (999, [("init", 0)])]
)
def test_a_gpu_is_opened_before_it_is_used(
    initialised: int, asked: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(initialised)
    monkeypatch.setattr(devices.ctypes, "CDLL", lambda _: driver)
    devices.open_gpu()
    assert driver.asked == asked


def test_without_a_driver_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_DRIVER", "libnone.so.1")
    devices.open_gpu()
