"""A task whose module makes any build of PyTorch count GPUs as one for CUDA does where NVML does not answer."""

import ctypes
from typing import Any

import torch


def _count() -> int:
    ctypes.CDLL("libcuda.so.1").cuInit(0)
    return 0


if torch.version.cuda is None:
    torch.cuda._is_compiled = lambda: True
    torch._C._cuda_getDeviceCount = _count


def count(payload: dict[str, Any]) -> int:  # noqa: ARG001
    """How many GPUs PyTorch sees."""
    return torch.cuda.device_count()
