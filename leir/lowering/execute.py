"""Running compiled programs on arrays.

Arrays are those of `leir.arrays`, C-contiguous. A compiled function checks nothing, so `run` checks shapes and dtypes.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from numpy.typing import NDArray
from tvm_ffi import Module

from leir.analysis.access import Tensor
from leir.arrays import array_type
from leir.lowering.build import library_of, load, load_library, translate
from leir.lowering.cuda import compile_kernels
from leir.lowering.lower import lower
from leir.lowering.names import Target
from leir.lowering.parameters import parameters, poison_value
from leir.syntax import Program

Array = NDArray[Any]

_ALONE = "program_0"  # the function of the only program of a module


class BufferMismatch(Exception):
    """A buffer does not fit the parameter that it is given for; the message names it."""


@dataclass(frozen=True, slots=True, eq=False)
class Executable:
    """A compiled program. `parameters` are its buffers in order: inputs, outputs, then the workspace.

    `optimised` code takes buffers that are aligned as TVM aligns them, and crashes on others.
    """

    parameters: tuple[Tensor, ...]
    target: Target
    module: Module
    name: str
    optimised: bool = False

    def run(self, buffers: Mapping[str, Array]) -> None:
        """Runs on one array a parameter, and leaves in each what the function left there. Raises BufferMismatch.

        In an input too, where it is writable: a function that edits one, as no well-formed program does, is seen to do
        so on every target.
        """
        arrays = [checked_buffer(tensor, buffers) for tensor in self.parameters]
        passed = [as_passed(tensor, array) for tensor, array in zip(self.parameters, arrays, strict=True)]
        if self.target == "llvm" and not self.optimised:
            self.module[self.name](*(tvm_ffi.from_dlpack(array) for array in passed))
        else:
            device = self.device()
            on_device = [tvm.runtime.tensor(array, device) for array in passed]
            self.module[self.name](*on_device)
            device.sync()
            passed = [tensor.numpy() for tensor in on_device]
        take_results(self.parameters, arrays, passed)

    def device(self) -> Any:
        """Where its buffers lie, as TVM calls it."""
        return tvm.cuda(0) if self.target == "cuda" else tvm.cpu()

    def new_buffers(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A buffer for each parameter: the arrays of `inputs` as they are, poisoned ones for everything else."""
        return new_buffers(self.parameters, inputs)


def compile_llvm(programs: Sequence[Program], *, poison: bool = False, optimised: bool = False) -> list[Executable]:
    """The programs as one library; a batch of eight or more costs each of them the least. `poison` as for `lower`.

    `optimised`: by all that LLVM does for this machine's processor, contraction too; for measuring time.
    """
    names = [f"program_{number}" for number in range(len(programs))]
    functions = [lower(p, "llvm", name=n, poison=poison) for p, n in zip(programs, names, strict=True)]
    module = load(translate(functions, "llvm", optimised=optimised))
    return [Executable(parameters(p), "llvm", module, n, optimised) for p, n in zip(programs, names, strict=True)]


def compile_cuda(programs: Sequence[Program], *, contraction: bool) -> list[Executable]:
    """The programs as one module for this machine's GPU. `contraction`: whether a*b+c may be rounded once.

    Raises NoDevice, CudaCompileError.
    """
    names = [f"program_{number}" for number in range(len(programs))]
    functions = [lower(p, "cuda", name=n) for p, n in zip(programs, names, strict=True)]
    module = compile_kernels(functions, contraction=contraction)
    return [Executable(parameters(p), "cuda", module, n) for p, n in zip(programs, names, strict=True)]


def compile_library(program: Program, target: Target, architecture: str = "") -> bytes:
    """The program compiled for speed, as `compile_llvm` (optimised) or `compile_cuda` (contraction) does it, as a file.

    `load_compiled` makes an executable of it in another process of this machine. `architecture`: of the GPU (`sm_90`);
    none is needed here. Raises LinkError, CudaCompileError.
    """
    function = lower(program, target, name=_ALONE)
    if target == "llvm":
        return library_of(translate([function], "llvm", optimised=True))
    return library_of(compile_kernels([function], contraction=True, architecture=architecture))


def load_compiled(library: bytes, program: Program, target: Target) -> Executable:
    """The program whose library it is, as `compile_llvm` and `compile_cuda` give it."""
    return Executable(parameters(program), target, load_library(library), _ALONE, optimised=target == "llvm")


def execute(program: Program, inputs: Mapping[str, Array], target: Target) -> dict[str, Array]:
    """The outputs of one program by name, for the arrays of its inputs. Raises BufferMismatch."""
    if target == "llvm":
        (executable,) = compile_llvm([program])
    else:
        (executable,) = compile_cuda([program], contraction=False)
    buffers = executable.new_buffers(inputs)
    executable.run(buffers)
    return {declaration.tensor: buffers[declaration.tensor] for declaration in program.outputs}


def new_buffers(wanted: Sequence[Tensor], inputs: Mapping[str, Array]) -> dict[str, Array]:
    """A buffer for each parameter: the arrays of `inputs` as they are, poisoned ones for everything else."""
    buffers = {tensor.name: inputs[tensor.name] for tensor in wanted if tensor.name in inputs}
    for tensor in wanted:
        if tensor.role != "input":
            buffers[tensor.name] = np.full(tensor.shape, poison_value(tensor.dtype), array_type(tensor.dtype))
    return buffers


def take_results(wanted: Sequence[Tensor], arrays: Sequence[Array], passed: Sequence[Array]) -> None:
    """Copies what a function left in copies of the arrays back to those that are writable."""
    for tensor, array, result in zip(wanted, arrays, passed, strict=True):
        if result is not array and array.flags.writeable:
            array[...] = from_bits(result) if tensor.dtype == "bf16" else result


def checked_buffer(tensor: Tensor, buffers: Mapping[str, Array]) -> Array:
    """The array given for a parameter. Raises BufferMismatch."""
    if tensor.name not in buffers:
        raise BufferMismatch(f"{tensor.role} {tensor.name} is missing")
    array, wanted = buffers[tensor.name], np.dtype(array_type(tensor.dtype))
    if array.dtype != wanted or array.shape != tensor.shape:
        found = f"{array.dtype}{list(array.shape)}"
        raise BufferMismatch(f"{tensor.role} {tensor.name} is {found}, the program takes {wanted}{list(tensor.shape)}")
    if tensor.role == "input":
        return array
    if not (array.flags.c_contiguous and array.flags.writeable):
        raise BufferMismatch(f"{tensor.role} {tensor.name} is not contiguous and writable")
    return array


def as_passed(tensor: Tensor, array: Array) -> Array:
    """The array that the function sees: the array itself where it can be, 16-bit patterns for bf16."""
    if tensor.dtype == "bf16":
        return _to_bits(tensor, array)
    return array if array.flags.c_contiguous and array.flags.writeable else array.copy()


def _to_bits(tensor: Tensor, array: Array) -> Array:
    bits = np.ascontiguousarray(array).view(np.uint32)
    if tensor.role == "input" and np.any(bits & 0xFFFF):
        raise BufferMismatch(f"input {tensor.name} holds values that are no bf16 numbers")
    return (bits >> 16).astype(np.uint16)


def from_bits(bits: Array) -> Array:
    """The numbers of 16-bit patterns of bf16, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
