"""The lowering for `cuda`: its source, and what its threads do, run by a GPU in Python that objects to races."""

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tvm_ffi

from leir.arrays import array_type
from leir.check import check
from leir.interp import interpret
from leir.lowering import CudaCompileError, cuda, cuda_source, kernels, lower, parameters, poison_value
from leir.parser import parse
from leir.syntax import Path as TreePath
from leir.syntax import Program, Stmt
from tests.leir.gpu_simulation import Objection, simulate
from tests.leir.lowering_cases import APPROXIMATE, EXACT, inputs_of
from tests.leir.test_lowering import Arrays, assert_agrees
from tests.programs import random_inputs, random_program

RANDOM_PROGRAMS = 80

MATMUL = (
    "in A_{8,16},W_{16,8};out C_{8,8};"
    "B^{2,2}_{by,bx}[S^{f32,s}_{4,5};T^{f32,s}_{4,5};R^{f32,l}_{4,4};"
    "L^4_k[B^{4,4}_{ty,tx}[S_{ty,tx}=A_{by*4+ty,k*4+tx};T_{ty,tx}=W_{k*4+ty,bx*4+tx};]"
    "B^{4,4}_{ty,tx}L^4_m[R_{ty,tx}+=S_{ty,m}*T_{m,tx};]]"
    "B^{4,4}_{ty,tx}[C_{by*4+ty,bx*4+tx}=R_{ty,tx};]]"
)

PROGRAMS: dict[str, str] = {
    "tiled product": MATMUL,
    "product in registers, staged by vectors": (
        "in A_{32,16},W_{16,32};out C_{32,32};"
        "B^{1,1}_{by,bx}[S^{f32,s}_{8,36};T^{f32,s}_{8,36};R^{f32,l}_{4,4,8,8};"
        "B^{4,4}_{ty,tx}U^{8,8}_{u,v}[R_{ty,tx,u,v}=0.0;]"
        "L^2_k[B^{4,4}_{ty,tx}[G^{f32,l}_{16};"
        "U^4_cV^4_e[G_{c*4+e}=A_{by*32+(ty*4+tx)*2+c//2,k*8+c%2*4+e};]"
        "U^2_aU^8_d[S_{d,(ty*4+tx)*2+a}=G_{a*8+d};]"
        "U^4_cV^4_e[T_{(ty*4+tx)//2,(ty*4+tx)%2*16+c*4+e}=W_{k*8+(ty*4+tx)//2,bx*32+(ty*4+tx)%2*16+c*4+e};]]"
        "B^{4,4}_{ty,tx}U^8_m[F^{f32,l}_8;H^{f32,l}_8;"
        "U^2_aV^4_e[F_{a*4+e}=S_{m,ty*8+a*4+e};]U^2_aV^4_e[H_{a*4+e}=T_{m,a*16+tx*4+e};]"
        "U^{8,8}_{u,v}[R_{ty,tx,u,v}+=F_u*H_v;]]]"
        "B^{4,4}_{ty,tx}U^{8,2}_{u,w}V^4_e[C_{by*32+ty*8+u,bx*32+w*16+tx*4+e}=R_{ty,tx,u,w*4+e};]]"
    ),
    "softmax with trees": (
        "in A_{4,64};out C_{4,64};"
        "B^4_{bx}[S^{f32,s}_8;Q^{f32,s}_8;R^{f32,l}_{8,8};"
        "B^8_{tx}[M^{f32,l};U^2_kV^4_e[R_{tx,k*4+e}=A_{bx,k*32+tx*4+e};]U^8_k[M max=R_{tx,k};]S_{tx}=M;]"
        "B^4_{tx}[S_{tx}=max(S_{tx},S_{tx+4});]B^2_{tx}[S_{tx}=max(S_{tx},S_{tx+2});]S_0=max(S_0,S_1);"
        "B^8_{tx}[Z^{f32,l};N^{f32,l};N=S_0;U^8_k[R_{tx,k}=exp(R_{tx,k}-N);]U^8_k[Z+=R_{tx,k};]Q_{tx}=Z;]"
        "B^4_{tx}[Q_{tx}=Q_{tx}+Q_{tx+4};]B^2_{tx}[Q_{tx}=Q_{tx}+Q_{tx+2};]Q_0=Q_0+Q_1;"
        "B^8_{tx}[Y^{f32,l};Y=Q_0;U^2_kV^4_e[C_{bx,k*32+tx*4+e}=R_{tx,k*4+e}/Y;]]]"
    ),
    "attention, running": (
        "in A_{8,4},D_{16,4},E_{16,4};out C_{8,4};"
        "B^2_{bx}[K^{f32,s}_{4,5};S^{f32,s}_{4,4};M^{f32,l}_{4,2};Z^{f32,l}_4;O^{f32,l}_{4,4};"
        "B^4_{tx}[M_{tx,0}=-1e30;Z_{tx}=0.0;L^4_d[O_{tx,d}=0.0;]]"
        "L^4_n[B^4_{ty}[L^4_d[K_{d,ty}=D_{n*4+ty,d};]]"
        "B^{4,4}_{tx,ty}[X^{f32,l};L^4_d[X+=A_{bx*4+tx,d}*K_{d,ty};]S_{tx,ty}=X*0.5;]"
        "B^4_{tx}[M_{tx,1}=M_{tx,0};L^4_j[M_{tx,1}=max(M_{tx,1},S_{tx,j});]"
        "Z_{tx}=Z_{tx}*exp(M_{tx,0}-M_{tx,1});L^4_d[O_{tx,d}=O_{tx,d}*exp(M_{tx,0}-M_{tx,1});]"
        "L^4_j[G^{f32,l};G=exp(S_{tx,j}-M_{tx,1});Z_{tx}=Z_{tx}+G;L^4_d[O_{tx,d}=O_{tx,d}+G*E_{n*4+j,d};]]"
        "M_{tx,0}=M_{tx,1};]]"
        "B^4_{tx}L^4_d[C_{bx*4+tx,d}=O_{tx,d}/Z_{tx};]]"
    ),
    "phases of different extents and axes": (
        "in A_{4,6};out C_{4,6},D_4;"
        "B^4_{bx}[S^{f32,s}_{6};B^6_{tx}[S_{tx}=A_{bx,tx};]B^{3}_{ty}[S_{ty+3}=S_{ty}*2.0;]"
        "B^{2,3}_{ty,tx}[C_{bx,ty*3+tx}=S_{ty*3+tx};]D_{bx}=S_5;]"
    ),
    "phases from other first values": (
        "in A_8;out C_8;B^1_{bx}[S^{f32,s}_8;B^8_{tx}[S_{tx}=A_{tx};]B^4_{tx=2}[S_{tx}=S_{tx}*2.0;]"
        "B^8_{tx}[C_{tx}=S_{tx};]]"
    ),
    "one thread, between phases": (
        "in A_{4,8};out C_{4,8};B^4_{bx}[S^{f32,s}_8;T^{f32,s};B^8_{tx}[S_{tx}=A_{bx,tx};]"
        "T=0.0;L^8_i[T=T+S_i;]B^8_{tx}[C_{bx,tx}=S_{tx}/8-T;]]"
    ),
    "guard around phases that reads shared memory": (
        "in A_{4,8};out C_{4,8};B^4_{bx}[S^{f32,s}_8;T^{f32,s}_8;B^8_{tx}[S_{tx}=A_{bx,tx};C_{bx,tx}=0.0;]"
        "(S_0>0.0)[B^8_{tx}[T_{tx}=S_{tx}*2.0;]B^8_{tx}[C_{bx,tx}=T_{7-tx};]]]"
    ),
    "host loops and guards": (
        "in A_{4,8};out C_{4,8};L^4_k(k%2==0)[B^2_{bx}B^4_{tx}[C_{k,bx*4+tx}=A_{k,bx*4+tx};]]"
        "U^2_kB^8_{tx}[C_{k*2+1,tx}=A_{k*2+1,tx}+C_{k*2,tx};]"
    ),
    "sums filled in blocks": (
        "in A_{6,40};out C_6,D_{6,8};B^6_{bx}[S^{f32,s}_8;B^8_{tx}[L^5_k[S_{tx}+=A_{bx,tx*5+k};]]C_{bx}=0.0;"
        "L^8_i[C_{bx}+=S_i;]"
        "B^8_{tx}L^5_k[D_{bx,tx} max=A_{bx,k*8+tx};]]"
    ),
    "shared sums over an outer loop": (
        "in A_{6,40};out C_{6,8};B^6_{bx}[S^{f32,s}_{9};L^5_kB^8_{tx}[S_{tx}+=A_{bx,k*8+tx};]"
        "B^8_{tx}[C_{bx,tx}=S_{7-tx};]]"
    ),
    "local sums over an outer loop": (
        "in A_{6,40};out C_{6,8};B^6_{bx}[R^{f32,l}_{8,2};L^5_kB^8_{tx}[R_{tx,k%2}+=A_{bx,k*8+tx};]"
        "B^8_{tx}[C_{bx,tx}=R_{tx,0}-R_{tx,1};]]"
    ),
    "blocks of fewer than the kernel": (
        "in A_{4,8};out C_{4,8};B^4_{by}[B^2_{bx}B^4_{tx}[C_{by,bx*4+tx}=A_{by,bx*4+tx};]]"
    ),
    "whole fill of a global tensor": (
        "in A_{10};out C_{3,5};D^{f32,g}_{4,300};L^{10}_i(i<9)[D_{i%4,i}+=A_i;]L^{3,5}_{i,j}[D_{i,j}+=1.0;"
        "C_{i,j}=D_{i,j};]"
    ),
    "tail": "in A_{10};out C_{10};B^3_{bx}B^4_{tx}(bx*4+tx<10)[C_{bx*4+tx}=A_{bx*4+tx};]",
    "second kernel reads what the first wrote": "in A_8;out C_8;B^8_{bx}[D_{bx}=A_{bx};]B^8_{bx}[C_{bx}=D_{7-bx};]",
}


def run(program: Program, inputs: Arrays) -> Arrays:
    """Every buffer after a simulated run from poison."""
    buffers = {
        tensor.name: inputs[tensor.name].copy()
        if tensor.role == "input"
        else np.full(tensor.shape, poison_value(tensor.dtype), array_type(tensor.dtype))
        for tensor in parameters(program)
    }
    with np.errstate(all="ignore"):
        simulate(lower(program, "cuda"), buffers)
    return buffers


def drawn(program: Program) -> Arrays:
    return random_inputs(program, "kernels")  # type: ignore[return-value]


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    program = parse(PROGRAMS[name])
    assert check(program) == ()
    inputs = drawn(program)
    assert_agrees(run(program, inputs), interpret(program, inputs), exact="exp" not in PROGRAMS[name])


@pytest.mark.parametrize("name", [*EXACT, *APPROXIMATE])
def test_clause(name: str) -> None:
    program = parse({**EXACT, **APPROXIMATE}[name])
    inputs = inputs_of(program)
    assert_agrees(run(program, inputs), interpret(program, inputs), exact=name in EXACT)


@pytest.mark.parametrize("start", range(0, RANDOM_PROGRAMS, 20))
def test_random_programs(start: int) -> None:
    for seed in range(start, start + 20):
        program = random_program(seed)
        inputs: dict[str, np.ndarray[Any, Any]] = random_inputs(program, seed)  # type: ignore[assignment]
        assert_agrees(run(program, inputs), interpret(program, inputs), exact=False)


@pytest.mark.parametrize(
    "name", ["tiled product", "softmax with trees", "attention, running", "one thread, between phases"]
)
def test_every_barrier_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any one of them the threads race."""
    program = parse(PROGRAMS[name])
    inputs = drawn(program)
    placed = kernels.barriers
    count = cuda_source(program).count("__syncthreads")
    assert count >= 2
    for left_out in range(count):

        def fewer(
            kernel: Stmt, path: TreePath, shared: frozenset[str], left_out: int = left_out
        ) -> frozenset[TreePath]:
            places = placed(kernel, path, shared)
            return places - {sorted(places)[left_out]}

        monkeypatch.setattr(kernels, "barriers", fewer)
        with pytest.raises(Objection, match="race"):
            run(program, inputs)


def test_source_of_a_tiled_product() -> None:
    assert cuda_source(parse(MATMUL)) == (Path(__file__).parent / "tiled_product.cu").read_text()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_barrier_stands_in_a_condition_of_threads(name: str) -> None:
    conditions: list[bool] = []
    for line in cuda_source(parse(PROGRAMS[name])).splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        conditions = conditions[:depth]
        if "__syncthreads" in line:
            assert not any(conditions), line
        conditions += [False] * (depth - len(conditions)) + ["if (" in line and "threadIdx" in line]


def source_lines(text: str) -> list[str]:
    return [line.strip() for line in cuda_source(parse(text)).splitlines()]


VECTORS = {
    "float4 to and from global memory": ("in A_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e}*2.0;]", "float4"),
    "float2": ("in A_{64};out C_{64};B^{32}_{tx}V^2_e[C_{tx*2+e}=A_{tx*2+e};]", "float2"),
    "double2": ("in A^{f64}_{64};out C^{f64}_{64};B^{32}_{tx}V^2_e[C_{tx*2+e}=A_{tx*2+e}+1;]", "double2"),
    "eight f16 as one word": ("in A^{f16}_{64};out C^{f16}_{64};B^8_{tx}V^8_e[C_{tx*8+e}=A_{tx*8+e};]", "uint4"),
    "a scalar is spread": ("in A_{64},D_{16};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e}-D_{tx};]", "float4"),
    "an accumulation": ("in A_{64};out C_{16};B^4_{tx}L^4_kV^4_e[C_{tx*4+e}+=A_{k*16+tx*4+e};]", "float4"),
    "rows whose stride is aligned": (
        "in A_{8,12};out C_{8,12};B^8_{tx}L^3_kV^4_e[C_{tx,k*4+e}=A_{tx,k*4+e};]",
        "float4",
    ),
    "through // and %": ("in A_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx//4*16+tx%4*4+e}=A_{tx*4+e};]", "float4"),
}
SERIAL = {
    "rows whose stride is not aligned": "in A_{8,10};out C_{8,10};B^8_{tx}L^2_kV^4_e[C_{tx,k*4+e}=A_{tx,k*4+e};]"
    "B^8_{tx}L^2_e[C_{tx,8+e}=A_{tx,8+e};]",
    "an unaligned base": "in A_{65};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e+1};]",
    "a stride of two": "in A_{128};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{(tx*4+e)*2};]",
    "backwards": "in A_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+3-e};]",
    "four doubles": "in A^{f64}_{64};out C^{f64}_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e};]",
    "three lanes": "in A_{48};out C_{48};B^{16}_{tx}V^3_e[C_{tx*3+e}=A_{tx*3+e};]",
    "two dtypes": "in A^{f16}_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e};]",
    "a guard": "in A_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=0.0;]"
    "B^{16}_{tx}V^4_e(tx*4+e<62)[C_{tx*4+e}=A_{tx*4+e};]",
    "the lane as a value": "in A_{64};out C_{64};B^{16}_{tx}V^4_e[C_{tx*4+e}=A_{tx*4+e}+e;]",
    "another first value": "in A_{64};out C_{64};B^{16}_{tx}V^4_{e=1}[C_{tx*4+e-1}=A_{tx*4+e-1};]",
}  # fmt: skip


@pytest.mark.parametrize("name", VECTORS)
def test_becomes_a_vector(name: str) -> None:
    text, vector = VECTORS[name]
    program = parse(text)
    assert check(program) == ()
    stores = [line for line in source_lines(text) if re.match(rf"\*\({vector}\*\)\(C_ptr", line)]
    assert stores, source_lines(text)
    inputs = drawn(program)
    assert_agrees(run(program, inputs), interpret(program, inputs), exact=True)


@pytest.mark.parametrize("name", SERIAL)
def test_stays_serial(name: str) -> None:
    program = parse(SERIAL[name])
    assert check(program) == ()
    assert any(re.match(r"for \(int e = \d", line) for line in source_lines(SERIAL[name]))
    inputs = drawn(program)
    assert_agrees(run(program, inputs), interpret(program, inputs), exact=True)


_HALVES = "in A_8;out C_8;\nL^8_i[D_i=A_i*0.5;"
_OF_THREADS = "in A_{32};out C_{32};\nB^{32}_{tx}[R^{f32,l};S^{f32,l};D_{tx}=tx*0.5;"
_OF_PHASES = """\
in A_{{64}};out C_{{32}};
B^1_{{bx}}[R^{{f32,l}}_{{32}};B^{{32}}_{{tx}}[D_{{tx}}=A_{{tx}}*0.5;R_{{tx}}=A_{{tx+32}};]{}B^{{32}}_{{tx}}[C_{{tx}}=R_{{tx}};]]
"""


@pytest.mark.parametrize(
    "text",
    [
        f"{_HALVES}C_i=if_then_else(A_i>0.0,A_i,D_i);]",
        f"{_HALVES}C_i=exp(if_then_else(A_i>0.0,1.0,if_then_else(A_i<-1.0,max(D_i,0.0),A_i)));]",
        f"{_HALVES}(i<4)[C_i=A_i;](4<=i)[C_i=D_i;]]",
        f"{_HALVES}C_i=A_i;(i<4)[C_i=D_i;]]",
        f"{_HALVES}(A_i>0.0&&D_i<3.0)[C_i=1.0;]]",
        "in A_8;out C_8;\nL^8_i[C_i=if_then_else(i>0,C_{i-1},A_i);]",
        "in A_8,C_8;out D_8;\nL^8_i[D_i=A_i;(C_i>0.0)[D_i+=C_i;]]",
        f"{_OF_THREADS}R=A_{{tx}};S=D_{{tx}};C_{{tx}}=if_then_else(tx<3,exp(R),exp(S));]",
        f"{_OF_THREADS}R=A_{{tx}};S=D_{{tx}};(tx<3)[R=S;]C_{{tx}}=R;]",
        f"{_OF_THREADS}L^2_j(tx<j*8)[R=A_{{tx}};]L^2_{{j=2}}(tx<j*8)[R=D_{{tx}};]C_{{tx}}=R;]",
        f"{_OF_THREADS}R=A_{{tx}};L^8_i[C_{{i*32+tx}}=R;R=D_{{tx}};]]".replace("C_{32}", "C_{256}"),
        _OF_PHASES.format("B^8_{tx}[R_{tx}=D_{tx};]"),
        _OF_PHASES.format("C_{32}=D_0;").replace("out C_{32}", "out C_{33}"),
    ],
)
def test_buffers_are_not_promised_apart_where_a_condition_chooses_among_them(text: str) -> None:
    source = cuda_source(parse(text))
    assert "float*" in source and "__restrict__" not in source


@pytest.mark.parametrize(
    "text",
    [
        f"{_HALVES}C_i=A_i+D_i;]",
        "in A_8;out C_8;\nL^8_i(i<7)[D_i=A_i*0.5;C_i=A_i*D_i;]",
        "in A_8,C_8;out D_8;\nL^8_i[D_i=if_then_else(A_i>0.0,A_i,C_i);]",
        "in A_8;out C_8;\nL^8_i[D^{f32,l};D=A_i*0.5;C_i=if_then_else(A_i>0.0,A_i,D);]",
        "in A_{8,8},C_8;out D_8;\nL^{8,2,5}_{i,j,k}(j*5+k<8)[D_i+=A_{i,j*5+k}*C_{j*5+k};]",
        "in A_{8,8},C_8;out D_8;\nL^8_i[D_i=C_i;L^8_j[D_i+=A_{i,j};]]",
        _OF_PHASES.format("B^{32}_{tx}[E_{tx}=D_{tx}*2.0;]").replace("out C_{32}", "out C_{32},E_{32}"),
    ],
)
def test_buffers_are_promised_apart_elsewhere(text: str) -> None:
    source = cuda_source(parse(text))
    assert source.count("__restrict__") == source.count("_ptr,") + source.count("_ptr)")


def test_each_kernel_makes_its_own_promise() -> None:
    text = f"{_HALVES}C_i=if_then_else(A_i>0.0,A_i,D_i);]\n".replace("out C_8", "out C_8,E_8") + "L^8_i[E_i=C_i+1.0;]"
    chooses, adds = cuda_source(parse(text)).split('extern "C"')[1:]
    assert "__restrict__" not in chooses and adds.count("__restrict__") == 2


def test_unrolled_loops_are_marked() -> None:
    lines = source_lines("in A_{64};out C_{64};B^8_{tx}U^8_k[C_{k*8+tx}=A_{k*8+tx};]")
    assert lines[lines.index("#pragma unroll") + 1] == "for (int k = 0; k < 8; ++k) {"


def test_a_nest_without_blocks_is_a_kernel_of_one_thread() -> None:
    text = lower(parse("in A_8;out C_8;L^8_i[C_i=A_i;]"), "cuda").script()
    assert 'T.launch_thread("blockIdx.x", 1)' in text and 'T.launch_thread("threadIdx.x", 1)' in text


def test_a_whole_fill_is_a_kernel_of_many_threads() -> None:
    text = lower(parse(PROGRAMS["whole fill of a global tensor"]), "cuda").script()
    assert re.search(r'"blockIdx.x", 5\).*\n +threadIdx_x = T.launch_thread\("threadIdx.x", 256\)', text)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("0.1", "0x1.99999ap-4f"), ("1e-10", "0x1.b7cdfep-34f"), ("inf", "CUDART_INF_F"), ("-inf", "-CUDART_INF_F"),
        ("1e39", "CUDART_INF_F"),
    ],
)  # fmt: skip
def test_constants_of_f32_are_exact(value: str, shown: str) -> None:
    assert f" = {shown}" in cuda_source(parse(f"in A_8;out C_8;B^8_{{tx}}[C_{{tx}}={value};]"))


def test_constants_of_f64_are_exact() -> None:
    """TVM prints 15 digits behind the point: a third and anything small would be wrong."""
    source = cuda_source(parse("in A^{f64}_8;out C^{f64}_8;B^8_{tx}[C_{tx}=A_{tx}*(1/3)+0.5;]"))
    assert (
        f"__longlong_as_double((int64_t){np.float64(1 / 3).view(np.int64)})" in source and "0.500000000000000" in source
    )


@pytest.mark.parametrize(
    ("call", "function"),
    [
        ("exp(A_i)", "expf"), ("tanh(A_i)", "tanhf"), ("A_i**0.3", "powf"), ("log(A_i)", "logf"), ("sin(A_i)", "sinf"),
        ("erf(A_i)", "erff"), ("expm1(A_i)", "expm1f"), ("round(A_i)", "nearbyintf"),
    ],
)  # fmt: skip
def test_functions_are_the_precise_ones(call: str, function: str) -> None:
    source = cuda_source(parse(f"in A_8;out C_8;L^8_i[C_i={call};]"))
    assert f" {function}(" in source and "__" + function not in source


def nvcc_is_here() -> bool:
    try:
        return subprocess.run(["nvcc", "--version"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not nvcc_is_here(), reason="needs nvcc")
@pytest.mark.parametrize("contraction", [False, True])
def test_source_compiles_without_tvms_headers(contraction: bool) -> None:
    texts = [
        *PROGRAMS.values(),
        *EXACT.values(),
        *APPROXIMATE.values(),
        *SERIAL.values(),
        *(t for t, _ in VECTORS.values()),
    ]
    functions = [lower(parse(text), "cuda", name=f"program_{number}") for number, text in enumerate(texts)]
    source = cuda.device_source(functions)
    assert cuda.compile_source(source, "sm_90", contraction=contraction)[:4] == b"\x7fELF"


class Nvrtc:
    """Notes the options that it is given."""

    nvrtcResult = type("nvrtcResult", (), {"NVRTC_SUCCESS": 0})

    def __init__(self, version: tuple[int, int]) -> None:
        self.version, self.options = version, list[bytes]()

    def nvrtcVersion(self) -> tuple[int, int, int]:
        return (0, *self.version)

    def nvrtcCreateProgram(self, *_: object) -> tuple[int, int]:
        return 0, 0

    def nvrtcCompileProgram(self, _: int, count: int, options: list[bytes]) -> tuple[int]:
        assert count == len(options)
        self.options = options
        return (0,)

    def nvrtcGetCUBINSize(self, _: int) -> tuple[int, int]:
        return 0, 3

    def nvrtcGetCUBIN(self, *_: object) -> None:
        pass

    def nvrtcDestroyProgram(self, _: int) -> None:
        pass


@pytest.mark.parametrize(
    ("version", "quickly", "has_it"), [((13, 0), True, True), ((12, 9), True, False), ((13, 0), False, False)]
)
def test_only_values_are_compiled_quickly(
    version: tuple[int, int], quickly: bool, has_it: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvrtc = Nvrtc(version)
    monkeypatch.setattr(cuda, "import_module", lambda _: nvrtc)
    source = cuda_source(parse("in A_8;out C_8;L^8_i[C_i=A_i;]"))
    assert cuda.compile_source(source, "sm_90", contraction=False, quickly=quickly) == b"   "
    assert (b"--Ofast-compile=mid" in nvrtc.options) == has_it
    assert b"--fmad=false" in nvrtc.options and b"--use_fast_math" not in nvrtc.options


def test_a_source_that_is_refused_is_told_through_tvm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(code: str, architecture: str, **_: bool) -> bytes:
        raise CudaCompileError("no such type", code + architecture)

    monkeypatch.setattr(cuda, "compile_source", refuses)
    monkeypatch.setattr(cuda.tvm, "cuda", lambda _: SimpleNamespace(exist=True, compute_version="9.0"))
    monkeypatch.setattr(
        cuda, "translate_kernels", lambda *_: tvm_ffi.get_global_func("tvm_callback_cuda_compile")("text ")
    )
    with pytest.raises(CudaCompileError, match="no such type") as error:
        cuda.compile_quickly([])
    assert error.value.source == "text sm_90"


def test_compiler_errors_name_their_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.shutil, "which", lambda *_, **__: "/bin/false")
    with pytest.raises(CudaCompileError) as error:
        cuda.compile_source(cuda_source(parse("in A_8;out C_8;L^8_i[C_i=A_i;]")), "sm_90", contraction=False)
    assert "main_kernel" in error.value.source
