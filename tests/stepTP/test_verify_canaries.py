"""Wrong programs that public evaluators have let pass, each with a correct twin: all refused, all twins accepted.

Every canary is compiled and run. Those in LEIR go past the checker, which would refuse some of them: here the
verification alone must. What LEIR cannot say (editing an input, chance) is a compiled twin with its conduct spoiled.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from leir.lowering import Executable, compile_llvm
from leir.parser import parse
from stepTP.verify.prepare import Trials
from stepTP.verify.run import Conduct, observe
from stepTP.verify.task import SourceKey, prepared_trials

SOFTMAX = (
    "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[D_i max=A_{i,j};]L^{16,32}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,32}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)
MATMUL = (
    "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16,24}_{i,j,k}[F_{i,j}+=A_{i,k}*D_{k,j};]"
    "L^{16,16}_{i,j}[C_{i,j}=F_{i,j}+E_j;]"
)
NORM = (
    "in A_{8,64};out C_{8,64};L^{8,64}_{i,j}[D_i+=A_{i,j};]L^{8,64}_{i,j}[E_i+=(A_{i,j}-D_i/64.0)**2.0;]"
    "L^{8,64}_{i,j}[C_{i,j}=(A_{i,j}-D_i/64.0)/sqrt(E_i/64.0+1e-05);]"
)
RELU = "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[C_{i,j}=max(A_{i,j},0.0);]"
POOL = "in A_{8,40};out C_8;L^{8,40}_{i,j}[C_i max=A_{i,j};]"
TRANSPOSE = "in A_{12,12};out C_{12,12};L^{12,12}_{i,j}[C_{i,j}=A_{j,i};]"

# name: (source, wrong program, correct twin)
WRONG = {
    "zero output": (SOFTMAX, "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[C_{i,j}=0.0;]", SOFTMAX),
    "constant output": (SOFTMAX, "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[C_{i,j}=0.03125;]", SOFTMAX),
    "the input as output": (RELU, "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[C_{i,j}=A_{i,j};]", RELU),
    "output not written": (RELU, "in A_{8,40};out C_{8,40};L^{8,39}_{i,j}[C_{i,j}=max(A_{i,j},0.0);]", RELU),
    "output not written at all": (RELU, "in A_{8,40};out C_{8,40};L^{8,40}_{i,j}[D_{i,j}=max(A_{i,j},0.0);]", RELU),
    "last iteration dropped": (
        MATMUL,
        MATMUL.replace("16,16,24}_{i,j,k}", "16,16,23}_{i,j,k}"),
        MATMUL.replace("L^{16,16,24}_{i,j,k}", "L^{24,16,16}_{k,i,j}"),
    ),
    "first iteration dropped": (
        NORM,
        NORM.replace("L^{8,64}_{i,j}[E_i", "L^{8,63}_{i,j=1}[E_i"),
        NORM.replace("L^{8,64}_{i,j}[E_i", "L^{64,8}_{j,i}[E_i"),
    ),
    "one iteration of a maximum dropped": (
        POOL,
        POOL.replace("8,40}_{i,j}", "8,39}_{i,j}"),
        POOL.replace("L^{8,40}_{i,j}", "L^{40,8}_{j,i}"),
    ),
    "an iteration counted twice": (
        MATMUL,
        MATMUL.replace("L^{16,16}_{i,j}[C", "L^{16,16}_{i,j}[F_{i,j}+=A_{i,0}*D_{0,j};]L^{16,16}_{i,j}[C"),
        MATMUL,
    ),
    "first iteration of a maximum dropped": (
        POOL, POOL.replace("8,40}_{i,j}", "8,39}_{i,j=1}"), POOL.replace("L^{8,40}_{i,j}", "L^{40,8}_{j,i}")
    ),
    "swapped axes of the output": (
        MATMUL, MATMUL.replace("C_{i,j}=F_{i,j}+E_j", "C_{j,i}=F_{i,j}+E_j"), MATMUL
    ),
    "swapped axes of an operand": (MATMUL, MATMUL.replace("+E_j", "+E_i"), MATMUL),
    "not transposed": (
        TRANSPOSE, TRANSPOSE.replace("A_{j,i}", "A_{i,j}"), TRANSPOSE.replace("L^{12,12}_{i,j}", "L^{12,12}_{j,i}")
    ),
    "relative error of 1e-3": (
        SOFTMAX, SOFTMAX.replace("/E_i;", "/E_i*1.001;"), SOFTMAX.replace("/E_i;", "*(1.0/E_i);")
    ),
    "relative error of 1e-3 in one row": (
        MATMUL, MATMUL.replace("=F_{i,j}+E_j", "=(F_{i,j}+E_j)*if_then_else(i==7,1.001,1.0)"), MATMUL
    ),
    "absolute error below 1e-5 in small values": (
        SOFTMAX, SOFTMAX.replace("/E_i;", "/E_i+5e-06;"), SOFTMAX
    ),
    "computed in f16": (
        MATMUL,
        MATMUL.replace("A_{i,k}*D_{k,j}", "cast(f16,A_{i,k})*cast(f16,D_{k,j})"),
        MATMUL.replace("A_{i,k}*D_{k,j}", "cast(f64,A_{i,k})*D_{k,j}"),
    ),
    "sum kept in bf16": (
        MATMUL,
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};F^{bf16,g}_{16,16};L^{16,16,24}_{i,j,k}[F_{i,j}+=A_{i,k}*D_{k,j};]"
        "L^{16,16}_{i,j}[C_{i,j}=F_{i,j}+E_j;]",
        MATMUL,
    ),
    "sum started at one": (
        MATMUL, MATMUL.replace("L^{16,16,24}", "L^{16,16}_{i,j}[F_{i,j}=1.0;]L^{16,16,24}"),
        MATMUL.replace("L^{16,16,24}", "L^{16,16}_{i,j}[F_{i,j}=0.0;]L^{16,16,24}"),
    ),
    "maximum started at zero": (
        POOL, POOL.replace("L^{8,40}", "L^8_i[C_i=0.0;]L^{8,40}"), POOL.replace("L^{8,40}", "L^8_i[C_i=-inf;]L^{8,40}")
    ),
    "sum never started": (
        MATMUL,
        MATMUL.replace("F_{i,j}+=A_{i,k}*D_{k,j}", "F_{i,j}=if_then_else(k<0,0.0,F_{i,j})+A_{i,k}*D_{k,j}"),
        MATMUL.replace("F_{i,j}+=A_{i,k}*D_{k,j}", "F_{i,j}=if_then_else(k==0,0.0,F_{i,j})+A_{i,k}*D_{k,j}"),
    ),
    "a register that is not reset": (
        MATMUL,
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16}_{i,j}[R^{f32,l};L^{24}_k[R=if_then_else(k<0,0.0,R)"
        "+A_{i,k}*D_{k,j};]C_{i,j}=R+E_j;]",
        "in A_{16,24},D_{24,16},E_{16};out C_{16,16};L^{16,16}_{i,j}[R^{f32,l};L^{24}_k[R+=A_{i,k}*D_{k,j};]"
        "C_{i,j}=R+E_j;]",
    ),
    "NaN that a maximum swallows": (
        POOL,
        POOL.replace("L^{8,40}_{i,j}[C_i max=A_{i,j};]", "L^{8,40}_{i,j}[C_i=max(A_{i,j},C_i*1.0);]"),
        POOL,
    ),
    "NaN where the reference has a number": (
        RELU, RELU.replace("max(A_{i,j},0.0)", "sqrt(A_{i,j})*sqrt(A_{i,j})"),
        RELU.replace("max(A_{i,j},0.0)", "(A_{i,j}+abs(A_{i,j}))*0.5"),
    ),
    "softmax without its maximum": (
        SOFTMAX,
        SOFTMAX.replace("A_{i,j}-D_i", "A_{i,j}"),
        SOFTMAX.replace("exp(A_{i,j}-D_i)/E_i", "exp(A_{i,j}-D_i-log(E_i))"),
    ),
    "a maximum over two elements of a row": (
        SOFTMAX,
        SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{16,2}_{i,j}[D_i"),
        SOFTMAX.replace("L^{16,32}_{i,j}[D_i", "L^{32,16}_{j,i}[D_i"),
    ),
    "variance of the wrong mean": (NORM, NORM.replace("[E_i+=(A_{i,j}-D_i/64.0)", "[E_i+=(A_{i,j}-D_i/63.0)"), NORM),
    "epsilon of the wrong size": (NORM, NORM.replace("1e-05", "1e-03"), NORM),
    "leaky instead of plain": (RELU, RELU.replace(",0.0)", ",A_{i,j}*1e-06)"), RELU),
}  # fmt: skip


@cache
def trials(source: str) -> Trials:
    return prepared_trials(SourceKey("canary", "", source, 1, 0))


@cache
def compiled(text: str) -> Executable:
    return compile_llvm([parse(text)], poison=True)[0]


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_program_is_refused_and_its_twin_accepted(name: str) -> None:
    source, wrong, twin = WRONG[name]
    assert observe(compiled(wrong), trials(source).trials).difference.problem is not None
    assert observe(compiled(twin), trials(source).trials).difference.problem is None


class Spoiled:
    """A correct program with something done around each run."""

    def __init__(self, text: str, spoil: Callable[[int, dict[str, Any], Callable[[], None]], None]) -> None:
        self.program, self.spoil, self.runs = compiled(text), spoil, 0

    def new_buffers(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self.program.new_buffers(inputs)

    def run(self, buffers: dict[str, Any]) -> None:
        self.runs += 1
        self.spoil(self.runs, buffers, lambda: self.program.run(buffers))


def edits_input(_: int, buffers: dict[str, Any], run: Callable[[], None]) -> None:
    run()
    buffers["A"][0, 0] = 0.0


def edits_input_and_agrees_with_it(_: int, buffers: dict[str, Any], run: Callable[[], None]) -> None:
    buffers["A"][...] = 0.0
    run()


def keeps_the_output(number: int, _: dict[str, Any], run: Callable[[], None]) -> None:
    if number == 1:
        run()


def loses_a_race(number: int, buffers: dict[str, Any], run: Callable[[], None]) -> None:
    run()
    if number % 2 == 0:
        buffers["C"][3, 5] += 1e-7


def reads_a_temporary_before_writing(_: int, buffers: dict[str, Any], run: Callable[[], None]) -> None:
    before = np.nanmax(np.nan_to_num(buffers["E"]))
    run()
    buffers["C"] += np.float32(before * 1e-40)


LAST: dict[str, Any] = {}


def returns_the_last_output(_: int, buffers: dict[str, Any], run: Callable[[], None]) -> None:
    """Of the draw before: a cache keyed by shape."""
    run()
    now = buffers["C"].copy()
    buffers["C"][...] = LAST.get("C", now)
    LAST["C"] = now


def leaves_it_alone(_: int, __: dict[str, Any], run: Callable[[], None]) -> None:
    run()


@pytest.mark.parametrize(
    "spoil",
    [edits_input, edits_input_and_agrees_with_it, keeps_the_output, loses_a_race, reads_a_temporary_before_writing,
     returns_the_last_output],
)  # fmt: skip
def test_spoiled_conduct_is_refused(spoil: Callable[[int, dict[str, Any], Callable[[], None]], None]) -> None:
    LAST.clear()
    found: Conduct = observe(Spoiled(SOFTMAX, spoil), trials(SOFTMAX).trials)
    assert found.difference.problem is not None
    assert observe(Spoiled(SOFTMAX, leaves_it_alone), trials(SOFTMAX).trials).difference.problem is None


def test_the_reason_names_the_place_and_the_draw() -> None:
    source, wrong, _ = WRONG["output not written"]
    problem = observe(compiled(wrong), trials(source).trials).difference.problem
    assert problem is not None
    assert problem.startswith("C_{0,39} is nan, expected ")
    assert problem.endswith("8 of 320 elements are wrong (inputs normal/0)")
