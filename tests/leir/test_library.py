"""Programs compiled in one process and loaded in another: the very code, with its kernels."""

import subprocess
import sys

import numpy as np
import pytest
import tvm

from leir.lowering import CudaCompileError, architecture_of, compile_cuda, compile_library, compile_llvm, load_compiled
from leir.parser import parse

ROWS = parse("in A_{32,48},W_{48};out C_{32};\nP^{32}_{i}[L^{48}_{j}[C_i+=A_{i,j}*W_j;]]\n")
BOUND = "in A_{32,48},W_{48};out C_{32};\nB^{32}_{tx}[L^{48}_{j}[C_{tx}+=A_{tx,j}*W_j;]]\n"
INPUTS = {
    "A": np.random.default_rng(0).normal(size=(32, 48)).astype(np.float32),
    "W": np.random.default_rng(1).normal(size=48).astype(np.float32),
}
# Without the driver TVM has no loader for kernels: this one keeps what it is given, and gives back some module.
_WITHOUT_GPU = f"""
import tvm_ffi
from leir.lowering import compile_library, compile_llvm, load_compiled
from leir.parser import parse

program, seen = parse({BOUND!r}), []
def loader(content):
    seen.append(bytes(content))
    return compile_llvm([program])[0].module
tvm_ffi.register_global_func("ffi.Module.load_from_bytes.cuda", loader)
loaded = load_compiled(compile_library(program, "cuda", "sm_90"), program, "cuda")
assert loaded.target == "cuda" and len(loaded.module.imports) == 1
assert loaded.module[loaded.name] is not None
assert len(seen) == 1 and b"program_0_kernel" in seen[0] and b"threadIdx.x" in seen[0]
"""


def test_a_library_is_the_code_that_is_compiled_here() -> None:
    (own,) = compile_llvm([ROWS], optimised=True)
    loaded = load_compiled(compile_library(ROWS, "llvm"), ROWS, "llvm")
    assert loaded.optimised and loaded.parameters == own.parameters
    results = [executable.new_buffers(INPUTS) for executable in (own, loaded)]
    for executable, buffers in zip((own, loaded), results, strict=True):
        executable.run(buffers)
    assert results[0]["C"].tobytes() == results[1]["C"].tobytes()
    np.testing.assert_allclose(results[1]["C"], INPUTS["A"] @ INPUTS["W"], rtol=1e-4)


def test_a_library_is_the_same_bytes_each_time() -> None:
    assert compile_library(ROWS, "llvm") == compile_library(ROWS, "llvm")


def test_libraries_of_several_programs_stand_side_by_side() -> None:
    """All call their function by the same name."""
    texts = [f"in A_8;out C_8;\nL^8_i[C_i=A_i*{n}.0;]\n" for n in range(1, 4)]
    loaded = [load_compiled(compile_library(program, "llvm"), program, "llvm") for program in map(parse, texts)]
    for number, executable in enumerate(loaded, 1):
        buffers = executable.new_buffers({"A": np.ones(8, np.float32)})
        executable.run(buffers)
        assert set(buffers["C"]) == {float(number)}


@pytest.mark.skipif(tvm.cuda(0).exist, reason="the driver has its own loader")
def test_a_library_carries_its_kernels() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_GPU], check=True)


def test_an_architecture_is_named_by_its_capability() -> None:
    assert [architecture_of(capability) for capability in ("7.5", "9.0", "12.0")] == ["sm_75", "sm_90", "sm_120"]


@pytest.mark.skipif(not tvm.cuda(0).exist, reason="needs a GPU")
def test_a_library_runs_on_the_gpu_without_being_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse(BOUND)
    (own,) = compile_cuda([program], contraction=True)
    library = compile_library(program, "cuda", architecture_of(tvm.cuda(0).compute_version))
    monkeypatch.setattr("leir.lowering.cuda.compile_source", None)
    loaded = load_compiled(library, program, "cuda")
    results = [executable.new_buffers(INPUTS) for executable in (own, loaded)]
    for executable, buffers in zip((own, loaded), results, strict=True):
        executable.run(buffers)
    assert results[0]["C"].tobytes() == results[1]["C"].tobytes()


@pytest.mark.skipif(not tvm.cuda(0).exist, reason="without the driver kernels are compiled where they are loaded")
def test_a_refusal_of_the_compiler_comes_from_who_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(code: str, *_: object, **__: object) -> bytes:
        raise CudaCompileError("no", code)

    monkeypatch.setattr("leir.lowering.cuda.compile_source", refused)
    with pytest.raises(CudaCompileError, match="no"):
        compile_library(parse(BOUND), "cuda", "sm_90")
