"""The printed form: both laws on random trees in both spellings, and what each spelling looks like."""

import pytest

from leir.parser import parse, parse_expression
from leir.printer import Spelling, expression_text, statement_text, to_text
from leir.syntax import Integer, Real
from tests.leir.examples import EXAMPLES
from tests.programs import random_program, random_tree

SPELLINGS: tuple[Spelling, ...] = ("compact", "full")


def assert_laws(text: str, spelling: Spelling) -> None:
    program = parse(text)
    printed = to_text(program, spelling)
    assert parse(printed) == program
    assert to_text(parse(printed), spelling) == printed


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_keep_both_laws(name: str, spelling: Spelling) -> None:
    assert_laws(EXAMPLES[name], spelling)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_random_trees_keep_both_laws(spelling: Spelling) -> None:
    for seed in range(100):
        tree = random_tree(seed)
        text = to_text(tree, spelling)
        assert parse(text) == tree, seed
        assert to_text(parse(text), spelling) == text, seed


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_random_programs_keep_both_laws(spelling: Spelling) -> None:
    for seed in range(100):
        program = random_program(seed)
        assert parse(to_text(program, spelling)) == program, seed


@pytest.mark.slow
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_two_thousand_random_programs_and_trees_keep_both_laws(spelling: Spelling) -> None:
    for seed in range(1000, 3000):
        for program in (random_program(seed), random_tree(seed)):
            text = to_text(program, spelling)
            assert parse(text) == program, seed
            assert to_text(parse(text), spelling) == text, seed


def test_the_spellings_are_one_program_and_differ() -> None:
    for text in EXAMPLES.values():
        program = parse(text)
        compact, full = to_text(program), to_text(program, "full")
        assert len(compact) < len(full)
        assert parse(compact) == parse(full) == program


def test_compact() -> None:
    program = parse("""
        in A^{f32}_{10,4},K^{i32}_{1},Z;out C_{10};
        D^{f64,g}_{4};
        L^{2}_{a=0}[L^{8}_{b}[L^{4}_{j=1}[((a*8)+b<10)[C_{(a*8+b)}=C_{a*8+b}+A_{a*8+b,j};];]]]
        P^{4}_{i}V^{4}_{x1}[D_{i}=max(D_{i},-1.0);]
        U^{12}_{i}[(1<2)[(2<3)[C_{0}=1;C_{3}=Z;]]]
    """)
    assert to_text(program) == (
        "in A_{10,4},K^{i32}_1,Z;out C_{10};\n"
        "D^{f64,g}_4;\n"
        "L^{2,8,4}_{a,b,j=1}(a*8+b<10)[C_{a*8+b}+=A_{a*8+b,j};]\n"
        "P^4_iV^4_{x1}[D_i max=-1.0;]\n"
        "U^{12}_i(1<2)[(2<3)[C_0=1;C_3=Z;]]\n"
    )


def test_full() -> None:
    program = parse("in A^{f16}_4;out C_4;S^{i32,g};L^4_i(i<3)[C_i+=A_i;C_i max=1.0;]S=2;")
    assert to_text(program, "full") == (
        "in A^{f16}_{4};out C^{f32}_{4};\n"
        "S^{i32,g};\n"
        "L^{4}_{i=0}(i<3)[C^{f32,g}_{i}=C^{f32,g}_{i}+A^{f16,g}_{i};C^{f32,g}_{i}=max(C^{f32,g}_{i},1.0);]\n"
        "S^{i32,g}=2;\n"
    )


def test_full_keeps_an_accumulation_whose_value_reads_its_target() -> None:
    program = parse("in A;out C_4;L^4_i[C_i+=C_0;]")
    assert "C^{f32,g}_{i}+=C^{f32,g}_{0};" in to_text(program, "full")


TEXTS = [
    "1", "1.0", "1e-05", "200000.0", "1e+22", "inf", "-1", "-inf", "a-(b-c)", "a-b-c", "a/(b*c)", "a/b*c", "(a+b)*c",
    "-a**2", "(-a)**2", "a**-b", "a**b**c", "(a**b)**c", "-(a+b)", "--a", "a- -b", "!(a&&b)", "!a&&b", "(!a)==b",
    "a==(b<c)", "(a<b)==c", "a&&(b||c)", "a&&b||c", "a||b||c", "a||(b||c)", "a//b%c", "a%(b//c)",
    "if_then_else(a<b,A_a,A_{b,c})", "cast(bf16,a+b)", "max(a,min(b,c))", "exp(-abs(a))", "A_{B1_{a+1},0}",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_parentheses_stand_only_where_needed(text: str) -> None:
    shown = expression_text(parse_expression(text))
    assert shown == text.replace("- -", "--")


def test_floats_print_as_python_does() -> None:
    assert expression_text(Real(1e22)) == "1e+22"
    assert expression_text(Real(0.1)) == "0.1"
    assert expression_text(Real(5e-324)) == "5e-324"
    assert expression_text(Integer(2**63 - 1)) == "9223372036854775807"


def test_a_text_is_that_of_its_own_expression_whatever_was_printed_before() -> None:
    for number in (1, 1.0, 1, 1.0):
        literal = Integer(number) if isinstance(number, int) else Real(number)
        assert expression_text(literal) == str(number)


def test_statements_print_alone() -> None:
    program = parse("in A_4;out C_4;L^4_i[C_i=A_i;]")
    assert statement_text(program.body[0]) == "L^4_i[C_i=A_i;]"
    assert statement_text(program.body[0], program, "full") == "L^{4}_{i=0}[C^{f32,g}_{i}=A^{f32,g}_{i};]"
