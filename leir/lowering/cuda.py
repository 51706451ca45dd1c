"""CUDA source, and its compilation without TVM's headers.

TVM puts a preamble before the kernels that costs 600 ms to compile and that they do not need: our hook drops it and
hands the kernels to nvrtc, or to nvcc, with the few definitions that they use. TVM's own hook also asks for fast-math,
which changes values; ours does not, and contracts a*b+c only if asked to.

Code that runs a few times, to see what it computes, is compiled *quickly*: the compiler inlines and keeps values in
registers, but unrolls and schedules nothing. That is a fifth of the time, and the same operations on the same values.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import shutil
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path as FilePath
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.support.nvcc import find_cuda_path
from tvm_ffi import Module

from leir.lowering.build import device_source, translate, translate_kernels
from leir.lowering.lower import lower
from leir.syntax import Program

_KERNEL = 'extern "C" __global__'
_DEFINITIONS = """\
#define int64_t long long
#define uint unsigned int
#define uint64_t unsigned long long
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
#define CUDART_NAN __longlong_as_double(0x7ff8000000000000ll)
"""
_HALF = "#include <cuda_fp16.h>\nstruct __align__(8) half4 { half x, y, z, w; };\n"
_BFLOAT = "#include <cuda_bf16.h>\nstruct __align__(8) nv_bfloat164 { nv_bfloat16 x, y, z, w; };\n"

_QUICKLY = ("--Ofast-compile=mid", "--minimal")
_QUICK_SINCE = (13, 0)  # the release of nvrtc whose options these are


class NoDevice(Exception):
    """There is no CUDA device here."""


class CudaCompileError(Exception):
    """The CUDA compiler refused a source; the message is its own, and `source` what it was given."""

    def __init__(self, message: str, source: str) -> None:
        self.source = source
        super().__init__(message)


@dataclass(slots=True)
class _Request:
    """The compilation under way. TVM passes no error of ours on: `refused` keeps it."""

    architecture: str
    contraction: bool
    quickly: bool
    refused: CudaCompileError | None = None


_request: ContextVar[_Request] = ContextVar("the compilation under way")


def cuda_source(program: Program) -> str:
    """The kernels of the program in CUDA C++, as they are compiled; needs no GPU."""
    return kernels_of_source(device_source([lower(program, "cuda")]))


def compile_kernels(
    functions: Sequence[tirx.PrimFunc], *, contraction: bool, architecture: str | None = None
) -> Module:
    """The functions as one module for this machine's GPU, or for an architecture (`sm_90`), which needs no GPU.

    Raises NoDevice, CudaCompileError.
    """
    with _compiling(architecture or _own_architecture(), contraction=contraction, quickly=False) as made_for:
        return translate(functions, "cuda", made_for)


def compile_quickly(functions: Sequence[tirx.PrimFunc]) -> tuple[Module, dict[str, tirx.PrimFunc]]:
    """The kernels of the functions for this machine's GPU, nothing contracted, and the host's part of each function.

    Raises NoDevice, CudaCompileError.
    """
    with _compiling(_own_architecture(), contraction=False, quickly=True) as architecture:
        return translate_kernels(functions, architecture)


def architecture_of(capability: str) -> str:
    """The architecture of a compute capability: `sm_90` of 9.0."""
    return f"sm_{capability.replace('.', '')}"


def _own_architecture() -> str:
    """That of this machine's GPU. Raises NoDevice."""
    device = tvm.cuda(0)
    if not device.exist:
        raise NoDevice("no CUDA device here")
    return architecture_of(device.compute_version)


@contextmanager
def _compiling(architecture: str, *, contraction: bool, quickly: bool) -> Generator[str]:
    """Makes our hook the compiler of what TVM translates."""
    request = _Request(architecture, contraction, quickly)
    token = _request.set(request)
    try:
        tvm_ffi.register_global_func("tvm_callback_cuda_compile", _compile, override=True)
        yield request.architecture
    except RuntimeError as error:
        raise request.refused or error from None
    finally:
        _request.reset(token)


def _compile(code: str) -> bytes:
    """TVM's hook: the kernels of its source as a cubin."""
    request = _request.get()
    try:
        return compile_source(code, request.architecture, contraction=request.contraction, quickly=request.quickly)
    except CudaCompileError as error:
        request.refused = error
        raise


def compile_source(code: str, architecture: str, *, contraction: bool, quickly: bool = False) -> bytes:
    """A cubin of the kernels in TVM's CUDA source, by nvrtc if it is there, else by nvcc.

    Raises CudaCompileError.
    """
    kernels = kernels_of_source(code)
    headers = (_HALF if "half" in kernels else "") + (_BFLOAT if "nv_bfloat16" in kernels else "")
    source = headers + _DEFINITIONS + kernels
    options = [f"--gpu-architecture={architecture}", f"--fmad={'true' if contraction else 'false'}"]
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
    except ImportError:
        return _by_nvcc(source, options)
    if quickly and nvrtc.nvrtcVersion()[1:] >= _QUICK_SINCE:
        options += _QUICKLY
    return _by_nvrtc(nvrtc, source, [*options, "--device-int128", *_include_options(source)])


def kernels_of_source(code: str) -> str:
    """TVM's CUDA source without its preamble and its forward declarations."""
    start = code.find(_KERNEL)
    if start < 0:
        return ""
    lines = code[start:].rstrip().splitlines(keepends=True)
    return "".join(line for line in lines if not (line.startswith(_KERNEL) and line.rstrip().endswith(";"))) + "\n"


def _by_nvrtc(nvrtc: Any, source: str, options: list[str]) -> bytes:
    """A cubin from NVIDIA's bindings, whose functions return an error code and a value."""
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernels.cu", 0, [], [])
    try:
        (error,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
            nvrtc.nvrtcGetProgramLog(program, log)
            raise CudaCompileError(log.rstrip(b"\0 \n").decode(), source)
        cubin = b" " * nvrtc.nvrtcGetCUBINSize(program)[1]
        nvrtc.nvrtcGetCUBIN(program, cubin)
        return cubin
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _include_options(source: str) -> list[str]:
    """Where nvrtc finds the headers of f16 and bf16, which it does not carry."""
    if "#include" not in source:
        return []
    root = FilePath(find_cuda_path()) / "include"
    return [f"--include-path={root}", f"--include-path={root / 'cccl'}"]


def _by_nvcc(source: str, options: list[str]) -> bytes:
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        raise CudaCompileError("neither nvrtc (package cuda-bindings) nor nvcc is here", source)
    with tempfile.TemporaryDirectory(prefix="leir-") as directory:
        given, made = FilePath(directory) / "kernels.cu", FilePath(directory) / "kernels.cubin"
        given.write_text(source)
        done = subprocess.run([compiler, "--cubin", *options, "-o", made, given], capture_output=True, text=True)
        if done.returncode:
            raise CudaCompileError(done.stderr.strip(), source)
        return made.read_bytes()
