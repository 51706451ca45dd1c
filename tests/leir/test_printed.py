"""The reader of printed lines reads what Lark reads, and leaves everything else to it."""

import random

import pytest

from leir.parser import ParseError, parse_source
from leir.printed import printed_signature, printed_statements
from leir.printer import to_text
from leir.syntax import DEPTH_LIMIT, Stmt
from tests.leir.examples import EXAMPLES
from tests.programs import random_text

SIGNATURE = "in A_{4,4},D_4;out C_4;"
CHARACTERS = "".join(sorted(set("".join(EXAMPLES.values())) - {"\n", "#"})) + "&|!e"


def by_lark(line: str) -> tuple[Stmt, ...] | None:
    try:
        return parse_source(SIGNATURE + line).program.body
    except ParseError:
        return None


@pytest.mark.parametrize("text", [*EXAMPLES.values(), *map(random_text, range(40))], ids=lambda text: text[-20:])
def test_reads_every_printed_line_as_lark_does(text: str) -> None:
    program = parse_source(text).program
    signature, *lines = to_text(program).splitlines()
    assert printed_signature(signature) == (program.inputs, program.outputs)
    assert [printed_statements(line) for line in lines] == [(statement,) for statement in program.body]


@pytest.mark.parametrize(
    "value",
    [
        "-D_i**2.0", "D_i**-2.0**A_{i,0}", "(D_i**2.0)**2.0", "1.0-2.0-3.0", "1.0-(2.0-3.0)", "i//2%3*4", "2e-05+inf",
        "if_then_else(!i<3&&i>1||i==2,1.0,cast(f16,i))", "!!(i<3)", "--i", "max(D_i,min(1.0,D_{i}))", "i<(1<2)",
    ],
)  # fmt: skip
def test_binds_as_lark_does(value: str) -> None:
    line = f"P^4_iL^{{2,3}}_{{j=1,kk}}(i<3)[T^{{i64,l}}_{{2,3}};C_i max={value};];D+=C_0;"
    assert printed_statements(line) is not None
    assert printed_statements(line) == by_lark(line)


@pytest.mark.parametrize(
    "line",
    [
        "", "C_i=D_i", "C_ij=D_i;", "C_i==D_i;", "C_i=1<2<3;", "C_i=(i==!i);", "C_i=D_i D_i;", "C_i=1.;", "C_i=1e999;",
        "C_i=9223372036854775808;", "C_i=exp;", "C_i=exp(1,2);", "C_i=f16;", "C_i=D_{};", "C_i=();", "C_i max =1;",
        "L^4_i[];", "L^0_i[C_i=1;]", "L^12_i[C_i=1;]", "L^{4,5}_i[C_i=1;]", "L^4_{exp}[C_i=1;]", "T^{f32,s}_{i};",
        "C^{f32,g}_i=D_i;", "C_i=D^{f32,g}_i;", "C_i=1;#", "C_i=\t1;", "C_i=1;]", "L=1;", "C_i=L;", "C_i-=1;",
    ],
)  # fmt: skip
def test_leaves_other_text_to_lark(line: str) -> None:
    assert printed_statements(line) is None


@pytest.mark.parametrize(
    "line", ["in A_4;out C_4", "in A_4;out ;", "in A_i;out C_4;", "in A_4;out C_4;C=1;", "A_4;C_4;"]
)
def test_leaves_other_signatures_to_lark(line: str) -> None:
    assert printed_signature(line) is None


@pytest.mark.parametrize("seed", range(60))
def test_never_reads_a_line_otherwise_than_lark(seed: int) -> None:
    """Printed lines with a few characters changed, most of them wrong."""
    draw = random.Random(seed)
    for line in random_text(seed).splitlines()[1:]:
        characters = list(line)
        for _ in range(draw.choice((1, 1, 2))):
            at = draw.randrange(len(characters))
            characters[at : at + draw.choice((0, 1))] = draw.choice(CHARACTERS)
        changed = "".join(characters)
        found = printed_statements(changed)
        assert found is None or found == by_lark(changed), changed


def test_nesting_beyond_the_limit_is_left_to_lark() -> None:
    for terms in (DEPTH_LIMIT, DEPTH_LIMIT + 1):
        line = f"C_0={'+'.join(['D_0'] * terms)};"
        assert printed_statements(line) == by_lark(line)
        line = f"C_{{{'+'.join(['0'] * terms)}}}=D_0;"
        assert printed_statements(line) == by_lark(line)
        assert (printed_statements(line) is None) == (terms > DEPTH_LIMIT - 1)
    for many in (10, 10_000):
        line = f"C_0={'(' * many}D_0{')' * many};"
        assert printed_statements(line) in (None, by_lark(line))
    assert printed_statements(f"C_0={'-' * 10_000}D_0;") is None
    assert printed_statements("(1<2)[" * 10_000 + "C_0=1;" + "]" * 10_000) is None
