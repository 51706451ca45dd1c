"""Sentences and evidence of strategies agree with both programs, in number and grammar, where that is easily lost."""

import re

import pytest

from leir.parser import parse
from stepTP.narrate.call import parse_call
from strategies.base import usable
from strategies.catalog import parse_step

ROWS = """in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_i+=A_{i,j};]
L^{4,8}_{i,j}[C_{i,j}=A_{i,j}-D_i;]
"""
TWO = """in A_{4,8};out C_{4,8};
L^{4,8}_{i,j}[D_{i,j}=A_{i,j}*A_{i,j};]
L^{4,8}_{i,j}[E_{i,j}=A_{i,j}*A_{i,j};]
L^{4,8}_{i,j}[C_{i,j}=D_{i,j}+E_{i,j};]
"""
ATTENTION = """in A_{4,10,16},C_{4,10,16},D_{4,10,16};out F_{4,10,16};
L^{4,10,10,16}_{i,j,k,l}[G_{i,j,k}+=A_{i,j,l}*C_{i,k,l};]
L^{4,10,10}_{i,j,k}[I_{i,j,k}=G_{i,j,k}*0.25;]
L^{4,10,10}_{i,j,k}[K_{i,j} max=I_{i,j,k};]
L^{4,10,10}_{i,j,k}[M_{i,j}+=exp(I_{i,j,k}-K_{i,j});]
L^{4,10,10}_{i,j,k}[J_{i,j,k}=exp(I_{i,j,k}-K_{i,j})/M_{i,j};]
L^{4,10,16,3,4}_{i,j,k,l,n}(l*4+n<10)[F_{i,j,k}+=J_{i,j,l*4+n}*D_{i,l*4+n,k};]
"""
CASES = [
    (ROWS, 'cache_read_write(path=(1,0), tensor="D", scope="l", side="read")',
     ["it need not come from", "touches one element of D at [i]", "can hold it."], ["they need", "from [i] on"]),
    (ROWS, 'cache_read_write(path=(1,0), tensor="A", scope="l", side="read")',
     ["can hold them.", "from [i, 0] on"], ["hold it."]),
    (ROWS, "loop_split(path=(0,0), factor=3)", ["only 2 of its 3 iterations"], ["of them: the guard"]),
    (ROWS, 'reduction_factorization(path=(0,0), tensor="D", parts=2)',
     ["D_i is the same however its terms are grouped, but for rounding"], ["may be regrouped"]),
    (ROWS.replace("+=", " max="), 'tensor_split_to_decouple_operators(path=(0), axis="j", at=3)',
     ["and D is made of both", "D_i is the same however its terms are grouped"], ["copies bring", "but for rounding"]),
    (ROWS, 'loop_binding(path=(1), kind="bx")', ["none reads what another writes, so results"], ["barrier"]),
    (ROWS, 'loop_binding(path=(1), kind="tx")', ["a barrier stands between, so results"], ["none reads"]),
    (ROWS, 'layout_transformation(at=1, tensor="A", op="split", axis=1, by=4)',
     ["becomes (e//4, e%4), which no other index does", "; a tensor has at most"], ["another order"]),
    (TWO, 'tensor_concat_to_fuse_operators(path=(0), other=(1), axis="")',
     ["take the results out"], ["before and after", "joint operands"]),
    (TWO, 'set_storage_layout(tensor="D", op="merge", axis=0, by=8)', ["same 128 bytes, in another layout"],
     ["another order"]),
    (TWO.replace("D_{i,j}+E_{i,j}", "D_{i,j}*1.0"), 'cancellation(path=(2,0,0), within=(1), of="1.0")',
     ["may differ"], ["roundings differ"]),
    (ATTENTION, "flashattention_wo_tiling(path=(5), block=1)", ["J, I and G are read for this sum"],
     ["12 scores", "12 terms", "and G is read"]),
    (ATTENTION.replace("3,4}_{i,j,k,l,n}(l*4+n<10)", "10}_{i,j,k,l}").replace("l*4+n", "l"),
     "flashattention_wo_tiling(path=(5), block=0)", ["10 scores", "10 terms"], []),
]  # fmt: skip


@pytest.mark.parametrize(("text", "step", "said", "unsaid"), CASES)
def test_what_is_said_of_a_step(text: str, step: str, said: list[str], unsaid: list[str]) -> None:
    before = parse(text)
    taken = parse_step(parse_call(step).model_dump())
    applied = taken.apply(before)
    terms = taken.terms(before, applied.program)
    evidence = [fact.evidence for fact in applied.facts]
    found = "\n".join(
        [*evidence, *(s for part in (taken.choice, taken.change, taken.effect) for s in usable(part, terms))]
    )
    assert [part for part in said if part not in found] == [], found
    assert [part for part in unsaid if part in found] == [], found
    assert not re.search(r"\b1 \w+ (?:are|have)\b|\bthere is \d{2,}", found)


def test_an_access_stands_for_all_that_are_written_like_it() -> None:
    text = """in A_{8,4};out C_{8,4};
L^{1,4}_{i,j}[H_{i,j}=A_{i,j};]
L^{7,4}_{i,j}[H_{i+1,j}=A_{i+1,j};]
L^{8,4}_{i,j}[C_{i,j}=H_{i,j};]
"""
    before = parse(text)
    taken = parse_step(parse_call('set_storage_layout(tensor="H", op="split", axis=0, by=4)').model_dump())
    terms = taken.terms(before, taken.apply(before).program)
    assert (terms["access"], terms["new_access"]) == ("H_{i+1,j}", "H_{(i+1)//4,(i+1)%4,j}")
