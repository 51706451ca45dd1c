"""A compiled program with its buffers on the device, for running it many times: nothing is copied or checked a run."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray

from leir.lowering.execute import Executable, as_passed, checked_buffer, from_bits
from leir.lowering.names import Target

Array = NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Resident:
    """A program and one set of its buffers. `start` is as asynchronous as the device is."""

    executable: Executable
    function: Callable[..., None]
    tensors: tuple[Any, ...]  # on the device, in the order of the parameters

    def start(self) -> None:
        """Starts the program on its buffers; on `cuda` it goes to the default stream, and may run on."""
        self.function(*self.tensors)

    def read(self, names: tuple[str, ...]) -> dict[str, Array]:
        """Copies of buffers by name, once all that was started is done."""
        synchronise(self.executable.target)
        return {
            parameter.name: from_bits(tensor.numpy()) if parameter.dtype == "bf16" else tensor.numpy()
            for parameter, tensor in zip(self.executable.parameters, self.tensors, strict=True)
            if parameter.name in names
        }

    def write(self, buffers: Mapping[str, Array]) -> None:
        """Copies arrays into buffers by name."""
        for parameter, tensor in zip(self.executable.parameters, self.tensors, strict=True):
            if parameter.name in buffers:
                tensor.copyfrom(as_passed(parameter, checked_buffer(parameter, buffers)))
        synchronise(self.executable.target)


def place(executable: Executable, buffers: Mapping[str, Array]) -> Resident:
    """The program with copies of an array a parameter on its device. Raises BufferMismatch."""
    device = executable.device()
    passed = [as_passed(tensor, checked_buffer(tensor, buffers)) for tensor in executable.parameters]
    tensors = tuple(tvm.runtime.tensor(np.asarray(array, order="C"), device) for array in passed)
    return Resident(executable, executable.module[executable.name], tensors)


def synchronise(target: Target) -> None:
    """Waits until everything that TVM started on the device is done."""
    if target == "cuda":
        tvm.cuda(0).sync()


def processor_name() -> str:
    """This machine's processor as LLVM calls it."""
    return str(tvm.target.codegen.llvm_get_system_cpu())
