"""Which targets this machine can run, asked without the libraries that run them."""

import ctypes


def cuda_devices() -> int:
    """How many GPUs the CUDA driver finds; 0 where there is no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value
