"""Accumulations of integers in another order, or in parts, on numbers as large as their types hold."""

import numpy as np
import pytest

from leir.check import check
from leir.interp import interpret
from leir.lowering import execute
from leir.parser import parse
from leir.syntax import DType, Program
from strategies.base import Applied, Refused
from strategies.catalog import strategy
from tests.programs import keyed

TYPES: dict[DType, type[np.signedinteger]] = {"i8": np.int8, "i32": np.int32, "i64": np.int64}
MOVES = ("loop_reorder", "loop_tiling", "reduction_factorization")
Arrays = dict[str, np.ndarray]


def numbers(dtype: DType, key: str) -> np.ndarray:
    """Numbers of which a few add up to more than the type holds; the row of ones is no product of 0."""
    ends = np.iinfo(TYPES[dtype])
    draw = keyed("integers", dtype, key)
    rows = [
        [draw.choice((ends.max, ends.min, draw.randint(ends.min, ends.max), 3)) for _ in range(12)] for _ in range(6)
    ]
    return np.array([*rows[:5], [1, -1] * 5 + [ends.max, 2]], TYPES[dtype])


def steps(program: Program) -> list[Applied]:
    result: list[Applied] = []
    for name in MOVES:
        for step in strategy(name).candidates(program):
            try:
                result.append(step.apply(program))
            except Refused as refused:
                assert refused.fact.name == "terms-may-be-regrouped" or refused.fact.name == "flow-preserved"
    return result


@pytest.mark.parametrize("dtype", list(TYPES))
@pytest.mark.parametrize("op", ["+=", "*=", " max=", " min="])
def test_every_legal_step_keeps_every_bit(dtype: DType, op: str) -> None:
    program = parse(f"in A^{{{dtype}}}_{{6,12}};out C^{{{dtype}}}_6,D^{{{dtype}}};"
                    f"L^{{6,12}}_{{i,j}}[C_i{op}A_{{i,j}};]L^{{6,12}}_{{i,j}}[D{op}A_{{i,j}};]")  # fmt: skip
    inputs = {"A": numbers(dtype, op)}
    expected = interpret(program, inputs)
    applied = steps(program)
    assert len(applied) > 6 and all(each.bit_exact for each in applied)
    for each in applied:
        assert_same(expected, interpret(each.program, inputs))
    for each in (Applied(program, (), True), applied[0], applied[-1]):
        assert_same(expected, execute(each.program, inputs, "llvm"))


def assert_same(expected: Arrays, found: Arrays) -> None:
    assert all(np.array_equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("value", ["A_{i,j}", "if_then_else(A_{i,j}>5,A_{i,j},-7)", "A_{i,j}>0", "J_{i,j}"])
@pytest.mark.parametrize("op", ["+=", " max="])
def test_values_of_other_types(value: str, op: str) -> None:
    program = parse("in A^{i32}_{6,12},J^{i8}_{6,12};out C^{i8}_6;" + f"L^{{12,6}}_{{j,i}}[C_i{op}{value};]")
    assert not check(program)
    applied = steps(program)
    is_cut = op == " max=" and value in ("A_{i,j}", "if_then_else(A_{i,j}>5,A_{i,j},-7)")
    assert any(len(each.program.body) > 1 for each in applied) != is_cut  # taken in parts
    inputs = {"A": numbers("i32", value), "J": numbers("i8", value)}
    expected = interpret(program, inputs)
    for each in applied:
        assert each.bit_exact
        assert_same(expected, interpret(each.program, inputs))


@pytest.mark.parametrize("dtype", list(TYPES))
def test_a_sum_wraps_around_in_every_execution(dtype: DType) -> None:
    most = int(np.iinfo(TYPES[dtype]).max)
    program = parse(f"in A^{{{dtype}}}_{{2,4}};out C^{{{dtype}}}_2,D^{{{dtype}}};"
                    "L^2_iL^4_j[C_i+=A_{i,j};]L^4_j[D+=A_{1,j}*2-1;]D+=-1;")  # fmt: skip
    inputs = {"A": np.array([[most, most, -most, -most], [most, 1, 1, 0]], TYPES[dtype])}
    found = interpret(program, inputs)
    assert found["C"].tolist() == [0, -most] and found["D"] == -3
    assert_same(found, execute(program, inputs, "llvm"))
