"""The GPU baseline of a source: one loop of each nest bound, and nothing else changed."""

import pytest

from leir.check import check
from leir.lowering import cuda_source
from leir.parser import parse
from leir.printer import to_text
from stepTP.verify.measure.baseline import bound_outermost


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # up to 1,024 iterations are the threads of one block, more are blocks
        ("L^{1024,4}_{i,j}[C_{i,j}=A_{i,j}*2.0;]", "B^{1024}_{tx}L^4_j[C_{tx,j}=A_{tx,j}*2.0;]"),
        ("L^{1025,4}_{i,j}[C_{i,j}=A_{i,j}*2.0;]", "B^{1025}_{bx}L^4_j[C_{bx,j}=A_{bx,j}*2.0;]"),
        # the outermost loop carries a dependence: the next one in, and the host runs the outer
        ("L^{6,4}_{i,j}[D_j+=A_{i,j};]L^{6,4}_{i,j}[C_{i,j}=D_j;]",
         "L^6_iB^4_{tx}[D_{tx}+=A_{i,tx};]\\nB^6_{tx}L^4_j[C_{tx,j}=D_j;]"),
        # a nest without an independent loop stays one thread
        ("L^{6,4}_{i,j}[D+=A_{i,j};]L^{6,4}_{i,j}[C_{i,j}=D;]",
         "L^{6,4}_{i,j}[D+=A_{i,j};]\\nB^6_{tx}L^4_j[C_{tx,j}=D;]"),
        # what a nest binds itself stays as it is
        ("B^6_{bx}L^4_j[D_{bx,j}=A_{bx,j};]L^{6,4}_{i,j}[C_{i,j}=D_{i,j};]",
         "B^6_{bx}L^4_j[D_{bx,j}=A_{bx,j};]\\nB^6_{tx}L^4_j[C_{tx,j}=D_{tx,j};]"),
        # a thread's own temporary goes with it
        ("L^6_i[R^{f32,l};R=0.0;L^4_j[R=R+A_{i,j}*A_{i,j};]L^4_j[C_{i,j}=R;]]",
         "B^6_{tx}[R^{f32,l};R=0.0;L^4_j[R+=A_{tx,j}*A_{tx,j};]L^4_j[C_{tx,j}=R;]]"),
    ],
)  # fmt: skip
def test_the_outermost_independent_loop_is_bound(before: str, after: str) -> None:
    rows = next((n for n in ("1024", "1025") if n in before), "6")
    head = f"in A_{{{rows},4}};out C_{{{rows},4}};\n"
    program = bound_outermost(parse(head + before))
    assert to_text(program) == head + after.replace("\\n", "\n") + "\n"
    assert not check(program)
    assert "threadIdx" in (source := cuda_source(program)) or "blockIdx" in source
    assert bound_outermost(program) == program
