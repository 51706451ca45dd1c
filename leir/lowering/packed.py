"""Many arrays in one piece of device memory: one copy there, one copy back.

A copy to or from a GPU costs far more than its bytes do, and where several processes share the GPU each waits for its
turn. Here all buffers of some runs lie in one allocation, each aligned as TVM aligns tensors, and a compiled function
is given a tensor for each, whose pointer goes into that allocation.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray

Array = NDArray[Any]

_ALIGNMENT = 256  # bytes: what cudaMalloc gives
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}  # DLPack's numbers for kinds of elements, by NumPy's


class Packed:
    """Arrays on a device, in one allocation. `arrays` are C-contiguous."""

    def __init__(self, arrays: Sequence[Array], device: Any) -> None:
        self._arrays = arrays
        self._places: list[int] = []
        size = 0
        for array in arrays:
            self._places.append(size)
            size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        self._host = np.zeros(max(size, 1), np.uint8)
        for array, view in zip(arrays, self._views(self._host), strict=True):
            view[...] = array
        self._memory = tvm.runtime.tensor(self._host, device)
        start, kind, number = self._memory.data_ptr(), device.dlpack_device_type(), device.index
        self.tensors = [
            _borrowed(start + place, array, kind, number) for array, place in zip(arrays, self._places, strict=True)
        ]  # one for each array, in order

    def take_back(self) -> list[Array]:
        """What the arrays hold on the device now, once everything that was started there has ended."""
        return self._views(self._memory.numpy())

    def _views(self, memory: Array) -> list[Array]:
        return [
            memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
            for array, place in zip(self._arrays, self._places, strict=True)
        ]


class _Device(ctypes.Structure):
    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _ManagedTensor(ctypes.Structure):
    """DLPack's `DLManagedTensor`."""


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedTensor))
_ManagedTensor._fields_ = (("dl_tensor", _Tensor), ("manager_ctx", ctypes.c_void_p), ("deleter", _Deleter))

_lent: dict[int, tuple[_ManagedTensor, Any]] = {}  # by address: what TVM holds


@_Deleter
def _given_back(managed: Any) -> None:
    _lent.pop(ctypes.addressof(managed.contents))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class _Lent:
    """An array's form at an address of a device, as `from_dlpack` takes it."""

    def __init__(self, address: int, like: Array, kind: int, number: int) -> None:
        shape = (ctypes.c_int64 * max(like.ndim, 1))(*like.shape)
        dtype = _DataType(_CODES[like.dtype.kind], 8 * like.dtype.itemsize, 1)
        tensor = _Tensor(address, _Device(kind, number), like.ndim, dtype, shape, None, 0)
        self._managed = _ManagedTensor(tensor, None, _given_back)
        self._shape = shape
        self._device = (kind, number)

    def __dlpack__(self, **_: Any) -> Any:
        address = ctypes.addressof(self._managed)
        _lent[address] = (self._managed, self._shape)
        return _new_capsule(address, b"dltensor", None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def _borrowed(address: int, like: Array, kind: int, number: int) -> Any:
    """A tensor of the array's shape and dtype at an address that stays somebody else's."""
    return tvm_ffi.from_dlpack(_Lent(address, like, kind, number))
