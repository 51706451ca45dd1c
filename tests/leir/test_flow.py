"""The flow of values compared: steps that keep it, steps that do not, and what the difference says."""

import pytest

from leir.analysis.flow import FlowDifference, Origin, flow_difference
from leir.parser import parse, parse_expression
from leir.syntax import Path

SIGNATURE = "in A_{64,128},W_{128,32},X_{32};out C_{64,32};"
PRODUCT = "L^{64,32,128}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};]"
BIAS = "L^{64,32}_{i,j}[C_{i,j}=D_{i,j}+X_j;]"
MATMUL = SIGNATURE + PRODUCT + BIAS


def origin(path: Path, *values: str, reads: bool = True) -> Origin:
    return Origin(path, tuple(parse_expression(value) for value in values), reads)


def difference(before: str, after: str, correspondence: dict[Path, Origin | None], **more) -> FlowDifference | None:
    return flow_difference(parse(before), parse(after), correspondence, **more)


def code(found: FlowDifference | None) -> str | None:
    return found and found.code


def test_a_program_flows_like_itself_without_any_correspondence():
    assert difference(MATMUL, MATMUL, {}) is None


def test_fusion_with_the_reduction_inside_keeps_the_flow():
    fused = SIGNATURE + "L^{64,32}_{i,j}[L^{128}_k[D_{i,j}+=A_{i,k}*W_{k,j};]C_{i,j}=D_{i,j}+X_j;]"
    pairs = {(0, 0, 0, 0): origin((0, 0, 0, 0), "i", "j", "k"), (0, 0, 1): origin((1, 0, 0), "i", "j")}
    assert difference(MATMUL, fused, pairs) is None


def test_an_equation_pulled_into_the_reduction_runs_more_often():
    fused = SIGNATURE + "L^{64,32,128}_{i,j,k}[D_{i,j}+=A_{i,k}*W_{k,j};C_{i,j}=D_{i,j}+X_j;]"
    pairs = {(0, 0, 0, 0): origin((0, 0, 0, 0), "i", "j", "k"), (0, 0, 0, 1): origin((1, 0, 0), "i", "j")}
    found = difference(MATMUL, fused, pairs)
    assert found is not None and found.code == "instances-differ"
    assert found.message == "C_{i,j}=D_{i,j}+X_j at i=0, j=0 runs twice"


def test_a_reader_moved_before_its_writer_is_named_with_both_writers():
    pairs = {(1, 0, 0, 0): origin((0, 0, 0, 0), "i", "j", "k"), (0, 0, 0): origin((1, 0, 0), "i", "j")}
    found = difference(MATMUL, SIGNATURE + BIAS + PRODUCT, pairs)
    assert found is not None and found.code == "writer-differs"
    assert found.message == (
        "D_{i,j} in C_{i,j}=D_{i,j}+X_j at i=0, j=0, the element D_{0,0}, is written by "
        "D_{i,j}+=A_{i,k}*W_{k,j} at i=0, j=0, k=127 before the step, and by nothing after it"
    )


@pytest.mark.parametrize(
    ("header", "subscript", "expected"),
    [
        ("L^{64,32,16,8}_{i,j,k,l}", "k*8+l", None),
        ("L^{64,32,19,7}_{i,j,k,l}(k*7+l<128)", "k*7+l", None),
        ("L^{64,32,19,7}_{i,j,k,l}(k*7+l<127)", "k*7+l", "instances-differ"),
        ("L^{64,32,18,7}_{i,j,k,l}", "k*7+l", "instances-differ"),
        ("L^{64,32,17,8}_{i,j,k,l}", "k*8+l", "instances-differ"),
        ("L^{64,32,8,16}_{i,j,k,l}", "l*8+k", "writer-differs"),
    ],
)
def test_a_split_reduction(header: str, subscript: str, expected: str | None):
    after = f"{SIGNATURE}{header}[D_{{i,j}}+=A_{{i,{subscript}}}*W_{{{subscript},j}};]{BIAS}"
    path = (0, 0, 0, 0, 0, 0) if "(" in header else (0, 0, 0, 0, 0)
    assert code(difference(MATMUL, after, {path: origin((0, 0, 0, 0), "i", "j", subscript)})) == expected


def test_a_wrong_subscript_of_an_input_is_found():
    after = SIGNATURE + "L^{64,32,16,8}_{i,j,k,l}[D_{i,j}+=A_{i,k*8+l}*W_{k*8,j};]" + BIAS
    pairs = {(0, 0, 0, 0, 0): origin((0, 0, 0, 0), "i", "j", "k*8+l")}
    assert code(difference(MATMUL, after, pairs)) == "expression-differs"


def test_an_equal_subscript_written_otherwise_is_accepted():
    after = SIGNATURE + "L^{64,32,16,8}_{i,j,k,l}[D_{i,j}+=A_{i,l+8*k}*W_{(k+1)*8+l-8,j};]" + BIAS
    assert difference(MATMUL, after, {(0, 0, 0, 0, 0): origin((0, 0, 0, 0), "i", "j", "k*8+l")}) is None


def test_an_output_written_at_another_element_is_found():
    after = SIGNATURE + PRODUCT + "L^{64,32}_{i,j}[C_{i,31-j}=D_{i,j}+X_j;]"
    found = difference(MATMUL, after, {(1, 0, 0): origin((1, 0, 0), "i", "j")})
    assert found is not None and found.code == "writer-differs" and "at the end C_{0,0}" in found.message


def test_two_reduction_loops_swap_only_where_order_is_free():
    before = "in A_{64,128,4};out C_{64};L^{64,128,4}_{i,k,l}[C_i+=A_{i,k,l};]"
    after = "in A_{64,128,4};out C_{64};L^{64,4,128}_{i,l,k}[C_i+=A_{i,k,l};]"
    pairs: dict[Path, Origin | None] = {(0, 0, 0, 0): origin((0, 0, 0, 0), "i", "k", "l")}
    assert code(difference(before, after, pairs)) == "writer-differs"
    assert difference(before, after, pairs, unordered=[(0, 0, 0, 0)]) is None


def test_a_free_order_still_needs_every_term_before_the_reader():
    before = "in A_8;out C_8;L^8_i[S+=A_i;C_i=S;]"
    after = "in A_8;out C_8;L^{4,2}_{b,a}[S+=A_{a*4+b};C_{a*4+b}=S;]"
    pairs: dict[Path, Origin | None] = {(0, 0, 0): origin((0, 0), "a*4+b"), (0, 0, 1): origin((0, 1), "a*4+b")}
    assert code(difference(before, after, pairs, unordered=[(0, 0, 0)])) == "writer-differs"


def test_storage_may_change_where_values_do_not():
    local = "in A_{16,512};out C_{16,512};L^{16}_i[M^{f32,l};L^{512}_j[M=A_{i,j}*2.0;C_{i,j}=M;]]"
    row = "in A_{16,512};out C_{16,512};L^{16}_i[M^{f32,l}_{512};L^{512}_j[M_j=A_{i,j}*2.0;C_{i,j}=M_j;]]"
    whole = "in A_{16,512};out C_{16,512};L^{16}_i[L^{512}_j[M_{i,j}=A_{i,j}*2.0;C_{i,j}=M_{i,j};]]"
    inside: dict[Path, Origin | None] = {
        (0, 1, 0): origin((0, 1, 0), "i", "j"),
        (0, 1, 1): origin((0, 1, 1), "i", "j"),
    }
    assert difference(local, row, inside) is None
    outside: dict[Path, Origin | None] = {
        (0, 0, 0): origin((0, 1, 0), "i", "j"),
        (0, 0, 1): origin((0, 1, 1), "i", "j"),
    }
    assert difference(local, whole, outside) is None


def test_a_value_that_crosses_the_new_lifetime_is_found():
    before = "in A_{4,8};out C_{4};L^{4}_i[L^{8}_j[S+=A_{i,j};]C_i=S;]"
    after = "in A_{4,8};out C_{4};L^{4}_i[S^{f32,l};L^{8}_j[S+=A_{i,j};]C_i=S;]"
    pairs: dict[Path, Origin | None] = {(0, 1, 0): origin((0, 0, 0), "i", "j"), (0, 2): origin((0, 1), "i")}
    found = difference(before, after, pairs)
    assert found is not None and found.code == "writer-differs"
    assert found.message.startswith("S in S+=A_{i,j} at i=1, j=0 is written by S+=A_{i,j} at i=0, j=7")


SOFTMAX = """in A_{16,512};out C_{16,512};
    B^{16}_{tx}L^{512}_j[D_{tx} max=A_{tx,j};]
    B^{16}_{tx}L^{512}_j[E_{tx}+=exp(A_{tx,j}-D_{tx});]
    B^{16}_{tx}L^{512}_j[C_{tx,j}=exp(A_{tx,j}-D_{tx})/E_{tx};]"""
ONLINE = """in A_{16,512};out C_{16,512};
    B^{16}_{tx}[M^{f32,l};Z^{f32,l};M=-inf;Z=0.0;
      L^{512}_j[N^{f32,l};N=max(M,A_{tx,j});Z=Z*exp(M-N)+exp(A_{tx,j}-N);M=N;]
      D_{tx}=M;E_{tx}=Z;]
    B^{16}_{tx}L^{512}_j[C_{tx,j}=exp(A_{tx,j}-D_{tx})/E_{tx};]"""


@pytest.mark.parametrize(("last", "expected"), [("511", None), ("510", "writer-differs")])
def test_new_equations_may_store_what_removed_ones_stored(last: str, expected: str | None):
    pairs: dict[Path, Origin | None] = {
        (0, 5): origin((0, 0, 0), "tx", last, reads=False),
        (0, 6): origin((1, 0, 0), "tx", "511", reads=False),
    }
    assert code(difference(SOFTMAX, ONLINE, pairs, removed=[(0, 0, 0), (1, 0, 0)])) == expected
    assert code(difference(SOFTMAX, ONLINE, pairs)) == "instances-differ"


def test_what_a_new_equation_writes_is_not_what_was_read():
    found = difference(SOFTMAX, ONLINE, {}, removed=[(0, 0, 0), (1, 0, 0)])
    assert found is not None and "by the new D_{tx}=M at tx=0 after it" in found.message


def test_scatter_and_gather_flow_for_every_index_they_may_take():
    signature = "in A_{64},I^{i32}_{64};out C_{64};"
    before = signature + "L^{64}_i[T_{I_i}+=A_i;C_i=A_i;]L^{64}_i(I_i>3)[C_i=T_{I_i};]"
    split = signature + (
        "L^{8,8}_{a,b}[T_{I_{a*8+b}}+=A_{a*8+b};C_{a*8+b}=A_{a*8+b};]"
        "L^{8,8}_{a,b}(I_{a*8+b}>3)[C_{a*8+b}=T_{I_{a*8+b}};]"
    )
    pairs: dict[Path, Origin | None] = {
        (0, 0, 0): origin((0, 0), "a*8+b"),
        (0, 0, 1): origin((0, 1), "a*8+b"),
        (1, 0, 0, 0): origin((1, 0, 0), "a*8+b"),
    }
    assert difference(before, split, pairs) is None
    swapped = split.replace("L^{8,8}_{a,b}[", "L^{8,8}_{b,a}[")
    assert code(difference(before, swapped, pairs)) == "writer-differs"
    assert difference(before, swapped, pairs, unordered=[(0, 0, 0)]) is None
    other_guard = split.replace("(I_{a*8+b}>3)", "(I_{a*8+b}>4)")
    assert code(difference(before, other_guard, pairs)) == "expression-differs"


def test_stores_under_an_opaque_guard_keep_their_order():
    before = "in A_8,K^{i32}_8;out C;L^8_i(K_i<3)[C=A_i;]"
    after = "in A_8,K^{i32}_8;out C;L^8_i(K_{7-i}<3)[C=A_{7-i};]"
    assert code(difference(before, after, {(0, 0, 0): origin((0, 0, 0), "7-i")})) == "writer-differs"


def test_a_fill_that_changes_is_found():
    before = "in A_8;out C_8;L^8_i[T_i+=A_i;]L^8_i[T_i max=A_i;]L^8_i[C_i=T_i;]"
    after = "in A_8;out C_8;L^8_i[T_i max=A_i;]L^8_i[T_i+=A_i;]L^8_i[C_i=T_i;]"
    pairs: dict[Path, Origin | None] = {(0, 0): origin((1, 0), "i"), (1, 0): origin((0, 0), "i")}
    assert code(difference(before, after, pairs)) == "writer-differs"
    first = "in A_8;out C_8;L^8_i[T_i+=A_i;]L^8_i[C_i=T_i;]"
    second = "in A_8;out C_8;L^8_i[T_i max=A_i;]L^8_i[C_i=T_i;]"
    assert code(difference(first, second, {(0, 0): origin((0, 0), "i")})) == "expression-differs"


def test_a_correspondence_that_names_nothing_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="no equation"):
        difference(MATMUL, MATMUL, {(0, 0, 0, 0): origin((5,), "i")})
    with pytest.raises(ValueError, match="2 values for the 3 loops"):
        difference(MATMUL, MATMUL, {(0, 0, 0, 0): origin((0, 0, 0, 0), "i", "j")})
