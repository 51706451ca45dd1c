"""Many arrays in one piece of device memory: one copy there, one copy back.

A copy to or from a GPU costs far more than its bytes do, and where several processes share the GPU each waits for its
turn; so does getting memory there. Here all buffers of some runs lie in one allocation, each aligned as TVM aligns
tensors, and the allocation is kept for the next runs.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

Array = NDArray[Any]

_ALIGNMENT = 256  # bytes: what cudaMalloc gives
_KEPT = 1 << 27  # bytes of the largest allocation that is kept

_kept: dict[tuple[str, int], Any] = {}  # by device and size: memory that nobody uses


class Packed:
    """Arrays on a device, in one allocation. `arrays` are C-contiguous; `addresses` are theirs, in order."""

    def __init__(self, arrays: Sequence[Array], device: Any) -> None:
        self._arrays = arrays
        self._places: list[int] = []
        size = 0
        for array in arrays:
            self._places.append(size)
            size += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        host = np.zeros(1 << max(size - 1, _ALIGNMENT - 1).bit_length(), np.uint8)
        for array, view in zip(arrays, self._views(host), strict=True):
            view[...] = array
        self._key = (str(device), host.nbytes)
        known = _kept.pop(self._key, None)
        self._memory = tvm.runtime.empty(host.shape, "uint8", device) if known is None else known
        self._memory.copyfrom(host)
        device.sync()  # a copy may return before its last bytes are there, and other streams do not wait for it
        self.addresses = [self._memory.data_ptr() + place for place in self._places]

    def take_back(self) -> list[Array]:
        """What the arrays hold on the device now, once everything that was started there has ended.

        Their memory is given to the next arrays then.
        """
        views = self._views(self._memory.numpy())
        if self._key[1] <= _KEPT:
            _kept[self._key] = self._memory
        return views

    def _views(self, memory: Array) -> list[Array]:
        return [
            memory[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
            for array, place in zip(self._arrays, self._places, strict=True)
        ]
