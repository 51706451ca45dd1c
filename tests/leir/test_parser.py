"""The parser: what it reads, where it says that bad text is bad, and where each part of a program stands."""

import pytest

from leir.edit import expressions, walk, walk_expression
from leir.grammar import snippet
from leir.parser import ParseError, parse, parse_expression, parse_source
from leir.syntax import (
    DEPTH_LIMIT,
    Access,
    Alloc,
    Binary,
    Call,
    Equation,
    Guard,
    Integer,
    Loop,
    Place,
    Real,
    Unary,
    Variable,
)
from tests.leir.examples import EXAMPLES
from tests.programs import random_text


@pytest.mark.parametrize("name", EXAMPLES)
def test_reads_the_examples_of_the_language_page(name: str) -> None:
    program = parse(EXAMPLES[name])
    assert any(isinstance(statement, Equation) for _, statement in walk(program))


SIGNATURE = "in A_{4,4},D_4;out C_4;"

BAD = [
    # text after the signature, column counted from there, what the message says
    ("L^4_i[C_i=$;]", 11, "found '$', expected"),
    ("L^4_i[C_i=1 2;]", 13, "found '2'"),
    ("L^4_i[C_i=2D_i;]", 12, "found 'D'"),
    ("L^4_i[C_i=D_i A_{i,i};]", 15, "found 'A'"),
    ("L^12_i[C_i=D_i;]", 3, "write {12}"),
    ("L^4_ij[C_i=D_i;]", 5, "write {ij}"),
    ("L^4_i[C_ij=D_i;]", 9, "write {ij}"),
    ("L^4_I[C_i=D_i;]", 5, "write {I}"),
    ("L^4_i[C_i=D_I;]", 13, "write {I}"),
    ("L^4_i[C_i=1<2<3;]", 14, "found '<'"),
    ("L^4_i[C_i=(i==!i);]", 15, "found '!'"),
    ("L^4_i[C_i==1;]", 10, "found '=='"),
    ("L^4_i[C_i+ =1;]", 10, "found '+'"),
    ("L^4_i[C_i max =1;]", 11, "found 'max'"),
    ("L^0_i[C_i=D_i;]", 3, "an extent is at least 1"),
    ("D_0;", 1, "an allocation names dtype and scope"),
    ("T^{f32,s}_0;", 11, "a size is at least 1"),
    ("T^{f32,s}_{i};", 12, "the sizes of an allocation are integers"),
    ("T^{f32,s}_{2+2};", 12, "the sizes of an allocation are integers"),
    ("T^{f32,x}_2;", 8, "found 'x', expected a scope"),
    ("T^{f128,s}_2;", 4, "found 'f128', expected a dtype"),
    ("T^{f32,s}_2=1;", 2, "T is f32,g here"),
    ("L^{4,5}_i[C_i=1;]", 1, "2 extents for 1 loop variables"),
    ("L^4_{exp}[C_i=1;]", 6, "found 'exp', expected a loop variable"),
    ("L^4_{i32}[C_i=1;]", 6, "found 'i32', expected a loop variable"),
    ("L^4_{in}[C_i=1;]", 6, "found 'in', expected a loop variable"),
    ("L^4_{inf}[C_i=1;]", 6, "found 'inf', expected a loop variable"),
    ("L^4_i[];", 7, "found ']'"),
    ("L^4_i[C_i=1;", 13, "found the end of the text"),
    ("L^4_i[C_i=1;]]", 14, "found ']'"),
    ("L^4_i[C_i=exp(D_i,1);]", 11, "exp takes 1 argument, found 2"),
    ("L^4_i[C_i=max(D_i);]", 11, "max takes 2 arguments, found 1"),
    ("L^4_i[C_i=if_then_else(1,2);]", 27, "found ')', expected ','"),
    ("L^4_i[C_i=cast(1,2);]", 16, "found '1', expected a dtype"),
    ("L^4_i[C_i=foo(1);]", 14, "found '('"),
    ("L^4_i[C_i=99999999999999999999;]", 11, "does not fit i64"),
    ("L^4_i[C_i=1e999;]", 11, "overflows f64"),
    ("L^4_i[C_i=1.;]", 12, "found '.'"),
    ("L^4_i[C_i=.5;]", 11, "found '.'"),
    ("L^4_i[C_i=é;]", 11, "found 'é'"),
    ("L^4_i[C_i=\u00a0D_i;]", 11, "found the character U+00A0"),
    ("L^4_i[C_i=\x00D_i;]", 11, "found the character U+0000"),
    ("B=1;", 2, "found '='"),
]


@pytest.mark.parametrize(("text", "column", "message"), BAD, ids=[text for text, _, _ in BAD])
def test_bad_text_is_refused_at_its_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"{SIGNATURE}\n{text}", "some.leir")
    error = caught.value
    assert (error.line, error.column) == (2, column)
    assert message in error.reason
    assert str(error) == f"some.leir:2:{column}: {error.reason}"
    assert error.snippet == f"{text}\n{' ' * (column - 1)}^"


SIGNATURES = [
    ("", 1, "expected 'in'"),
    ("\n\n", 1, "expected 'in'"),
    ("in A;", 6, "expected 'out'"),
    ("out C;C=1;", 1, "expected 'in'"),
    ("in A;in C;C=1;", 6, "expected 'out'"),
    ("in L;out C;C=1;", 4, "expected a tensor name"),
    ("in a;out C;C=1;", 4, "expected a tensor name"),
    ("in A_{4;out C;C=1;", 8, "expected ',' or '}'"),
    ("in A_{4,0};out C;C=1;", 9, "a size is at least 1"),
    ("in A_12;out C;C=1;", 6, "write {12}"),
    ("in A;out C;", 12, "found the end of the text"),
    ("in A;out C; # nothing\n\n", 22, "found the end of the text"),
    ("\ufeffin A;out C;C=1;", 1, "the character U+FEFF"),
]


@pytest.mark.parametrize(("text", "column", "message"), SIGNATURES)
def test_bad_signatures_are_refused_at_their_place(text: str, column: int, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (1, column)
    assert message in caught.value.reason


def test_says_what_could_stand_there() -> None:
    with pytest.raises(ParseError) as caught:
        parse(f"{SIGNATURE}L^4_i[C_i=D_i]")
    error = caught.value
    assert error.found == "']'"
    assert {"';'", "'+'", "'**'"} <= set(error.expected)
    assert not {"'='", "a tensor name (upper-case first)"} & set(error.expected)


def test_the_caret_stands_below_the_fault_after_tabs_and_windows_line_ends() -> None:
    with pytest.raises(ParseError) as caught:
        parse("in A;out C;\r\n\tC=\t$;\r\n")
    assert caught.value.snippet == "\tC=\t$;\n\t  \t^"
    assert (caught.value.line, caught.value.column) == (2, 5)


def test_white_space_and_comments_mean_nothing() -> None:
    plain = parse("in A_4;out C_4;L^4_i[C_i=A_i;]")
    assert parse("in A _ 4 ; out C_{ 4 };# of nothing\r\n\tL ^ { 4 } _ { i }\f[ C _ i = A_{i}\n;\n] ;# end") == plain


def test_a_semicolon_may_follow_a_nest() -> None:
    assert parse("in A_4;out C_4;L^4_i[C_i=A_i;];C_0=1;") == parse("in A_4;out C_4;L^4_i[C_i=A_i;]C_0=1;")


def test_grouped_loops_are_nested_loops() -> None:
    program = parse("in A_{2,3};out C_{2,3};L^{2,3}_{i,j=1}(i<j)[C_{i,j-1}=A_{i,j-1};]")
    (loop,) = program.body
    assert isinstance(loop, Loop)
    inner = loop.body[0]
    assert isinstance(inner, Loop)
    assert (loop.variable, loop.extent, loop.first) == ("i", 2, 0)
    assert (inner.variable, inner.extent, inner.first) == ("j", 3, 1)
    assert isinstance(inner.body[0], Guard)
    assert parse("in A_{2,3};out C_{2,3};L^2_i[L^3_{j=1}[(i<j)[C_{i,j-1}=A_{i,j-1};]]]") == program


def test_two_guards_are_not_their_conjunction() -> None:
    head = "in A;out C;"
    assert parse(head + "(1<2)[(2<3)[C=A;]]") != parse(head + "(1<2&&2<3)[C=A;]")


@pytest.mark.parametrize("text", ["in A;out C;U^2_cV^4_e[C=A;]", "in A;out C;U^{2}_{c}V^{4}_{e}[C=A;]"])
def test_a_loop_may_follow_a_subscript_of_one_letter(text: str) -> None:
    (loop,) = parse(text).body
    assert isinstance(loop, Loop)
    assert isinstance(loop.body[0], Loop)
    assert loop.body[0].kind == "V"


EXPRESSIONS = [
    ("1-2-3", Binary("-", Binary("-", Integer(1), Integer(2)), Integer(3))),
    ("1-(2-3)", Binary("-", Integer(1), Binary("-", Integer(2), Integer(3)))),
    ("1+2*3", Binary("+", Integer(1), Binary("*", Integer(2), Integer(3)))),
    ("i//2%3", Binary("%", Binary("//", Variable("i"), Integer(2)), Integer(3))),
    ("-i**2", Unary("-", Binary("**", Variable("i"), Integer(2)))),
    ("(-i)**2", Binary("**", Unary("-", Variable("i")), Integer(2))),
    ("i**-1", Binary("**", Variable("i"), Unary("-", Integer(1)))),
    ("i**j**k", Binary("**", Variable("i"), Binary("**", Variable("j"), Variable("k")))),
    ("-i*j", Binary("*", Unary("-", Variable("i")), Variable("j"))),
    ("--i", Unary("-", Unary("-", Variable("i")))),
    ("i- -j", Binary("-", Variable("i"), Unary("-", Variable("j")))),
    ("!i<j", Unary("!", Binary("<", Variable("i"), Variable("j")))),
    ("!i&&j||k", Binary("||", Binary("&&", Unary("!", Variable("i")), Variable("j")), Variable("k"))),
    ("i<j==0", None),
    ("1", Integer(1)),
    ("1.0", Real(1.0)),
    ("1e-05", Real(1e-05)),
    ("2E5", Real(2e5)),
    ("inf", Real(float("inf"))),
    ("info", Variable("info")),
    ("e", Variable("e")),
    ("f16x", Variable("f16x")),
    ("L1", Access("L1")),
    ("A_{B1_i,0}", Access("A", (Access("B1", (Variable("i"),)), Integer(0)))),
    ("max(1,i)", Call("max", (Integer(1), Variable("i")))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree"), EXPRESSIONS, ids=[text for text, _ in EXPRESSIONS])
def test_precedence_and_atoms(text: str, tree: object) -> None:
    if tree is None:
        with pytest.raises(ParseError):
            parse_expression(text)
    else:
        assert parse_expression(text) == tree


ACCUMULATIONS = [
    ("C_i=C_i+D_i;", "+="),
    ("C_i=D_i+C_i;", "+="),
    ("C_i=C_i*D_i;", "*="),
    ("C_i=max(D_i,C_i);", "max="),
    ("C_i=min(C_i,D_i);", "min="),
    ("C_i=C_i-D_i;", "="),
    ("C_i=C_i+D_i+1.0;", "="),  # (C+D)+1.0
    ("C_i=C_i+(D_i+1.0);", "+="),
    ("C_i=C_i+C_0;", "="),
    ("C_i=C_0+D_i;", "="),
    ("C_i=C_i+C_i;", "="),
    ("C_i=C_i+D_{C_i};", "="),
]


@pytest.mark.parametrize(("text", "op"), ACCUMULATIONS)
def test_reads_accumulations_in_any_spelling(text: str, op: str) -> None:
    program = parse(f"in D_4;out C_4;L^4_i[{text}]")
    (_, _), (_, statement) = walk(program)
    assert isinstance(statement, Equation)
    assert statement.op == op


def test_annotations_repeat_the_declaration_or_are_refused() -> None:
    text = "in A^{f64}_4;out C^{f64}_4;T^{f32,g}_4;L^4_i[T^{f32,g}_i=A^{f64,g}_i;]L^4_i[C^{f64,g}_i=T^{f32,g}_i;]"
    plain = "in A^{f64}_4;out C^{f64}_4;T^{f32,g}_4;L^4_i[T_i=A_i;]L^4_i[C_i=T_i;]"
    assert parse(text) == parse(plain)
    for wrong in (text.replace("T^{f32,g}_i=", "T^{f64,g}_i="), text.replace("=A^{f64,g}", "=A^{f32,g}")):
        with pytest.raises(ParseError, match="here, not"):
            parse(wrong)


def test_every_part_of_a_program_has_its_span() -> None:
    text = "in A_{4,4},D_4;out C_4;\nL^{2,2}_{i,j}(i<j)[C_{i*2+j}=A_{i,\nj}+D_j;]\nT^{f32,g}_4;\n"
    source = parse_source(text, "x.leir")

    def shown(place: Place) -> str:
        span = source.span(place)
        lines = text.split("\n")[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column - 1]
        lines[0] = lines[0][span.column - 1 :]
        return "\n".join(lines)

    assert shown(Place((0,))) == "i"
    assert shown(Place((0, 0))) == "j"
    assert shown(Place((0, 0, 0))) == "(i<j)"
    assert shown(Place((0, 0, 0), (0,))) == "i<j"
    assert shown(Place((0, 0, 0, 0))) == "C_{i*2+j}=A_{i,\nj}+D_j;"
    assert shown(Place((0, 0, 0, 0), (0,))) == "C_{i*2+j}"
    assert shown(Place((0, 0, 0, 0), (0, 0))) == "i*2+j"
    assert shown(Place((0, 0, 0, 0), (1,))) == "A_{i,\nj}+D_j"
    assert shown(Place((0, 0, 0, 0), (1, 0, 1))) == "j"
    assert shown(Place((0, 0, 0, 0), (1, 1))) == "D_j"
    assert shown(Place((1,))) == "T^{f32,g}_4;"
    assert shown(Place(declaration="D")) == "D_4"
    assert shown(Place((0, 0, 0, 0), (1, 1, 9))) == "D_j"  # the nearest that the text shows


@pytest.mark.parametrize("text", ["C_i=C_i+A_i*D_i;", "C_i=A_i*D_i+C_i;", "C_i+=A_i*D_i;"])
def test_the_spans_of_an_accumulation_are_those_of_its_value(text: str) -> None:
    source = parse_source(f"in A_4,D_4;out C_4;L^4_i[{text}]")
    start = source.text.index("A_i*D_i")
    span = source.span(Place((0, 0), (1,)))
    assert (span.line, span.column, span.end_column) == (1, start + 1, start + 8)
    right = source.span(Place((0, 0), (1, 1)))
    assert (right.column, right.end_column) == (start + 5, start + 8)


@pytest.mark.parametrize("seed", range(20))
def test_every_place_of_a_random_program_has_a_span_of_its_own_text(seed: int) -> None:
    source = parse_source(random_text(("spans", seed).__repr__()))
    for path, statement in walk(source.program):
        assert Place(path) in source.spans
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                span = source.spans[Place(path, within)]
                text = source.text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]
                assert span.line == span.end_line
                assert parse_expression(text) == part


def test_nesting_has_a_limit_and_is_never_a_crash() -> None:
    deep = {
        "brackets": "".join(f"L^2_{{a{n}}}[" for n in range(3000)) + "C=1;" + "]" * 3000,
        "header": "".join(f"L^2_{{a{n}}}" for n in range(3000)) + "[C=1;]",
        "minus": "C=" + "-" * 3000 + "1;",
        "sum": "C=" + "+".join(["A"] * 3000) + ";",
        "power": "C=" + "2**" * 3000 + "1;",
        "subscript": "C=" + "A_{" * 3000 + "1" + "}" * 3000 + ";",
    }
    for text in deep.values():
        with pytest.raises(ParseError, match=f"deeper than {DEPTH_LIMIT}"):
            parse(f"in A;out C;{text}")
    assert parse("in A;out C;C=" + "(" * 3000 + "A" + ")" * 3000 + ";").body == parse("in A;out C;C=A;").body
    assert parse("in A;out C;C=" + "+".join(["A"] * DEPTH_LIMIT) + ";").body


def test_large_texts_are_read() -> None:
    assert len(parse("in A;out C;" + "C=A+1;\n" * 2000).body) == 2000


def test_an_allocation_declares_for_the_accesses_after_it() -> None:
    (alloc, _) = parse("in A_4;out C_4;T^{i32,g}_{4,8};C_0=A_0;").body
    assert alloc == Alloc("T", "i32", "g", (4, 8))


def test_a_snippet_of_a_long_line_keeps_its_place() -> None:
    text = "0123456789" * 30
    for column in (1, 49, 51, 150, 290, 300):
        part, caret = snippet(text, 1, column, 100).split("\n")
        assert len(part) <= 100 and part[len(caret) - 1] == text[column - 1]
    assert snippet("ab", 1, 3, 100) == "ab\n  ^"
