"""`//` and `%` with factors, dividends and divisors of both signs, as both targets compute them."""

from typing import Any

import numpy as np
import pytest
from tvm.ir import IRModule
from tvm.tirx import transform

from leir.check import check
from leir.interp import interpret
from leir.lowering import build, compile_llvm, cuda_source, lower, parameters
from leir.parser import parse
from leir.syntax import Program
from tests.leir.gpu_simulation import simulate
from tests.programs import random_divisions, random_inputs

Arrays = dict[str, np.ndarray[Any, Any]]

REVERSED = {
    "two subscripts": "in A_{2,8,8};out C_{1,8};L^{8,16}_{i,k}[C_{0,i}+=A_{(15-k)//8,i,(15-k)%8};]",
    "quotient alone": "in A_{8};out C_{16};L^{16}_k[C_k=A_{(-k+15)//6*3};]",
    "nested": "in A_{9};out C_{16};L^{16}_k[C_k=A_{(31-k)//4%5//2+(k*(-2)+30)//12*2};]",
    "written": "in A_{24};out C_{4,6};L^{24}_f[C_{(23-f)//6,(23-f)%6}=A_f;]",
    "negative number in front": "in A_{9};out C_{16};L^{16}_k[C_k=A_{(-1*k+15)//2+(1-2)*(k//15)+1};]",
    "vector": "in A_{2,8};out C_{16};V^{16}_k[C_k=A_{(15-k)//8,(15-k)%8};]",
    "guard": "in A_{16};out C_{16};L^{16}_k[C_k=0.0;]L^{16}_k((15-k)//4%2==1)[C_k=A_k;]",
}


def drawn(program: Program, seed: int) -> Arrays:
    return random_inputs(program, seed)  # type: ignore[return-value]


def on_gpu(program: Program, inputs: Arrays) -> Arrays:
    """The buffers after a simulated run of what TVM makes of the subscripts before it prints CUDA source."""
    buffers = {t.name: inputs[t.name] if t.name in inputs else np.zeros(t.shape, np.float32 if t.dtype == "f32" else
               np.int64) for t in parameters(program)}  # fmt: skip
    passes = [transform.BindTarget(build.device_target(build.ARCHITECTURE)), transform.FlattenBuffer()]
    module = IRModule({"main": lower(program, "cuda")})
    for made in passes:
        module = made(module)
    simulate(module["main"], buffers)
    return buffers


@pytest.mark.parametrize("name", REVERSED)
def test_reversed_loops(name: str) -> None:
    program = parse(REVERSED[name])
    assert check(program) == ()
    inputs = drawn(program, 1)
    wanted = interpret(program, inputs)["C"]
    for optimised in (False, True):
        (executable,) = compile_llvm([program], optimised=optimised)
        buffers = executable.new_buffers(inputs)
        executable.run(buffers)
        np.testing.assert_array_equal(buffers["C"], wanted)
    np.testing.assert_array_equal(on_gpu(program, inputs)["C"], wanted)


def test_random_divisions_on_llvm() -> None:
    seeds = range(200)
    programs = [random_divisions(seed) for seed in seeds]
    for seed, program, executable in zip(seeds, programs, compile_llvm(programs, poison=True), strict=True):
        inputs = drawn(program, seed)
        buffers = executable.new_buffers(inputs)
        executable.run(buffers)
        np.testing.assert_array_equal(buffers["C"], interpret(program, inputs)["C"], err_msg=f"seed {seed}")


def test_random_divisions_on_cuda() -> None:
    for seed in range(100, 160):
        program = random_divisions(seed)
        inputs = drawn(program, seed)
        found = on_gpu(program, inputs)["C"]
        np.testing.assert_array_equal(found, interpret(program, inputs)["C"], err_msg=f"seed {seed}")


def test_random_divisions_are_well_formed() -> None:
    programs = [random_divisions(seed) for seed in range(60)]
    assert not any(check(program) for program in programs)


def test_cuda_source_of_reversed_loop_divides_by_shifts() -> None:
    source = cuda_source(parse(REVERSED["two subscripts"]))
    assert "(15 - k) >> 3" in source
    assert "(15 - k) & 7" in source


def test_subscripts_of_a_fused_loop_are_still_simplified() -> None:
    source = cuda_source(parse("in A_{4,6};out C_{24};B^{24}_{tx}[C_{tx}=A_{tx//6,tx%6};]"))
    assert "A_ptr[((int)threadIdx.x)]" in source
