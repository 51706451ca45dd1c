"""Kernels that go wrong, each in its own way, through the CUDA driver alone; the pool's tests run them in workers."""

import ctypes
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

from stepTP.verify.progress import Answered, Progress, Running

_KERNELS = b"""
.version 7.0
.target sm_75
.address_size 64
.visible .entry fine(.param .u64 p) { .reg .u64 a; .reg .u32 v;
  ld.param.u64 a, [p]; mov.u32 v, 42; st.global.u32 [a], v; ret; }
.visible .entry wild(.param .u64 p) { .reg .u64 a; .reg .u32 v;
  mov.u64 a, 16; mov.u32 v, 1; st.global.u32 [a], v; ret; }
.visible .entry misaligned(.param .u64 p) { .reg .u64 a; .reg .u32 v;
  ld.param.u64 a, [p]; add.u64 a, a, 1; mov.u32 v, 1; st.global.u32 [a], v; ret; }
.visible .entry trap(.param .u64 p) { trap; ret; }
.visible .entry spin(.param .u64 p) { .reg .u64 a; .reg .u32 v; .reg .pred q; ld.param.u64 a, [p];
again: ld.volatile.global.u32 v, [a]; setp.ne.u32 q, v, 77; @q bra again; ret; }
"""


class Driver:
    """A context on the first GPU that this process sees, and the kernels in it."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.module, self.memory = ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self.module), _KERNELS)
        self.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(256))

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.cuda, name)(*arguments)
        if code:
            raise RuntimeError(f"CUDA: {name} fails with {code}" if code != 2 else "CUDA: out of memory")

    def run(self, kernel: str) -> int:
        function, result = ctypes.c_void_p(), ctypes.c_uint32()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode())
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.memory))
        self.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, parameters, None)
        self.call("cuMemcpyDtoH_v2", ctypes.byref(result), self.memory, ctypes.c_size_t(4))
        return result.value


driver = cache(Driver)


def run(payload: dict[str, Any]) -> Any:
    return driver().run(payload["kernel"])


def run_each(_: dict[str, Any], items: list[str]) -> Iterator[Progress]:
    for place, kernel in enumerate(items):
        yield Running(place)
        yield Answered(place, driver().run(kernel))


def swallow(_: dict[str, Any]) -> Any:
    """Breaks the context and tells nobody."""
    try:
        driver().run("wild")
    except RuntimeError:
        return "all is well"


def allocate(_: dict[str, Any]) -> Any:
    memory = ctypes.c_uint64()
    driver().call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 50))


def place(_: dict[str, Any]) -> Any:
    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"], driver().run("fine")
