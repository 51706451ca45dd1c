"""LEIR to TVM's TIR, and from there to machine code: the only place that knows TVM (0.27)."""

from leir.lowering.build import LinkError
from leir.lowering.cuda import CudaCompileError, NoDevice, architecture_of, cuda_source
from leir.lowering.execute import (
    BufferMismatch,
    Executable,
    compile_cuda,
    compile_library,
    compile_llvm,
    execute,
    load_compiled,
)
from leir.lowering.lower import lower
from leir.lowering.nests import NestSequence, compile_nests
from leir.lowering.parameters import parameters, poison_value, workspace
from leir.lowering.resident import Resident, place, processor_name, synchronise
from leir.lowering.sblocks import tvmscript_sblocks
from leir.lowering.text import tir_text

__all__ = [
    "BufferMismatch", "CudaCompileError", "Executable", "LinkError", "NestSequence", "NoDevice", "Resident",
    "architecture_of", "compile_cuda", "compile_library", "compile_llvm", "compile_nests", "cuda_source", "execute",
    "load_compiled", "lower", "parameters", "place", "poison_value", "processor_name", "synchronise", "tir_text",
    "tvmscript_sblocks", "workspace",
]  # fmt: skip
