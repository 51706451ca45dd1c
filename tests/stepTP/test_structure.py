"""Structures: equal up to names and sizes, and in nothing else."""

import pytest

from leir.parser import parse
from stepTP.structure import structure, structure_of_step, without_sizes

PLAIN = "in A_{4,8},C_8;out D_4;L^{4,8}_{i,j}[T_{i,j}=A_{i,j}*C_j;]L^{4,8}_{i,j}[D_i+=T_{i,j}/8.0;]"


@pytest.mark.parametrize(
    "same",
    [
        PLAIN.replace("8", "6"),
        PLAIN.replace("T", "T7").replace("j", "m"),
        "in X_8,Y_{4,8};out Z_4;L^{4,8}_{a,b}[S0_{a,b}=Y_{a,b}*X_b;]L^{4,8}_{a,b}[Z_a+=S0_{a,b}/8.0;]",
    ],
)
def test_names_and_sizes_do_not_count(same: str) -> None:
    assert structure(parse(same)) == structure(parse(PLAIN))
    assert structure_of_step("s", parse(PLAIN), parse(same)) == structure_of_step("s", parse(same), parse(PLAIN))


@pytest.mark.parametrize(
    "other",
    [
        PLAIN.replace("*", "+"),
        PLAIN.replace("+=", " max="),
        PLAIN.replace("L^{4,8}_{i,j}[T", "P^{4,8}_{i,j}[T"),
        PLAIN.replace("C_j", "A_{i,j}"),
        PLAIN.replace("in A_", "in A^{f16}_"),
    ],
)
def test_all_else_counts(other: str) -> None:
    assert structure(parse(other)) != structure(parse(PLAIN))
    assert structure_of_step("s", parse(PLAIN), parse(other)) != structure_of_step("s", parse(PLAIN), parse(PLAIN))


def test_the_strategy_is_part_of_a_step() -> None:
    program = parse(PLAIN)
    assert structure_of_step("s", program, program) != structure_of_step("t", program, program)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("in A1^{f32}_{16,512};out C;", "in A1^{f32}_{#,#};out C;"),
        ("L^8_i[C_i=1e-05*A_i+2.5;]", "L^#_i[C_i=#*A_i+#;]"),
    ],
)
def test_sizes_are_masked_and_names_are_not(text: str, masked: str) -> None:
    assert without_sizes(text) == masked
