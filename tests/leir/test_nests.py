"""Compiled nests that programs share: the same values as whole programs, each nest compiled once, a bounded number."""

import gc
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leir.lowering import build, compile_cuda, compile_llvm, compile_nests, cuda_source
from leir.lowering.build import device_source
from leir.lowering.cuda import kernels_of_source
from leir.lowering.lower import lower
from leir.lowering.nests import Functions, launching, nest_source, nests
from leir.parser import parse
from leir.syntax import Program
from stepTP.verify.compare import same_bits
from tests.leir.lowering_cases import APPROXIMATE, EXACT, inputs_of
from tests.leir.test_kernels import PROGRAMS
from tests.programs import random_inputs, random_program

SOFTMAX = """\
in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_i max=A_{i,j};]
L^{4,8}_{i,j}[E_i+=exp(A_{i,j}-D_i);]
L^{4,8}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]
"""
CHANGED = SOFTMAX.replace("L^{4,8}_{i,j}[E", "P^4_iL^8_j[E")
ON_GPU = """\
in A_{4,8};out C_{4,8};
B^4_{bx}B^8_{tx}[D_{bx}max=A_{bx,tx};]
B^4_{tx}[S^{f32,l}_8;L^8_j[S_j=exp(A_{tx,j}-D_{tx});]L^8_j[E_{tx}+=S_j;]]
B^{4,8}_{bx,tx}[C_{bx,tx}=exp(A_{bx,tx}-D_{bx})/E_{bx};]
"""


def outputs(program: Any, inputs: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    buffers = program.new_buffers(inputs)
    program.run(buffers)
    return buffers


def assert_same(programs: Sequence[Program], inputs: Sequence[dict[str, np.ndarray[Any, Any]]]) -> None:
    whole, apart = compile_llvm(programs, poison=True), compile_nests(programs, "llvm")
    for one, other, given in zip(whole, apart, inputs, strict=True):
        wanted, found = outputs(one, given), outputs(other, given)
        assert found.keys() == wanted.keys()
        assert all(same_bits(found[name], wanted[name]) for name in wanted)


def test_every_clause_gives_the_bits_of_the_whole_program() -> None:
    programs = [parse(text) for text in {**EXACT, **APPROXIMATE}.values()]
    assert_same(programs, [inputs_of(program) for program in programs])


def test_random_programs_give_the_bits_of_whole_programs() -> None:
    programs = [random_program(seed) for seed in range(60)]
    assert_same(programs, [random_inputs(program, seed) for seed, program in enumerate(programs)])


def test_a_nest_is_compiled_once() -> None:
    functions = Functions()
    functions.compile([parse(SOFTMAX)], "llvm")
    first = functions.compiled
    functions.compile([parse(SOFTMAX), parse(CHANGED)], "llvm")
    assert (first, functions.compiled) == (len(nests(parse(SOFTMAX), "llvm")), first + 1)


def test_tensors_of_other_shapes_make_another_nest() -> None:
    text = "in A_{4,%d};out C_{4};\nL^4_i[C_i=A_{i,0};]"
    assert nests(parse(text % 2), "llvm") != nests(parse(text % 3), "llvm")


def test_least_recently_used_nests_go_and_come_back() -> None:
    functions = Functions(limit=2)
    texts = [f"in A_4;out C_4;L^4_i[C_i=A_i*{number}.0;]" for number in (2, 3, 4)]
    given = {"A": np.ones(4, np.float32)}
    for number, text in enumerate((*texts, *texts), 1):
        (program,) = functions.compile([parse(text)], "llvm")
        assert outputs(program, given)["C"][0] == (2, 3, 4)[(number - 1) % 3]
        assert (len(functions.known), functions.compiled) == (min(number, 2), number)


def test_nests_that_go_leave_memory() -> None:
    """Hundreds of libraries, of which few stay mapped."""

    def mapped() -> int:
        return len({line.split()[-2] for line in Path("/proc/self/maps").read_text().splitlines() if "leir-" in line})

    functions, before = Functions(limit=4), mapped()
    for number in range(40):
        functions.compile([parse(f"in A_4;out C_4;L^4_i[C_i=A_i+{number}.5;]")], "llvm")
    gc.collect()
    assert mapped() - before <= 4


def test_a_batch_larger_than_the_limit_is_whole() -> None:
    (program,) = Functions(limit=1).compile([parse(SOFTMAX)], "llvm")
    found = outputs(program, {"A": np.zeros((4, 8), np.float32)})["C"]
    assert (found == np.float32(1 / 8)).all()


def test_without_a_linker_nests_are_made_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.shutil.which("ld") is None
    (program,) = Functions().compile([parse(CHANGED)], "llvm")
    assert (outputs(program, {"A": np.zeros((4, 8), np.float32)})["C"] == np.float32(1 / 8)).all()


def test_local_lifetimes_start_poisoned() -> None:
    text = "in A_2;out C_2;L^2_i[R^{f32,l};(i<1)[R=A_i;]C_i=R;]"
    (program,) = Functions().compile([parse(text)], "llvm")
    assert np.isnan(outputs(program, {"A": np.ones(2, np.float32)})["C"][1])


def test_gpu_kernels_are_those_of_the_whole_program() -> None:
    program = parse(ON_GPU)
    found = [launching(nest, f"nest_{number}") for number, nest in enumerate(nests(program, "cuda"))]
    assert kernel_texts(device_source(found)) == kernel_texts(device_source([lower(program, "cuda")]))


def kernel_texts(source: str) -> list[str]:
    """The kernels without their names, sorted."""
    kernels = re.split(r'(?=extern "C" __global__)', kernels_of_source(source))
    return sorted(re.sub(r"\w+_kernel(_\d+)?\(", "kernel(", kernel).strip() for kernel in kernels)


def test_nests_have_the_kernels_of_the_whole_program() -> None:
    def unnumbered(source: str) -> str:
        return re.sub(r"main_kernel(_\d+)?", "main_kernel", source).replace("\n\n", "\n")

    programs = [parse(ON_GPU), parse(CHANGED), *(random_program(seed) for seed in range(12))]
    for program in programs:
        apart = "".join(nest_source(nest) for nest in nests(program, "cuda"))
        assert unnumbered(apart) == unnumbered(cuda_source(program))


@pytest.mark.gpu
def test_on_a_gpu_nests_compiled_quickly_give_the_bits_of_optimised_programs() -> None:
    programs = [parse(text) for text in {**EXACT, **APPROXIMATE, **PROGRAMS}.values()]
    programs += [random_program(seed) for seed in range(120)]
    for start in range(0, len(programs), 16):
        some = programs[start : start + 16]
        whole, apart = compile_cuda(some, contraction=False), compile_nests(some, "cuda")
        for number, (one, other) in enumerate(zip(whole, apart, strict=True), start):
            inputs = random_inputs(programs[number], number)
            wanted, found = outputs(one, inputs), [other.new_buffers(inputs) for _ in range(3)]
            other.run_each(found)
            for name in wanted:
                assert all(same_bits(run[name], wanted[name]) for run in found), (programs[number], name)


@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_a_nest_without_global_tensors_is_no_function(target: Any) -> None:
    program = parse("in A_4;out C_4;\nL^4_i[D^{f32,l};]\nL^4_i[E^{f32,l};E=1.0;]\nL^4_i[C_i=A_i;]")
    assert [tuple(name for name, _, _ in nest.tensors) for nest in nests(program, target)] == [("C", "A")]
    assert outputs(Functions().compile([program], "llvm")[0], {"A": np.ones(4, np.float32)})["C"].tolist() == [1.0] * 4
    assert cuda_source(program).count("__global__") >= 1
