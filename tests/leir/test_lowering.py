"""The lowering for `llvm` against the interpreter, clause by clause and on random programs; its text, its borders."""

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm.script

from leir.check import check
from leir.interp import interpret
from leir.lowering import (
    BufferMismatch,
    LinkError,
    build,
    compile_llvm,
    cuda_source,
    execute,
    lower,
    parameters,
    tir_text,
    tvmscript_sblocks,
    workspace,
)
from leir.parser import parse
from leir.syntax import Program
from tests.leir.lowering_cases import APPROXIMATE, EXACT, inputs_of
from tests.programs import random_inputs, random_program

Arrays = dict[str, np.ndarray[Any, Any]]
FUNCTIONS = re.compile(r"exp|log|erf|tanh|sin|cos|\*\*")
TOLERANCE = {np.float16: 4e-3, np.float32: 1e-4, np.float64: 1e-10}
RANDOM_PROGRAMS = 96
BATCH = 16

MATMUL = "in A_{8,4},W_{4,6};out C_{8,6};L^{8,6,4}_{i,j,k}[C_{i,j}+=A_{i,k}*W_{k,j};]"


def assert_agrees(found: Arrays, wanted: Arrays, exact: bool) -> None:
    for name, values in wanted.items():
        if exact or values.dtype.kind != "f":
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        else:
            tolerance = TOLERANCE[values.dtype.type]
            np.testing.assert_allclose(found[name], values, tolerance, tolerance, err_msg=name)


@pytest.mark.parametrize("name", [*EXACT, *APPROXIMATE])
def test_clause(name: str) -> None:
    program = parse({**EXACT, **APPROXIMATE}[name])
    assert check(program) == ()
    inputs = inputs_of(program)
    assert_agrees(execute(program, inputs, "llvm"), interpret(program, inputs), exact=name in EXACT)


@pytest.mark.parametrize("start", range(0, RANDOM_PROGRAMS, BATCH))
def test_random_programs(start: int) -> None:
    seeds = range(start, start + BATCH)
    programs = [random_program(seed) for seed in seeds]
    for seed, program, executable in zip(seeds, programs, compile_llvm(programs, poison=True), strict=True):
        inputs = random_inputs(program, seed)
        buffers = executable.new_buffers(inputs)
        executable.run(buffers)
        exact = FUNCTIONS.search(tir_text(program)) is None
        assert_agrees(buffers, interpret(program, inputs), exact)


def body(program: Program) -> list[str]:
    """The lines of a lowered function below its header."""
    return [line.strip() for line in tir_text(program).splitlines()[3:]]


def test_text_of_a_product() -> None:
    assert tir_text(parse(MATMUL)) == (
        "@T.prim_func\n"
        'def main(A: T.Buffer((8, 4), "float32"), W: T.Buffer((4, 6), "float32"), C: T.Buffer((8, 6), "float32")):\n'
        '    T.func_attr({"tirx.noalias": True})\n'
        "    for i, j in T.grid(8, 6):\n"
        "        C[i, j] = T.float32(0.0)\n"
        "        for k in range(4):\n"
        "            C[i, j] = C[i, j] + A[i, k] * W[k, j]\n"
    )


FILLS = {
    "next to the accumulation": (
        "L^{4,4}_{i,j}[C_i max=A_{i*4+j};]",
        ["for i in range(4):", 'C[i] = T.float32("-inf")', "for j in range(4):"],
    ),
    "in a loop of its own, where the outer loop reduces": (
        "L^{4,4}_{k,i}[C_i+=A_{k*4+i};]",
        ["for i in range(4):", "C[i] = T.float32(0.0)", "for k, i in T.grid(4, 4):"],
    ),
    "next to it in a tiling": (
        "L^{2,2}_{a,b}L^4_k[C_{a*2+b}+=A_{(a*2+b)*4+k};]",
        ["for a, b in T.grid(2, 2):", "C[a * 2 + b] = T.float32(0.0)", "for k in range(4):"],
    ),
    "whole, where the accumulation is guarded": (
        "L^4_i(i<4)[C_i+=A_i;]",
        ["for i in range(4):", "C[i] = T.float32(0.0)", "for i in range(4):"],
    ),
    "whole, where it misses elements": (
        "L^2_i[C_{i*2}+=A_i;]L^4_i[C_i+=1.0;]",
        ["for i in range(4):", "C[i] = T.float32(0.0)", "for i in range(2):"],
    ),
    "above a neighbour's read": (
        "L^4_i[C_i+=A_i;D_i=C_{3-i};]",
        ["for i in range(4):", "C[i] = T.float32(0.0)", "for i in range(4):"],
    ),
    "before a read that stands before it": (
        "L^4_i[D_i=C_i;C_i+=A_i;]",
        ["for i in range(4):", "C[i] = T.float32(0.0)", "D[i] = C[i]"],
    ),
}


@pytest.mark.parametrize("place", FILLS)
def test_fill_stands(place: str) -> None:
    text, wanted = FILLS[place]
    out = "out C_4,D_4" if "D_i" in text else "out C_4"
    assert body(parse(f"in A_{{16}};{out};{text}"))[: len(wanted)] == wanted


def test_fill_at_each_entry_of_a_lifetime() -> None:
    lines = body(parse("in A_{16};out C_4;L^4_i[D^{f32,l}_2;L^4_j[D_{j%2}+=A_{i*4+j};]C_i=D_0+D_1;]"))
    assert lines[:5] == [
        "for i in range(4):", "D = T.alloc_local((2,))", "for j in range(2):", "D[j] = T.float32(0.0)",
        "for j in range(4):",
    ]  # fmt: skip


def test_narrow_arithmetic_only_where_it_fits() -> None:
    lines = body(parse("in A_{8};out C^{i64}_{8};L^8_i[C_i=i*400000000//7+i;]"))
    assert lines[1] == 'C[i] = T.Cast("int64", i) * T.int64(400000000) // T.int64(7) + T.Cast("int64", i)'
    assert body(parse("in A_{8};out C_8;L^8_i[C_{(i*3+5)%8}=A_i;]"))[1] == "C[(i * 3 + 5) % 8] = A[i]"


def test_parameters_are_inputs_outputs_workspace() -> None:
    program = parse("in A_4;out C_4;E^{i32,g}_9;L^4_i[D_{i+1}=A_i;E_i=1;S=2.0;C_i=D_{i+1}+E_i+S;]")
    assert [(t.name, t.role) for t in parameters(program)] == [
        ("A", "input"), ("C", "output"), ("E", "temporary"), ("D", "temporary"), ("S", "temporary"),
    ]  # fmt: skip
    assert [(t.name, t.dtype, t.shape) for t in workspace(program)] == [
        ("E", "i32", (9,)), ("D", "f32", (5,)), ("S", "f32", ()),
    ]  # fmt: skip


BLOCKS = (
    "in A_{64};out C_{64};B^4_{bx}[S^{f32,s}_{17};R^{f32,l}_{16,2};B^{16}_{tx}[S_{tx}=A_{bx*16+tx};]"
    "L^2_k[B^{16}_{tx}[R_{tx,k}+=S_{15-tx}+exp(S_{tx});]]B^{16}_{tx}[C_{bx*16+tx}=max(R_{tx,0},R_{tx,1});]]"
)


@pytest.mark.parametrize("text", [MATMUL, BLOCKS, APPROXIMATE["softmax"]])
def test_both_texts_are_read_by_tvm_again(text: str) -> None:
    """TVM's printer and reader are not exact inverses (rank 0, digits of doubles), so on programs that they can do."""
    for shown in (tir_text(parse(text)), tvmscript_sblocks(parse(text))):
        again = tvm.script.from_source(shown).script().replace('"shared", T.bool(False), -1', '"shared"')
        assert again[again.index("@T.prim_func") :].rstrip() == shown.rstrip()


def test_sblocks_of_a_product() -> None:
    text = tvmscript_sblocks(parse(MATMUL))
    assert 'vi, vj, vk = T.axis.remap("SSR", [i, j, k])' in text
    assert "T.reads(A[vi, vk], W[vk, vj])" in text
    assert re.search(r"with T.init\(\):\n +C\[vi, vj\] = T.float32\(0.0\)\n", text)


def all_texts() -> str:
    programs = [random_program(seed) for seed in range(6)]
    return "".join(tir_text(p) + cuda_source(p) + tvmscript_sblocks(p) for p in programs)


def test_every_comparison_with_nan_is_false_but_one() -> None:
    values = {"A": np.array([np.nan, 1, np.nan, 9], np.float32), "D": np.array([0, 0, np.nan, 4], np.float32)}
    sides = (("A_i", "i"), ("i", "A_i"), ("A_i*A_i", "8"), ("A_i-D_i", "0"), ("A_i+i", "D_i"), ("A_i", "2.0"))
    for left, right in sides:
        for op in ("<", "<=", ">", ">=", "==", "!="):
            for test in (f"{left}{op}{right}", f"!{left}{op}{right}"):
                program = parse(f"in A_4,D_4;out C_4;L^4_i[C_i=if_then_else({test},1.0,0.0);]")
                wanted = interpret(program, values)
                assert wanted["C"][2] == ((op == "!=") != test.startswith("!"))
                assert_agrees(execute(program, values, "llvm"), wanted, exact=True)


def test_text_is_the_same_in_every_process() -> None:
    code = "import sys\nfrom tests.leir.test_lowering import all_texts\nsys.stdout.write(all_texts())"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"},
    ).stdout  # fmt: skip
    assert other == all_texts() and len(other) > 5000


def test_poison_shows_an_element_that_no_one_wrote() -> None:
    program = parse("in A_4;out C_4,D^{i32}_4;L^4_i[S^{f32,l}_2;T^{i32,l}_2;S_0=A_i;T_0=1;C_i=S_1;D_i=T_1;]")
    (executable,) = compile_llvm([program], poison=True)
    buffers = executable.new_buffers({"A": np.ones(4, np.float32)})
    executable.run(buffers)
    assert np.isnan(buffers["C"]).all() and (buffers["D"] == -(2**31)).all()


def test_poison_starts_each_lifetime_anew() -> None:
    program = parse("in A_4;out C_4;L^4_i[S^{bf16,l}_4;S_i=A_i;C_i=S_{(i+3)%4};]")
    (executable,) = compile_llvm([program], poison=True)
    buffers = executable.new_buffers({"A": np.ones(4, np.float32)})
    executable.run(buffers)
    assert np.isnan(buffers["C"]).all()


def test_new_buffers_are_poisoned() -> None:
    (executable,) = compile_llvm([parse("in A_2;out D_2,C^{i8}_2,F^{bool}_2;L^2_i[E_i=A_i;C_i=E_i;D_i=E_i;F_i=E_i;]")])
    buffers = executable.new_buffers({"A": np.zeros(2, np.float32)})
    assert np.isnan(buffers["E"]).all() and (buffers["C"] == -128).all() and buffers["F"].all()


ONES = np.ones((8, 4), np.float32)
BAD_BUFFERS: dict[str, tuple[dict[str, np.ndarray[Any, Any]], str]] = {
    "missing": ({}, "input W is missing"),
    "shape": ({"W": np.ones((6, 4), np.float32)}, r"input W is float32\[6, 4\], the program takes float32\[4, 6\]"),
    "dtype": ({"W": np.ones((4, 6), np.float64)}, r"input W is float64\[4, 6\], the program takes float32\[4, 6\]"),
    "output": (
        {"W": np.ones((4, 6), np.float32), "C": np.ones((6, 8), np.float32).T},
        "output C is not contiguous and writable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", BAD_BUFFERS)
def test_buffers_are_checked(fault: str) -> None:
    (executable,) = compile_llvm([parse(MATMUL)])
    given, message = BAD_BUFFERS[fault]
    buffers = {"A": ONES, "C": np.ones((8, 6), np.float32), **given}
    with pytest.raises(BufferMismatch, match=message):
        executable.run(buffers)


def test_bf16_inputs_are_checked() -> None:
    program = parse("in A^{bf16}_2;out C_2;L^2_i[C_i=A_i;]")
    with pytest.raises(BufferMismatch, match="input A holds values that are no bf16 numbers"):
        execute(program, {"A": np.array([1.0, 1.001], np.float32)}, "llvm")


def test_inputs_may_be_read_only_and_strided_and_stay_as_they_are() -> None:
    values = np.arange(64, dtype=np.float32).reshape(8, 8)[:, ::2]
    values.flags.writeable = False
    weights = np.ones((4, 6), np.float32)
    found = execute(parse(MATMUL), {"A": values, "W": weights}, "llvm")["C"]
    np.testing.assert_array_equal(found, values @ weights)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("target", ["llvm", "cuda"])
def test_an_edited_input_shows(dtype: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where arrays are copied to the function too; here a CPU stands in for the GPU."""
    monkeypatch.setattr(tvm, "cuda", tvm.cpu)
    (compiled,) = compile_llvm([parse(f"in A^{{{dtype}}}_4;out C_4;L^4_i[C_i=A_i;A_i=2.0;]")])
    executable = replace(compiled, target=target)
    buffers = executable.new_buffers({"A": np.ones(4, np.float32)})
    executable.run(buffers)
    np.testing.assert_array_equal(buffers["C"], np.ones(4))
    np.testing.assert_array_equal(buffers["A"], np.full(4, 2.0))
    shown = np.ones(4, np.float32)
    shown.flags.writeable = False
    executable.run({**buffers, "A": shown})
    np.testing.assert_array_equal(shown, np.ones(4))


def test_without_a_linker_code_is_made_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _: None)
    found = execute(parse(MATMUL), {"A": ONES, "W": np.ones((4, 6), np.float32)}, "llvm")["C"]
    assert (found == 4).all()


def test_a_failing_linker_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda _: "/bin/false")
    with pytest.raises(LinkError):
        compile_llvm([parse(MATMUL)])


def test_no_file_stays_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    executables = compile_llvm([parse(MATMUL), random_program(1)])
    assert list(tmp_path.iterdir()) == []
    buffers = executables[0].new_buffers({"A": ONES, "W": np.ones((4, 6), np.float32)})
    executables[0].run(buffers)
    assert (buffers["C"] == 4).all()


def test_machine_code_leaves_with_the_last_of_its_functions() -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("code.so")

    before = mapped()
    (executable,) = compile_llvm([parse(MATMUL)])
    function = executable.module[executable.name]
    del executable
    assert mapped() > before
    del function
    assert mapped() == before


def test_products_and_sums_are_rounded_apart() -> None:
    """Inputs whose fused multiply-add differs from the two operations."""
    a = np.float32(1 + 2**-12)
    program = parse("in A_1,D_1;out C_1;L^1_i[C_i=A_i*A_i+D_i;]")
    found = execute(program, {"A": np.array([a]), "D": np.array([-np.float32(a * a)])}, "llvm")["C"]
    assert found[0] == 0 and float(a) * float(a) != float(np.float32(a * a))


def test_function_may_be_lowered_twice() -> None:
    program = parse(MATMUL)
    assert lower(program, "llvm").script() == lower(program, "llvm").script()
