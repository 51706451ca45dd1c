"""Costs against numbers counted by hand."""

import pytest

from leir.analysis.cost import NestCost, cost
from leir.analysis.footprint import POINTS, Count
from leir.analysis.strides import stride
from leir.edit import accesses
from leir.parser import parse
from tests.leir.walking import walked
from tests.programs import random_program


def nests(text: str) -> tuple[NestCost, ...]:
    return cost(parse(text)).nests


def traffic(nest: NestCost) -> dict[str, tuple[int, int]]:
    """Accesses and elements of each tensor that is read."""
    return {t.tensor: (t.accesses.value, t.elements.value) for t in nest.reads}


def test_softmax() -> None:
    found = cost(parse(
        "in A_{16,512};out C_{16,512};L^{16,512}_{i,j}[D_i max=A_{i,j};]L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
        "L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
    ))  # fmt: skip
    maximum, total, quotient = found.nests
    assert [n.iterations for n in found.nests] == [Count(8192, True)] * 3
    assert [n.flops.value for n in found.nests] == [8192, 2 * 8192, 2 * 8192]
    assert [n.calls.value for n in found.nests] == [0, 8192, 8192]
    assert traffic(maximum) == {"A": (8192, 8192)}
    assert traffic(total) == {"A": (8192, 8192), "D": (8192, 16)}
    assert [n.bytes_read for n in found.nests] == [32768, 32768 + 64, 32768 + 128]
    assert [n.bytes_written for n in found.nests] == [64, 64, 32768]
    assert [n.parallel_iterations for n in found.nests] == [16, 16, 8192]
    assert [n.independent for n in found.nests] == [((0,),), ((1,),), ((2,), (2, 0))]
    assert quotient.reads[1].reuse == 512
    assert all(n.exact for n in found.nests)
    assert (found.kernels, found.launches, found.iterations, found.flops, found.calls) == (
        3, 3, Count(3 * 8192, True), Count(5 * 8192, True), Count(2 * 8192, True),
    )  # fmt: skip
    assert (found.bytes_read, found.bytes_written) == (3 * 32768 + 192, 32768 + 128)


def test_matmul_is_counted_at_any_size() -> None:
    (nest,) = nests("in A_{4096,2048},W_{2048,1024};out C_{4096,1024};"
                    "L^{4096,1024,2048}_{i,j,k}[C_{i,j}+=A_{i,k}*W_{k,j};]")  # fmt: skip
    assert nest.iterations == Count(2**33, True)
    assert nest.flops == Count(2**34, True)
    assert traffic(nest) == {"A": (2**33, 2**23), "W": (2**33, 2**21)}
    assert (nest.bytes_read, nest.bytes_written) == (4 * (2**23 + 2**21), 4 * 2**22)
    assert nest.reads[0].reuse == 1024
    assert nest.parallel_iterations == 2**22
    assert nest.exact


def test_a_guarded_tail_counts_what_runs() -> None:
    (nest,) = nests("in A_{10};out C_{10};L^{2,8}_{a,b}(a*8+b<10)[C_{a*8+b}=A_{a*8+b}*2.0;]")
    assert (nest.iterations, nest.flops) == (Count(10, True), Count(10, True))
    assert (nest.bytes_read, nest.bytes_written) == (40, 40)


def test_a_convolution_reads_its_overlap_once() -> None:
    (nest,) = nests("in A_{1,2,8,8},W_{3,2,3,3};out C_{1,3,6,6};"
                    "L^{3,6,6,2,3,3}_{f,y,x,c,u,v}[C_{0,f,y,x}+=A_{0,c,y+u,x+v}*W_{f,c,u,v};]")  # fmt: skip
    runs = 3 * 6 * 6 * 2 * 9
    assert traffic(nest) == {"A": (runs, 128), "W": (runs, 54)}
    assert nest.writes[0].elements == Count(108, True)
    assert nest.flops.value == 2 * runs


def test_a_strided_window_skips_elements() -> None:
    (nest,) = nests("in A_{20};out C_{5};L^{5,2}_{i,u}[C_i+=A_{i*4+u};]")
    assert traffic(nest) == {"A": (10, 10)}
    (nest,) = nests("in A_{20};out C_{9};L^{9,3}_{i,u}[C_i+=A_{i*2+u};]")
    assert traffic(nest) == {"A": (27, 19)}


def test_conditions_of_values_guard_accesses_and_work() -> None:
    (nest,) = nests("in A_{8,8};out C_{8,8};L^{8,8}_{i,j}[C_{i,j}=if_then_else(i>0&&j<7,A_{i-1,j+1}*2.0,exp(0.5*i));]")
    assert (nest.flops, nest.calls) == (Count(49 + 15, True), Count(15, True))
    assert traffic(nest) == {"A": (49, 49)}


def test_the_union_of_several_accesses() -> None:
    (nest,) = nests("in A_{10};out C_8;L^8_i[C_i=A_i+A_{i+1}+A_{i+2}+A_i;]")
    assert traffic(nest) == {"A": (32, 10)}
    (nest,) = nests("in A_{8,8};out C_8;L^8_i[C_i=A_{i,i}+A_{i,0};]")
    assert traffic(nest) == {"A": (16, 15)}


def test_what_depends_on_data_is_an_upper_bound() -> None:
    (nest,) = nests("in A_{8,4},I^{i32}_6;out C_{6,4};L^{6,4}_{i,j}[C_{i,j}=A_{min(max(I_i,0),7),j};]")
    read = {t.tensor: t for t in nest.reads}
    assert read["A"].elements == Count(24, False)  # at most one row an i
    assert read["I"].elements == Count(6, True)
    assert not nest.exact
    (nest,) = nests("in A_8,D_8;out C_8;L^8_i[C_i=0.0;(D_i>0.0)[C_i=A_i+1.0;]]")
    assert nest.iterations == Count(16, False)
    assert nest.flops == Count(8, False)
    assert traffic(nest)["D"] == (8, 8)


def test_too_many_points_are_an_upper_bound() -> None:
    (nest,) = nests("in A_{3000000};out C;L^{2000,1500}_{i,j}[C+=A_{i*1500+j};]")
    assert POINTS < 2000 * 1500
    assert nest.reads[0].elements == Count(3_000_000, False)
    assert nest.iterations == Count(3_000_000, True)


def test_types_decide_what_is_work_and_how_large_it_is() -> None:
    (nest,) = nests("in A^{f16}_8,I^{i32}_8;out C^{f64}_8;L^8_i[C_i=A_i*2.0+(I_i+1)*3;]")
    assert nest.flops.value == 16  # the integer sum and product are no flops
    assert (nest.bytes_read, nest.bytes_written) == (8 * 2 + 8 * 4, 8 * 8)


def test_shared_and_local_tensors_are_no_global_traffic() -> None:
    (nest,) = nests("in A_{4,32};out C_{4,32};B^4_{bx}[S^{f32,s}_{32};B^{32}_{tx}[S_{tx}=A_{bx,tx};]"
                    "B^{32}_{tx}[C_{bx,tx}=S_{31-tx};]]")  # fmt: skip
    assert (nest.bytes_read, nest.bytes_written) == (512, 512)
    assert {t.tensor: (t.scope, t.accesses.value, t.elements.value) for t in nest.reads}["S"] == ("s", 128, 32)
    assert nest.independent == ((0,),)
    assert nest.parallel_iterations == 4


def test_kernels_and_launches() -> None:
    found = cost(parse("in A_{4,8};out C_{4,8};D^{f64,g};D=1.0;"
                       "L^3_t[B^8_{tx}[C_{t,tx}=A_{t,tx};]E_t=D;]B^8_{tx}[C_{3,tx}=A_{3,tx};]"))  # fmt: skip
    assert (found.kernels, found.launches) == (4, 1 + 3 + 3 + 1)
    assert [nest.path for nest in found.nests] == [(1,), (2,), (3,)]


@pytest.mark.parametrize("seed", range(30))
def test_counts_agree_with_running_the_loops(seed: int) -> None:
    """Each exact figure of a random program, against a plain walk over its iterations."""
    program = random_program(seed)
    for number, nest in zip((n.path[0] for n in cost(program).nests), cost(program).nests, strict=True):
        runs, read, written = walked(program, number)
        assert nest.iterations.value >= runs
        assert not nest.iterations.exact or nest.iterations.value == runs
        for uses, touched in ((nest.reads, read), (nest.writes, written)):
            for use in uses:
                if use.tensor in touched:
                    accesses, elements = touched[use.tensor]
                    assert not use.elements.exact or use.elements.value == elements, use
                    assert not use.accesses.exact or use.accesses.value == accesses, use


@pytest.mark.parametrize(
    ("access", "expected"),
    [("A_{i,j,k}", 1), ("A_{i,k,j}", 5), ("A_{k,i,j}", 20), ("A_{i,j,i*2+j}", 0), ("A_{i,j,(k-i)*3}", 3),
     ("A_{i,k,4-k}", 4), ("A_{i,k//2,j}", None)],
)  # fmt: skip
def test_strides(access: str, expected: int | None) -> None:
    program = parse(f"in A_{{3,4,5}};out C;L^2_{{i}}L^2_{{j}}L^2_{{k}}[C+={access};]")
    read = next(a for a in accesses(program) if a.tensor == "A")
    assert stride(read, "k", (3, 4, 5)) == expected
