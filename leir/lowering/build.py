"""Machine code from lowered functions, by a short list of TVM's passes.

TVM's default pipeline simplifies floats as if they were reals (x*0 becomes 0) and costs 40 ms a program. The passes
here only translate: nothing folds a float, and LLVM runs without fast-math. It runs without optimisation too, which is
right for checking values; code whose time is measured is asked for as `optimised`.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path as FilePath
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import GlobalVar, IRModule
from tvm.target import Target as TvmTarget
from tvm.tirx import transform
from tvm.tirx.build import codegen_build, split_host_device_mods
from tvm_ffi import Module, load_module

from leir.lowering.kernels import MAY_OVERLAP
from leir.lowering.names import Target

ARCHITECTURE = "sm_90"  # of CUDA source that is made without a GPU
_KERNEL_LAUNCH = 2  # TVM's number for the calling convention of kernels
_CONTEXT = tvm.transform.PassContext(config={"tirx.disable_assert": True})


class LinkError(Exception):
    """The system's linker refused an object file; the message is its own."""


@cache
def host_target() -> TvmTarget:
    """This machine's processor at its least: no `mcpu`, so that no operation is contracted where it could be."""
    return TvmTarget({"kind": "llvm", "opt-level": 0})


@cache
def native_target() -> TvmTarget:
    """This machine's processor with all that it can do, and LLVM with all that it does."""
    return TvmTarget({"kind": "llvm", "opt-level": 3, "mcpu": str(tvm.target.codegen.llvm_get_system_cpu())})


@cache
def device_target(architecture: str) -> TvmTarget:
    return TvmTarget({"kind": "cuda", "arch": architecture}).with_host(host_target())


def translate(
    functions: Sequence[tirx.PrimFunc], target: Target, architecture: str = ARCHITECTURE, *, optimised: bool = False
) -> Module:
    """The functions as one module: host code, which imports the device code of `cuda`.

    `optimised` (llvm only): for this processor, at LLVM's highest level.
    """
    processor = native_target() if optimised else host_target()
    with _CONTEXT:
        host, devices = _split(functions, processor if target == "llvm" else device_target(architecture))
        host = tvm.transform.Sequential([transform.LowerTVMBuiltin(), transform.LowerIntrin()])(host)
        built = codegen_build(host, processor)
        for found, device in devices.items():
            built.import_module(codegen_build(transform.LowerIntrin()(device), found))
    return built


def translate_kernels(
    functions: Sequence[tirx.PrimFunc], architecture: str = ARCHITECTURE
) -> tuple[Module, dict[str, tirx.PrimFunc]]:
    """The kernels of functions as a module, and what is left of each function for the host, by name.

    A host function has the parameters that it had, and launches kernels by name (`tirx.call_ffi_kernel`).
    """
    with _CONTEXT:
        module = tvm.transform.Sequential(_split_passes(device_target(architecture)))(_module_of(functions))
        kernels: dict[GlobalVar, tirx.PrimFunc] = {}
        hosts: dict[str, tirx.PrimFunc] = {}
        for variable, function in module.functions.items():
            if function.attrs.get("calling_conv") == _KERNEL_LAUNCH:
                kernels[variable] = function
            else:
                hosts[str(function.attrs["global_symbol"])] = function
        device = transform.LowerIntrin()(transform.BF16StorageLegalize()(IRModule(kernels)))
        return codegen_build(device, TvmTarget({"kind": "cuda", "arch": architecture})), hosts


def translate_entries(functions: Sequence[tirx.PrimFunc]) -> Module:
    """Functions for the CPU that unpack their arguments themselves, as one module."""
    passes = [
        transform.BindTarget(host_target()),
        transform.FlattenBuffer(),
        transform.LowerTVMBuiltin(),
        transform.LowerIntrin(),
    ]
    with _CONTEXT:
        return codegen_build(tvm.transform.Sequential(passes)(_module_of(functions)), host_target())


def device_source(functions: Sequence[tirx.PrimFunc]) -> str:
    """TVM's CUDA source of the functions' kernels."""
    with _CONTEXT:
        _, devices = _split(functions, device_target(ARCHITECTURE))
        modules = [codegen_build(transform.LowerIntrin()(device), found) for found, device in devices.items()]
    return "".join(module.inspect_source() for module in modules)


def _split(functions: Sequence[tirx.PrimFunc], target: TvmTarget) -> tuple[IRModule, dict[TvmTarget, IRModule]]:
    """The functions in the forms that code is generated from: host functions, and kernels by their target."""
    bound = target if target.host else target.with_host(target)
    passes = [*_split_passes(bound), transform.MakePackedAPI(), transform.BF16StorageLegalize()]
    return split_host_device_mods(tvm.transform.Sequential(passes)(_module_of(functions)))


def _split_passes(target: TvmTarget) -> list[Any]:
    return [
        transform.BindTarget(target),
        transform.FlattenBuffer(),
        transform.VectorizeLoop(),
        transform.VerifyMemory(),
        transform.SplitHostDevice(),
        transform.prim_func_pass(_without_promise, opt_level=0),
    ]


def _without_promise(function: tirx.PrimFunc, _module: IRModule, _context: Any) -> tirx.PrimFunc:
    """A kernel whose body is marked so (see `aliasing`) without the attribute that becomes `__restrict__`."""
    body = function.body
    while isinstance(body, (tirx.SeqStmt, tirx.AttrStmt)):  # declarations of buffers, then the axes
        if isinstance(body, tirx.AttrStmt) and body.attr_key == MAY_OVERLAP:
            changed = function.without_attr("tirx.noalias")
            assert isinstance(changed, tirx.PrimFunc)
            return changed
        body = body[len(body) - 1] if isinstance(body, tirx.SeqStmt) else body.body
    return function


def _module_of(functions: Sequence[tirx.PrimFunc]) -> IRModule:
    return IRModule({str(function.attrs["global_symbol"]): function for function in functions})


def load(module: Module) -> Module:
    """The module as loaded machine code: through an object file and `ld`, or by TVM's JIT where there is no `ld`.

    A module with device code keeps it: only host code is linked. Raises LinkError.
    """
    return module if module.imports or shutil.which("ld") is None else load_library(library_of(module))


def library_of(module: Module) -> bytes:
    """The module as a shared library, its device code in it. Raises LinkError, where there is no `ld` too."""
    linker = shutil.which("ld")
    if linker is None:
        raise LinkError("no linker is here: install ld (package binutils)")
    with tempfile.TemporaryDirectory(prefix="leir-") as directory:
        made, packed, library = (FilePath(directory) / name for name in ("code.o", "device.o", "code.so"))
        module.write_to_file(str(made), "o")
        if module.imports:
            triple = module["_get_target_string"]()
            tvm_ffi.get_global_func("runtime.ModulePackImportsToLLVM")(module, False, triple, "").write_to_file(
                str(packed), "o"
            )
        objects = [str(file) for file in (made, packed) if file.exists()]
        linked = subprocess.run([linker, "-shared", "-o", str(library), *objects], capture_output=True, text=True)
        if linked.returncode:
            raise LinkError(linked.stderr.strip())
        return library.read_bytes()


def load_library(content: bytes) -> Module:
    """The module that a library was made of, as machine code of this process; it can be on another machine's driver.

    Raises RuntimeError where there is no loader for its device code.
    """
    with tempfile.TemporaryDirectory(prefix="leir-") as directory:
        library = FilePath(directory) / "code.so"
        library.write_bytes(content)
        # Otherwise TVM keeps it to the end of the process: five mappings each, of which the kernel allows 65,530.
        return load_module(str(library), keep_module_alive=False)
