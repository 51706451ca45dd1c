"""Which GPUs this machine has, and whether a process's use of one is broken; asked without the libraries that use them.

Nothing here but `open_gpu` initialises CUDA in the process that asks: a process that has done so cannot fork workers
that use it.
"""

import ctypes
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

_DRIVER = "libcuda.so.1"
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")  # one of which is there where a driver is
_ASK_S = 120.0  # how long a driver may take to start on a busy machine
_ASK = f"""
import ctypes
driver, count = ctypes.CDLL("{_DRIVER}"), ctypes.c_int(0)
print(0 if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) else count.value)
"""
_NOT_INITIALISED = 3  # CUDA_ERROR_NOT_INITIALIZED
_BLOCKING_SYNC = 4  # CU_CTX_SCHED_BLOCKING_SYNC


@cache
def cuda_devices() -> tuple[str, ...]:
    """The GPUs that the CUDA driver finds, as CUDA_VISIBLE_DEVICES calls them; none where there is no driver.

    A process that ends again asks the driver.
    """
    if not any(Path(file).exists() for file in _DRIVER_FILES):
        return ()
    try:
        asked = subprocess.run([sys.executable, "-I", "-S", "-c", _ASK], capture_output=True, text=True, timeout=_ASK_S)
    except subprocess.TimeoutExpired:
        return ()
    count = int(asked.stdout) if asked.returncode == 0 else 0
    named = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return tuple((named or [str(number) for number in range(count)])[:count])


def open_gpu() -> None:
    """Makes this process's context on its first GPU, which can take a driver seconds if many processes ask at once.

    From then on the process sleeps where it waits for the GPU: by default it would spin. Whatever speaks against a
    context is left to those who use it.
    """
    with suppress(OSError):
        driver, context = ctypes.CDLL(_DRIVER), ctypes.c_void_p()
        if driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxSetFlags_v2(0, _BLOCKING_SYNC) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)


def broken_context() -> str | None:
    """CUDA's name of the error that broke this process's context; None where it is sound, or where there is none.

    After an illegal address, a failed launch and their like, every later call fails with the same error.
    """
    try:
        driver = ctypes.CDLL(_DRIVER, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    context = ctypes.c_void_p()
    code = driver.cuCtxGetCurrent(ctypes.byref(context))
    if code == _NOT_INITIALISED or (code == 0 and not context):
        return None
    code = code or driver.cuCtxSynchronize()
    if code == 0:
        return None
    name = ctypes.c_char_p()
    driver.cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else f"CUDA error {code}"


class DeviceBusy(RuntimeError):
    """Another process measures on the device."""


@contextmanager
def device_alone(target: str) -> Iterator[None]:
    """The device of a target for one measuring process of this user, until the end of the `with`. Raises DeviceBusy.

    It keeps measurements from each other; other work on the machine is the user's to keep away.
    """
    with (Path(tempfile.gettempdir()) / f"steptp-{os.getuid()}-{target}.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeviceBusy(f"another measurement runs on {target} here: wait for its end") from None
        yield
