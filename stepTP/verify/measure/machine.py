"""What runs the programs: the device's name, size, driver, clocks and peaks.

A GPU is asked through NVIDIA's own libraries (the driver's and NVML), which need no package; a CPU through Linux. The
peaks follow from the device's attributes, so that nothing is faster. What memory a CPU has, Linux does not tell: its
bandwidth is probed, best of several, and raised by a quarter, so that a program may be somewhat better than the probe.
"""

import ctypes
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from leir.lowering import processor_name
from stepTP.identity import tool_versions
from stepTP.records import Machine, row_id
from stepTP.verify.measure.timing import Unmeasured
from stepTP.verify.task import Target

_SOFTWARE = ("apache-tvm", "apache-tvm-ffi", "torch")
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
_CACHE_BYTES = 32 << 20  # of a CPU that does not tell
_HEADROOM = 1.25  # of a probed bandwidth: what a program may do better than the probe
_PROBES = 7
_CPU_SOURCE = "cores, vectors and clock of the processor; memory by a probe, and a quarter more"
_FMA_UNITS = 2  # of a core, for vectors of the bits that its flags show
_VECTOR_BITS = (("avx512f", 512), ("avx2", 256))  # by flag of the processor; 128 where there is none
_BOOST = 1.6  # what a core's clock may rise to beside the one that Linux shows
_FASTEST_MHZ = 6000.0  # of a processor that does not tell its clock

# Attributes of a device, as cuda.h numbers them.
_MULTIPROCESSORS, _BUS_BITS, _L2_BYTES = 16, 37, 38
_CLOCKS_KHZ = {"sm_mhz": 13, "memory_mhz": 36}
_MAJOR, _MINOR = 75, 76
# Lanes of a multiprocessor for f32 and f64 by compute capability (CUDA C++ Programming Guide, arithmetic instructions).
_LANES = {
    (7, 0): (64, 32), (7, 5): (64, 2), (8, 0): (64, 32), (8, 6): (128, 2), (8, 9): (128, 2), (9, 0): (128, 64),
    (10, 0): (128, 64), (12, 0): (128, 2),
}  # fmt: skip
_MOST_LANES = (128, 64)
_NVML = "libnvidia-ml.so.1"
_NVML_CLOCKS = {"sm_mhz": 1, "memory_mhz": 2}


@dataclass(frozen=True, slots=True)
class Peaks:
    """What the device cannot exceed: bytes, and multiply-adds in each type, a second; from where that is known."""

    bytes_per_s: float
    f32_per_s: float
    f64_per_s: float
    source: str


@cache
def machine(target: Target) -> Machine:
    """This machine as it runs programs of a target. Raises Unmeasured where it cannot be asked."""
    facts = _gpu_facts() if target == "cuda" else _cpu_facts()
    facts |= {
        "target": target,
        "threads": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.machine()}",
        "software": {name: tool_versions()[name] for name in _SOFTWARE},
    }
    return Machine(id=row_id("machine", *(f"{name}={facts[name]}" for name in sorted(facts))), **facts)


def peaks(target: Target, *, again: bool = False) -> Peaks:
    """The peaks of this machine. `again`: a CPU's bandwidth is probed once more, and the better figure stands."""
    if target == "cuda":
        return _gpu_peaks()
    if again:
        before = _cpu_peaks()
        _cpu_peaks.cache_clear()
        _BANDWIDTHS.append(before.bytes_per_s)
    return _cpu_peaks()


_BANDWIDTHS: list[float] = []  # found by earlier probes


def clocks(target: Target) -> dict[str, float]:
    """The device's clocks now in MHz, a GPU's temperature in Celsius, and the host's load over the last minute."""
    load = {"host_load": round(os.getloadavg()[0], 2)}
    return {**(_gpu_clocks() if target == "cuda" else _cpu_clocks()), **load}


def _cpu_facts() -> dict[str, Any]:
    return {
        "device": _cpu_name(),
        "processors": len(os.sched_getaffinity(0)),
        "cache_bytes": _cpu_cache(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "driver": "",
        "compute_capability": processor_name(),
    }


def _cpu_name() -> str:
    names = [line.partition(":")[2].strip() for line in _cpuinfo() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _cpuinfo() -> list[str]:
    file = Path("/proc/cpuinfo")
    return file.read_text().splitlines() if file.is_file() else []


def _cpu_cache() -> int:
    """Bytes of the largest cache of the first core."""
    sizes = [file.read_text().strip() for file in sorted(_CACHE.glob("index*/size"))]
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return max((int(size[:-1]) * units[size[-1]] for size in sizes), default=_CACHE_BYTES)


def _cpu_clocks() -> dict[str, float]:
    speeds = [float(line.partition(":")[2]) for line in _cpuinfo() if line.startswith("cpu MHz")]
    return {"cpu_mhz": round(max(speeds))} if speeds else {}


@cache
def _cpu_peaks() -> Peaks:
    import torch

    count = max(16 << 20, 2 * _cpu_cache() // 4)
    given, taken = torch.ones(count), torch.empty(count)
    copied = 2 * 4 * count / _best(lambda: taken.copy_(given))
    summed = 4 * count / _best(given.sum)
    bandwidth = max(_HEADROOM * max(copied, summed), *_BANDWIDTHS, 0.0)
    f32 = _cpu_multiply_adds()
    return Peaks(bandwidth, f32, f32 / 2, _CPU_SOURCE)


def _cpu_multiply_adds() -> float:
    """More f32 multiply-adds a second than the cores that we may use can do."""
    flags = {word for line in _cpuinfo() if line.startswith("flags") for word in line.split()}
    bits = next((bits for flag, bits in _VECTOR_BITS if flag in flags), 128)
    units = _FMA_UNITS if flags else 2 * _FMA_UNITS  # Arm's cores have more and narrower ones
    shown = _cpu_clocks().get("cpu_mhz")
    megahertz = _BOOST * shown if shown else _FASTEST_MHZ
    return len(os.sched_getaffinity(0)) * units * bits / 32 * megahertz * 1e6


def _best(work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs."""
    lapses: list[float] = []
    for _ in range(_PROBES):
        begun = time.perf_counter()
        work()
        lapses.append(time.perf_counter() - begun)
    return min(lapses)


def _gpu_facts() -> dict[str, Any]:
    driver = _library("libcuda.so.1")
    name = ctypes.create_string_buffer(256)
    memory = ctypes.c_size_t(0)
    _require(driver.cuDeviceGetName(name, len(name), 0), "cuDeviceGetName")
    _require(driver.cuDeviceTotalMem_v2(ctypes.byref(memory), 0), "cuDeviceTotalMem")
    return {
        "device": name.value.decode(),
        "processors": _attribute(_MULTIPROCESSORS),
        "cache_bytes": _attribute(_L2_BYTES),
        "memory_bytes": memory.value,
        "driver": _gpu_driver(),
        "compute_capability": f"{_attribute(_MAJOR)}.{_attribute(_MINOR)}",
    }


def _gpu_peaks() -> Peaks:
    known = _LANES.get((_attribute(_MAJOR), _attribute(_MINOR)))
    f32, f64 = known or _MOST_LANES
    cycles = _attribute(_MULTIPROCESSORS) * _highest_clock("sm_mhz")
    memory = 2 * _highest_clock("memory_mhz") * _attribute(_BUS_BITS) / 8  # two transfers a cycle
    lanes = "lanes of its compute capability" if known else "the most lanes of any compute capability"
    return Peaks(memory, cycles * f32, cycles * f64, f"attributes of the device, {lanes}")


def _highest_clock(name: str) -> float:
    """Hertz that a clock of the GPU reaches at most: as NVML says, or the driver."""
    highest = ctypes.c_uint(0)
    if (nvml := _nvml()) is not None:
        nvml.nvmlDeviceGetMaxClockInfo(_nvml_handle(nvml), _NVML_CLOCKS[name], ctypes.byref(highest))
    return highest.value * 1e6 or _attribute(_CLOCKS_KHZ[name]) * 1e3


def _attribute(number: int) -> int:
    value = ctypes.c_int(0)
    driver = _library("libcuda.so.1")
    _require(driver.cuDeviceGetAttribute(ctypes.byref(value), number, 0), f"attribute {number} of the device")
    return value.value


@cache
def _library(name: str) -> Any:
    """NVIDIA's driver or NVML, initialised. Raises Unmeasured."""
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise Unmeasured(f"the GPU cannot be asked: {error}") from None
    _require(library.nvmlInit_v2() if name == _NVML else library.cuInit(0), name)
    return library


def _require(code: int, what: str) -> None:
    if code:
        raise Unmeasured(f"the GPU cannot be asked: {what} gives error {code}")


def _gpu_driver() -> str:
    """The driver's version; where NVML is not there to tell, the CUDA version that it supports."""
    if (nvml := _nvml()) is not None:
        version = ctypes.create_string_buffer(96)
        _require(nvml.nvmlSystemGetDriverVersion(version, len(version)), "nvmlSystemGetDriverVersion")
        return version.value.decode()
    supported = ctypes.c_int(0)
    _require(_library("libcuda.so.1").cuDriverGetVersion(ctypes.byref(supported)), "cuDriverGetVersion")
    return f"of CUDA {supported.value // 1000}.{supported.value % 1000 // 10}"


@cache
def _nvml() -> Any | None:
    """NVML; None on a machine without it, as some containers are."""
    try:
        return _library(_NVML)
    except Unmeasured:
        return None


@cache
def _nvml_handle(nvml: Any) -> Any:
    """NVML's handle of CUDA's first device: the two number devices in their own ways."""
    bus = ctypes.create_string_buffer(32)
    _require(_library("libcuda.so.1").cuDeviceGetPCIBusId(bus, len(bus), 0), "cuDeviceGetPCIBusId")
    handle = ctypes.c_void_p()
    _require(nvml.nvmlDeviceGetHandleByPciBusId_v2(bus, ctypes.byref(handle)), "nvmlDeviceGetHandleByPciBusId")
    return handle


def _gpu_clocks() -> dict[str, float]:
    """What of it the driver tells: not every machine lets its clocks be read."""
    nvml, value, found = _nvml(), ctypes.c_uint(0), dict[str, float]()
    if nvml is None:
        return found
    handle = _nvml_handle(nvml)
    for name, number in _NVML_CLOCKS.items():
        if nvml.nvmlDeviceGetClockInfo(handle, number, ctypes.byref(value)) == 0:
            found[name] = float(value.value)
    if nvml.nvmlDeviceGetTemperature(handle, 0, ctypes.byref(value)) == 0:
        found["celsius"] = float(value.value)
    return found
