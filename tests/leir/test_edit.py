"""Paths, walks, replacement."""

import pytest

from leir import edit
from leir.parser import parse, parse_expression
from leir.printer import to_text
from leir.syntax import Access, Alloc, Equation, Guard, Integer, Loop, Place, Variable
from tests.programs import random_program

PROGRAM = parse("""
    in A_{4,4},D_4;out C_4;
    T^{f32,g}_4;
    L^{4,4}_{i,j}(j<i)[T_i+=A_{i,j}*D_j;]
    L^4_i[C_i=T_i;C_i max=0.0;]
""")


def test_paths_count_every_level_and_every_statement() -> None:
    found = {path: type(statement) for path, statement in edit.walk(PROGRAM)}
    assert found == {
        (0,): Alloc, (1,): Loop, (1, 0): Loop, (1, 0, 0): Guard, (1, 0, 0, 0): Equation, (2,): Loop,
        (2, 0): Equation, (2, 1): Equation,
    }  # fmt: skip
    for path, statement in edit.walk(PROGRAM):
        assert edit.statement_at(PROGRAM, path) is statement
        assert edit.has_statement(PROGRAM, path)


@pytest.mark.parametrize("path", [(), (3,), (-1,), (0, 0), (2, 2), (1, 0, 0, 0, 0)])
def test_no_statement_there(path: tuple[int, ...]) -> None:
    assert not edit.has_statement(PROGRAM, path)
    with pytest.raises(LookupError):
        edit.statement_at(PROGRAM, path)


def test_replace_insert_remove() -> None:
    extra = parse("in A;out C;C=1;").body[0]
    one = edit.replace_at(PROGRAM, (2, 0), extra)
    assert to_text(one).endswith("L^4_i[C=1;C_i max=0.0;]\n")
    none = edit.replace_at(PROGRAM, (2, 0))
    assert to_text(none).endswith("L^4_i[C_i max=0.0;]\n")
    two = edit.replace_at(PROGRAM, (2, 1), extra, extra)
    assert to_text(two).endswith("L^4_i[C_i=T_i;C=1;C=1;]\n")
    before = edit.insert_at(PROGRAM, (2, 2), extra)
    assert to_text(before).endswith("L^4_i[C_i=T_i;C_i max=0.0;C=1;]\n")
    assert edit.insert_at(PROGRAM, (0,), extra).body[0] == extra
    deep = edit.replace_at(PROGRAM, (1, 0, 0, 0), extra)
    assert "(j<i)[C=1;]" in to_text(deep)
    assert to_text(PROGRAM).count("C=1;") == 0
    for wrong in ((2, 3), (4,)):
        with pytest.raises(LookupError):
            edit.insert_at(PROGRAM, wrong, extra)
    with pytest.raises(ValueError, match="empty"):
        edit.replace_at(PROGRAM, (1, 0, 0, 0))


def test_enclosing() -> None:
    around = edit.enclosing(PROGRAM, (1, 0, 0, 0))
    assert [path for path, _ in around] == [(1,), (1, 0), (1, 0, 0)]


def test_places_reach_every_expression() -> None:
    for place, expression in edit.walk_places(PROGRAM):
        assert edit.expression_at(PROGRAM, place) is expression
        assert edit.replace_expression_at(PROGRAM, place, expression) == PROGRAM
    place = Place((1, 0, 0, 0), (1, 1, 0))
    assert edit.expression_at(PROGRAM, place) == Variable("j")
    changed = edit.replace_expression_at(PROGRAM, place, parse_expression("3-j"))
    assert "T_i+=A_{i,j}*D_{3-j};" in to_text(changed)
    condition = edit.replace_expression_at(PROGRAM, Place((1, 0, 0), (0, 1)), Integer(2))
    assert "(j<2)" in to_text(condition)
    for wrong in (Place((1,), (0,)), Place((0,), (0,)), Place((2, 0), (2,)), Place((2, 0), ()), Place((2, 0))):
        with pytest.raises(LookupError):
            edit.expression_at(PROGRAM, wrong)
    with pytest.raises(ValueError, match="an access"):
        edit.replace_expression_at(PROGRAM, Place((2, 0), (0,)), Integer(1))


def test_a_replacement_keeps_equations_in_their_one_form() -> None:
    changed = edit.replace_expression_at(PROGRAM, Place((2, 0), (1,)), parse_expression("C_i+T_i"))
    assert "C_i+=T_i;" in to_text(changed)


def test_storage() -> None:
    program = parse("in A^{i8}_4;out C^{f64}_4;L^4_i[S^{f16,l};S=A_i;T_i=S;C_i=T_i;]")
    assert edit.storage(program) == {"A": ("i8", "g"), "C": ("f64", "g"), "S": ("f16", "l"), "T": ("f64", "g")}


def test_identity_rewrites_change_nothing() -> None:
    for seed in range(50):
        program = random_program(seed)
        for path, statement in edit.walk(program):
            assert edit.replace_at(program, path, statement) == program
            assert edit.map_statement(statement, lambda e: e) == statement


def test_lists_of_statements() -> None:
    assert edit.statements_at(PROGRAM, ()) == PROGRAM.body
    assert edit.statements_at(PROGRAM, (1, 0)) == (edit.statement_at(PROGRAM, (1, 0, 0)),)
    assert edit.body_of(edit.statement_at(PROGRAM, (0,))) == ()


def test_accesses_stand_outside_first_and_subscripts_count() -> None:
    gather = Access("A", (Access("D"),))
    assert list(edit.accesses(gather)) == [gather, Access("D")]


def test_walks_of_a_program_are_each_from_its_first_statement_on() -> None:
    program = random_program(3)
    once, first = edit.walk(program), edit.walk(program)
    assert next(first)[0] == (0,)
    found = list(once)
    assert [path for path, _ in found] == sorted(path for path, _ in found)
    assert all(edit.statement_at(program, path) is statement for path, statement in found)
    below = [((4, *path), statement) for path, statement in found]
    assert list(edit.walk(program, (4,))) == below
    assert list(edit.walk(program)) == found


def test_what_surrounds_a_path_that_leads_nowhere() -> None:
    program = parse("in A_4;out C_4;L^4_i[C_i=A_i;]")
    with pytest.raises(LookupError, match=r"no statement at \(0, 3\)"):
        edit.enclosing(program, (0, 3, 0))
    assert edit.enclosing(program, (7,)) == ()
