"""Answers that are remembered: each program is asked about once, and none gets another's answer."""

from functools import lru_cache

from leir.edit import dtypes, storage
from leir.parser import parse_source
from leir.remembered import remembered
from leir.syntax import Program

_TEXT = "in A_4;out C_4; L^4_i[T_i=A_i;] L^4_i[C_i=T_i;]"


def program() -> Program:
    return parse_source(_TEXT).program


def test_a_program_is_asked_about_once_and_an_equal_one_anew() -> None:
    asked: list[Program] = []

    @remembered
    def count(of: Program) -> int:
        asked.append(of)
        return len(asked)

    first, equal = program(), program()
    assert [count(first), count(first), count(equal), count(first)] == [1, 1, 2, 1]
    assert asked[0] is first and asked[1] is equal


def test_forgetting_reaches_the_cache_below() -> None:
    answers = iter((1, 2))

    @remembered
    @lru_cache(maxsize=4)
    def answer(_: Program) -> int:
        return next(answers)

    of = program()
    assert (answer(of), answer(program())) == (1, 1)
    answer.cache_clear()
    assert answer(of) == 2


def test_what_a_caller_does_with_the_types_of_tensors_stays_with_the_caller() -> None:
    of = program()
    dtypes(of).clear()
    storage(of).clear()
    assert dtypes(of) == {"A": "f32", "C": "f32", "T": "f32"}
    assert list(storage(of)) == ["A", "C", "T"]
