"""Canonical names, and the identity of a state."""

import pytest

from leir.canonical import canonical, state_id
from leir.interp import interpret
from leir.names import rename_tensors
from leir.parser import parse
from leir.printer import to_text
from tests.programs import random_inputs, random_program, random_tree

BASE = "in A_{4,4};out C_4;L^{4,4}_{i,j}[D_i+=A_{i,j};]L^4_i[C_i=D_i;]"

SAME = [
    "in A_{4,4};out C_4;L^{4,4}_{x,y}[D_x+=A_{x,y};]L^4_z[C_z=D_z;]",
    "in A_{4,4};out C_4;L^{4,4}_{j,i}[E9_j=E9_j+A_{j,i};]L^4_j[C_j=E9_j;]",
    "in A_{4,4};out C_4;L^4_iL^4_j[Q_i=A_{i,j}+Q_i;]L^4_{i=0}[C_i=Q_i;];# comment",
]
DIFFERENT = [
    "in A_{4,4};out C_4;L^{4,4}_{i,j}[D_j+=A_{i,j};]L^4_i[C_i=D_i;]",
    "in A_{4,4};out C_4;P^4_iL^4_j[D_i+=A_{i,j};]L^4_i[C_i=D_i;]",
    "in A_{4,4};out C_4;L^{4,4}_{i,j}[D_i+=A_{i,j};]L^4_i[C_i=D_i+0;]",
    "in B1_{4,4};out C_4;L^{4,4}_{i,j}[D_i+=B1_{i,j};]L^4_i[C_i=D_i;]",
    "in A_{4,4};out C_4;D^{f32,g}_4;L^{4,4}_{i,j}[D_i+=A_{i,j};]L^4_i[C_i=D_i;]",
    "in A_{4,4};out C_4;L^{4,4}_{i,j=1}[D_i+=A_{i,j-1};]L^4_i[C_i=D_i;]",
]


@pytest.mark.parametrize("text", SAME)
def test_names_do_not_matter(text: str) -> None:
    assert state_id(parse(text)) == state_id(parse(BASE))
    assert canonical(parse(text)) == canonical(parse(BASE))


@pytest.mark.parametrize("text", DIFFERENT)
def test_everything_else_does(text: str) -> None:
    assert state_id(parse(text)) != state_id(parse(BASE))


def test_the_canonical_text() -> None:
    program = parse("in A_4,T1_4;out C_4;B^2_{bxq}B^2_{tx}[S^{f32,l};S=A_{bxq*2+tx};C_{bxq*2+tx}=S;]L^4_n[Q_n=T1_n;]")
    assert to_text(canonical(program)) == (
        "in A_4,T1_4;out C_4;\n"
        "B^{2,2}_{bx0,tx1}[T0^{f32,l};T0=A_{bx0*2+tx1};C_{bx0*2+tx1}=T0;]\n"
        "L^4_{i0}[T2_{i0}=T1_{i0};]\n"
    )


def test_the_identity_is_a_fixed_digest() -> None:
    digest = "95db1d19be98ab881adb1c5e739a883304306d344a6d05ce61289982db6c6642"
    assert state_id(parse("in A;out C;L^2_k[C=A;]")) != digest
    assert state_id(parse("in A;out C;C=A;")) == digest


def test_canonical_is_idempotent_and_reads_back() -> None:
    for seed in range(50):
        for program in (random_program(seed), random_tree(seed)):
            once = canonical(program)
            assert canonical(once) == once, seed
            assert parse(to_text(once)) == once, seed


def test_canonical_keeps_the_meaning() -> None:
    for seed in range(40):
        program = random_program(seed)
        inputs = random_inputs(program, seed)
        before, after = interpret(program, inputs), interpret(canonical(program), inputs)
        assert all((before[name] == after[name]).all() for name in before), seed


def test_renaming_temporaries_keeps_the_identity() -> None:
    for seed in range(60):
        program = random_program(seed)
        signature = {d.tensor for d in (*program.inputs, *program.outputs)}
        names = [name for name in ("A", "C", "D", "E", "F", "G", "H", "I", "J", "K") if name not in signature]
        renamed = rename_tensors(program, dict(zip(names, [f"{name}77" for name in names], strict=True)))
        assert state_id(renamed) == state_id(program), seed
