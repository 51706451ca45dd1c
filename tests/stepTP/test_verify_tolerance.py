"""The error bounds: every legal way to round stays inside, and they are tight enough to be of use."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from leir.interp import interpret
from leir.parser import parse
from leir.syntax import Program
from stepTP.verify.analysis import analyse
from stepTP.verify.elements import Bounded
from stepTP.verify.formats import FORMATS, rounded
from stepTP.verify.inputs import generator
from stepTP.verify.tolerance import literal
from tests.programs import random_inputs, random_program

F32 = np.float32
MATMUL = "in A_{8,96},W_{96,8};out C_{8,8};L^{8,8,96}_{i,j,k}[C_{i,j}+=A_{i,k}*W_{k,j};]"
SOFTMAX = (
    "in A_{16,64};out C_{16,64};L^{16,64}_{i,j}[D_i max=A_{i,j};]L^{16,64}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,64}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)


def normal(key: str, *shape: int) -> np.ndarray:
    return generator("test", key).standard_normal(shape).astype(F32)


def bounds(text: str, **inputs: np.ndarray) -> Bounded:
    program = parse(text)
    wide = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
    (result,) = analyse(program, wide).values()
    return result


def elementwise(expression: str, dtype: str = "f32", **inputs: np.ndarray) -> Bounded:
    size = len(next(iter(inputs.values())))
    declared = ",".join(f"{name}^{{{dtype}}}_{{{size}}}" for name in inputs)
    return bounds(f"in {declared};out C^{{{dtype}}}_{{{size}}};L^{{{size}}}_i[C_i={expression};]", **inputs)


def excess(result: Bounded, found: np.ndarray) -> float:
    """The largest error as a part of the bound."""
    error = np.abs(found.astype(np.float64) - result.value)
    return max((e / b if b else np.inf for e, b in zip(error.flat, result.error.flat, strict=True) if e), default=0.0)


def sequential(terms: np.ndarray) -> np.ndarray:
    total = np.zeros(terms.shape[:-1], F32)
    for index in range(terms.shape[-1]):
        total = total + terms[..., index]
    return total


def compensated_worst(terms: np.ndarray) -> np.ndarray:
    """The order that loses most: the large first, then the small ones one by one."""
    return sequential(np.take_along_axis(terms, np.argsort(-np.abs(terms), axis=-1), axis=-1))


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in order": sequential,
    "backwards": lambda terms: sequential(terms[..., ::-1]),
    "large first": compensated_worst,
    "small first": lambda terms: sequential(np.sort(terms, axis=-1)),
    "eight partial sums": lambda terms: sequential(sequential(terms.reshape(*terms.shape[:-1], 8, -1))),
    "pairs": lambda terms: terms.sum(axis=-1, dtype=F32),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("data", ["normal", "positive", "constant", "wide"])
def test_a_sum_in_any_order_is_within_its_bound(order: str, data: str) -> None:
    a, w = normal("a", 8, 96), normal("w", 96, 8)
    if data == "positive":
        a, w = np.abs(a), np.abs(w)
    elif data == "constant":
        a, w = np.full_like(a, 0.1), np.full_like(w, 0.3)
    elif data == "wide":
        a = (a * np.exp2(generator("wide").randint(-12, 12, a.shape))).astype(F32)
    result = bounds(MATMUL, A=a, W=w)
    products = a[:, None, :] * w.T[None, :, :]
    assert excess(result, ORDERS[order](products)) <= 1.0


def test_the_bound_of_a_sum_is_not_far_off() -> None:
    a, w = np.full((8, 96), 0.1, F32), np.full((96, 8), 0.3, F32)
    result = bounds(MATMUL, A=a, W=w)
    assert excess(result, sequential(a[:, None, :] * w.T[None, :, :])) > 0.1


def online_softmax(a: np.ndarray) -> np.ndarray:
    maximum, total = np.full(a.shape[0], -np.inf, F32), np.zeros(a.shape[0], F32)
    with np.errstate(invalid="ignore"):
        for column in a.T:
            new = np.maximum(maximum, column)
            total = total * np.where(maximum == new, F32(1), np.exp(maximum - new)) + np.exp(column - new)
            maximum = new
    return np.exp(a - maximum[:, None]) / total[:, None]


@pytest.mark.parametrize("rows", ["random", "rising", "falling", "equal", "far apart"])
def test_an_online_softmax_is_within_the_bound_of_the_plain_one(rows: str) -> None:
    a = normal("softmax", 16, 64)
    if rows in ("rising", "falling"):
        a = np.sort(a, axis=1)[:, :: 1 if rows == "rising" else -1]
    elif rows == "equal":
        a = np.full_like(a, 0.3)
    elif rows == "far apart":
        a = a * F32(30)
    result = bounds(SOFTMAX, A=a)
    assert excess(result, online_softmax(a)) <= 1.0
    assert np.max(result.error / result.value) < 1e-4 or rows == "far apart"


def test_small_integers_have_no_error() -> None:
    a, w = generator("a").randint(-3, 4, (8, 96)).astype(F32), generator("w").randint(-3, 4, (96, 8)).astype(F32)
    result = bounds(MATMUL, A=a, W=w)
    assert not result.error.any()
    assert np.array_equal(result.value, a @ w)


def test_integers_too_large_to_be_exact_have_an_error() -> None:
    a, w = np.full((8, 96), 1001.0, F32), np.full((96, 8), 1003.0, F32)
    assert bounds(MATMUL, A=a, W=w).error.all()


def test_a_square_on_the_grid_may_round_once_it_meets_what_is_not() -> None:
    x, y = np.full(64, 128.0, F32), F32(0.1) + np.arange(64, dtype=F32) / F32(640)
    result = elementwise("A_i*A_i-W_i*W_i", A=x, W=y)
    assert excess(result, (x + y) * (x - y)) <= 1.0
    assert not elementwise("A_i*A_i-W_i*W_i", A=x, W=np.full(64, 3.0, F32)).error.any()


@pytest.mark.parametrize("op", ["+=", "*=", "max=", "min="])
def test_iterations_that_a_guard_leaves_out_touch_no_element(op: str) -> None:
    text = f"in A_{{8}};out C_{{8}};L^{{3,8}}_{{k,i}}(k<2)[D_{{k,i}}{op}A_i;]L^8_i[C_i=D_{{1,i}};]"
    a = normal("guard", 8)
    result = bounds(text, A=a)
    assert np.array_equal(interpret(parse(text), {"A": a})["C"], result.value)
    assert np.all(np.isfinite(result.error))


def test_a_guard_that_rounding_can_turn_leaves_no_bound_where_it_did_not_hold() -> None:
    a = np.array([0.1, 0.5], F32)
    text = "in A_2;out C_2;L^2_i[D_i=A_i*3.0;]L^2_i(D_i>0.3)[C_i+=A_i;]"
    at = float(F32(0.1)) * 3.0
    assert np.isinf(bounds(text.replace("0.3", repr(at)), A=a).error[0])
    assert np.isinf(bounds(text.replace("0.3", repr(at * (1 - 1e-8))), A=a).error[0])
    assert np.isfinite(bounds(text.replace("0.3", "0.25"), A=a).error).all()


def test_a_doubled_value_on_the_grid_may_round_once_it_meets_what_is_not_through_a_temporary() -> None:
    x, y = np.full(256, 1.5, F32), F32(0.6) + np.arange(256, dtype=F32) / F32(1000)
    text = "in A_{256},W_{256};out C_{256};L^{256}_i[D_i=A_i+A_i;]L^{256}_i[E_i=A_i*W_i;]L^{256}_i[C_i=D_i+E_i;]"
    result = bounds(text, A=x, W=y)
    assert excess(result, x * (F32(2.0) + y)) <= 1.0
    assert np.all(result.error <= 6 * 2.0**-24 * result.value)
    assert not bounds(text, A=x, W=np.full(256, 3.0, F32)).error.any()


def test_a_product_that_leaves_the_grid_may_round_as_its_distributed_form_does() -> None:
    x, y = np.ones(500, F32), F32(1.0) + np.arange(1, 1001, 2, dtype=F32) * F32(129 / 256)
    result = elementwise(f"({'+'.join(['A_i'] * 64)})*W_i*W_i*W_i", A=x, W=y)
    distributed = sequential(np.repeat((y * y * y)[:, None], 64, axis=1))
    assert excess(result, distributed) <= 1.0


def test_a_sum_that_overflows_in_some_order_has_no_bound() -> None:
    text = "in A^{f16}_{2,4};out C^{f16}_2;L^{2,4}_{i,k}[C_i+=A_{i,k};]"
    a = np.array([[4e4, 4e4, -4e4, -4e4], [3e4, 3e4, -3e4, -3e4]], np.float16)
    result = bounds(text, A=a)
    found = interpret(parse(text), {"A": a})["C"]
    assert np.isinf(found[0]) and np.isinf(result.error[0])
    assert abs(float(found[1]) - result.value[1]) <= result.error[1] < 240


def test_tenths_whose_sum_is_whole_are_not_exact() -> None:
    result = bounds("in A_4;out C;L^4_i[C+=A_i;]", A=np.array([0.1, 0.9, 0.25, 0.75], F32))
    assert result.error.all()


CALLS = ["exp", "expm1", "log", "log1p", "sqrt", "erf", "tanh", "sin", "cos"]


@pytest.mark.parametrize("function", CALLS)
def test_a_call_in_f32_is_within_its_bound_and_the_bound_is_tight(function: str) -> None:
    x = np.abs(normal("calls", 200)) + F32(0.01)
    program = parse(f"in A_{{200}};out C_{{200}};L^{{200}}_i[C_i={function}(A_i*0.7+0.1);]")
    (result,) = analyse(program, {"A": x.astype(float)}).values()
    assert excess(result, interpret(program, {"A": x})["C"]) <= 1.0
    well_conditioned = np.abs(result.value) > 0.05
    assert np.max(result.error[well_conditioned] / np.abs(result.value[well_conditioned])) < 5e-5


EXPRESSIONS = [
    "A_i+D_i", "A_i-D_i", "A_i*D_i", "A_i/D_i", "A_i/(D_i*D_i+0.5)", "max(A_i,D_i)*0.1", "min(A_i,-D_i)",
    "abs(A_i-D_i)", "A_i**2", "abs(A_i)**0.5", "(A_i-D_i)*(A_i+D_i)", "A_i*A_i-D_i*D_i", "1.0/(1.0+exp(-A_i))",
    "tanh(0.7978845608*A_i)", "if_then_else(A_i>D_i,A_i,0.01*A_i)", "if_then_else(A_i*1.1>D_i,1.0,0.0)",
    "floor(A_i*3.3)", "round(A_i*3.3)", "cast(f32,cast(i32,A_i*7.7))", "cast(f16,A_i*D_i)", "cast(bf16,A_i)+D_i",
    "-A_i+0.1", "log(abs(A_i))+log(abs(D_i))", "exp(A_i-D_i)", "sqrt(A_i*A_i+1e-05)", "cast(f32,A_i>0.0)*D_i",
    "if_then_else(A_i>0.0&&D_i>0.0||!(A_i<1.0),A_i,D_i)", "(i%7)*A_i+i//3",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_in_f32_is_within_its_bound(expression: str) -> None:
    inputs = {"A": normal("left", 300), "D": normal("right", 300)}
    program = parse(f"in A_{{300}},D_{{300}};out C_{{300}};L^{{300}}_i[C_i={expression};]")
    (result,) = analyse(program, {name: array.astype(float) for name, array in inputs.items()}).values()
    assert excess(result, interpret(program, inputs)["C"]) <= 1.0
    assert np.median(result.error / np.maximum(np.abs(result.value), 1e-3)) < 1e-2


def test_f16_storage_rounds_every_step_of_a_sum() -> None:
    program = parse("in A^{f16}_{40,32};out C^{f16}_{40};L^{40,32}_{i,j}[C_i+=A_{i,j};]")
    a = normal("half", 40, 32).astype(np.float16)
    (result,) = analyse(program, {"A": a.astype(float)}).values()
    assert 0.01 < excess(result, interpret(program, {"A": a})["C"]) <= 1.0


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("1.0/(A_i*1.1-1.1)", [1.0, 3.0]),  # the divisor may be 0
        ("log(A_i*1.1-1.1)", [1.0, 3.0]),
        ("sqrt(A_i*1.1-1.1)", [1.0, 3.0]),
        ("exp(A_i)", [89.0, 1.0]),  # more than the largest f32
        ("(A_i*1.1-1.1)**-1.0", [1.0, 3.0]),
    ],
)
def test_a_singularity_has_no_bound_and_its_neighbour_has_one(expression: str, values: list[float]) -> None:
    result = elementwise(expression, A=np.array(values, F32))
    assert np.isinf(result.error[0])
    assert result.error[1] < 1e-5 * abs(result.value[1])


def test_conditioning_near_a_singularity_widens_the_bound_there_only() -> None:
    x = np.array([1.0 + 1e-5, 2.0], F32)
    result = elementwise("1.0/(A_i*1.1-1.1)", A=x)
    assert result.error[0] > 1e-3 * abs(result.value[0])
    assert result.error[1] < 1e-5 * abs(result.value[1])


OVERFLOWING = {
    "a logarithm": "in A_2;out C_2;L^2_i[D_i=exp(A_i);]L^2_i[C_i=log(D_i);]",
    "a logarithm of a sum": "in A_2;out C_2;L^{2,3}_{i,k}[D_i+=exp(A_i);]L^2_i[C_i=log(D_i);]",
    "a logarithm of a sum of f16": (
        "in A_2;out C_2;D^{f16,g}_{2,3};L^{2,3}_{i,k}[D_{i,k}=exp(A_i);]L^{2,3}_{i,k}[E_i+=D_{i,k};]"
        "L^2_i[C_i=log(E_i);]"
    ),
    "a share": "in A_2;out C_{2,3};L^{2,3}_{i,k}[D_i+=exp(A_i);]L^{2,3}_{i,k}[C_{i,k}=exp(A_i)/D_i;]",
}


@pytest.mark.parametrize("text", OVERFLOWING.values(), ids=OVERFLOWING)
def test_what_overflows_on_the_way_has_no_bound_whatever_is_made_of_it(text: str) -> None:
    largest = 11.0 if "f16" in text else 88.0 if "+=" in text else 88.72
    a = np.array([3.5 + largest, 0.9 * largest], F32)
    result = bounds(text, A=a)
    found = interpret(parse(text), {"A": a})["C"]
    assert not np.isfinite(found[0]).any()
    assert np.isinf(result.error[0]).all()
    assert np.all(np.abs(found[1] - result.value[1]) <= result.error[1]) and np.all(result.error[1] < 1e-2)


def test_an_exact_infinity_inside_does_no_harm() -> None:
    text = (
        "in A_4;out C_4;L^4_i[D_i=if_then_else(A_i>0.0,A_i,-inf);]L^4_i[E max=D_i;]L^4_i[F+=exp(D_i-E);]"
        "L^4_i[C_i=exp(D_i-E)/F;]"
    )
    result = bounds(text, A=np.array([1.0, -1.0, 2.0, -3.0], F32))
    assert result.value[1] == result.value[3] == 0.0
    assert np.all(result.error <= 1e-5)


def test_a_condition_that_rounding_can_turn_counts_both_values() -> None:
    result = elementwise("if_then_else(A_i*0.1>0.1,5.0,7.0)", A=np.array([1.0, 2.0], F32))
    assert result.error[0] >= 2.0
    assert result.error[1] == 0.0


def test_recurrences_and_lists_run_in_order() -> None:
    text = "in A_{6,4};out C_{6,4};L^{4}_j[C_{0,j}=A_{0,j};L^{5}_{i=1}[X^{f32,l};X=C_{i-1,j}*0.5;C_{i,j}=X+A_{i,j};]]"
    a = normal("scan", 6, 4)
    expected = a.astype(float).copy()
    for i in range(1, 6):
        expected[i] = expected[i - 1] * 0.5 + a[i]
    result = bounds(text, A=a)
    assert np.allclose(result.value, expected, rtol=1e-15)
    assert np.all(result.error < 1e-5)


@pytest.mark.parametrize(
    "text",
    [
        "in A_{6,4};out C_{6,4};L^{6,4}_{i,j}[C_{i,j}=A_{i,j};]L^{5,4}_{i=1,j}[C_{i,j}=C_{i-1,j}+A_{i,j};]",
        "in A_{6,4};out C_4;L^{4}_{j}[C_j=0.0;]L^{6,4}_{i,j}[C_{(i+j)%4}+=A_{i,j};]",  # a histogram
        "in A_{6,4};out C_4;L^{6,4}_{i,j}[C_{(i+j)%4} max=A_{i,j};]",
        "in A_{6,4};out C_4;L^{6,4}_{i,j}[C_j min=A_{i,j};]",
        "in A_{6,4};out C_4;L^{6,4}_{i,j}[C_j=A_{i,j};]",  # the last one stays
        "in A_{6,4};out C_{9,4};L^{9,4}_{i,j}[C_{i,j}=if_then_else(i>=1&&i<7,A_{i-1,j},0.0);]",  # padding
        "in A_{6,4};out C_{3,2};L^{3,2,2,2}_{i,j,k,l}(i*2+k<5)[C_{i,j}+=A_{i*2+k,j*2+l};]",
        "in A_{6,4},D^{i32}_3;out C_{3,4};L^{3,4}_{i,j}[C_{i,j}=A_{max(min(D_i,5),0),j};]",  # a gather
        "in A_{6,4};out C_{6,4};L^{3,2,4}_{a,b,j}[C_{a*2+b,j}=A_{a*2+b,j}*2.0;]",
        "in A_{6,4},D^{i32}_3;out C^{i32}_3;L^3_i[C_i=(D_i*7-3)//2%5+cast(i32,A_{i,0}>0.0);]",
        "in A_{6,4};out C;L^{6,4}_{i,j}(A_{i,j}>0.0)[C+=A_{i,j};]",
    ],
)
def test_values_are_the_interpreters_where_nothing_is_rounded(text: str) -> None:
    program: Program = parse(text)
    inputs = {}
    for declaration in program.inputs:
        numbers = generator("exact", declaration.tensor).randint(-3, 4, declaration.shape)
        inputs[declaration.tensor] = numbers.astype(F32 if declaration.dtype == "f32" else np.int32)
    found = interpret(program, inputs)["C"]
    result = bounds(text, **inputs)
    assert np.array_equal(result.value, found)
    assert not result.error.any()


def test_a_product_over_an_axis_is_within_its_bound() -> None:
    program = parse("in A_{20,6};out C_6;L^{20,6}_{i,j}[C_j*=A_{i,j}*1.1;]")
    a = normal("product", 20, 6)
    (result,) = analyse(program, {"A": a.astype(float)}).values()
    assert 0.01 < excess(result, interpret(program, {"A": a})["C"]) <= 1.0
    assert np.max(result.error / np.abs(result.value)) < 2e-5


def test_a_choice_between_two_numbers_takes_the_type_it_meets() -> None:
    text = "in A_{30};out C_{30};L^{30}_i[C_i=A_i*(if_then_else(A_i>0.0,0.1,0.3)*3.3);]"
    a = normal("choice", 30)
    result = bounds(text, A=a)
    assert excess(result, interpret(parse(text), {"A": a})["C"]) <= 1.0
    assert np.max(result.error / np.abs(result.value)) < 1e-6


def test_a_sum_keeps_the_roundings_of_its_type_in_a_wider_expression() -> None:
    text = "in A^{f64}_{200},D_{200};out C^{f64}_{200};L^{200}_i[C_i=A_i/(1.0+abs(D_i*1.1));]"
    inputs = {"A": normal("wide", 200).astype(float), "D": normal("narrow", 200)}
    result = bounds(text, **inputs)
    assert 0.2 < excess(result, interpret(parse(text), inputs)["C"]) <= 1.0


def test_a_maximum_that_continues_a_sum_keeps_its_roundings() -> None:
    program = parse("in A_{9,40};out C_{9};L^{9,40}_{i,j}[C_i+=A_{i,j};]L^{9}_i[C_i max=0.1;]L^{9}_i[C_i*=1.1;]")
    a = normal("mixed", 9, 40)
    (result,) = analyse(program, {"A": a.astype(float)}).values()
    assert np.all(result.error[result.value > 0.5] > 1e-6)
    assert excess(result, interpret(program, {"A": a})["C"]) <= 1.0


def test_a_large_nest_runs_in_blocks() -> None:
    text = "in A_{300},D_{200};out C_{300};L^{300,200,50}_{i,j,k}[C_i+=A_i*D_j;]"
    a, d = generator("a").randint(-1, 2, 300).astype(F32), generator("d").randint(0, 2, 200).astype(F32)
    result = bounds(text, A=a, D=d)
    assert np.array_equal(result.value, a.astype(float) * d.sum() * 50)


@pytest.mark.parametrize("seed", [*range(20), 593])
def test_random_programs_are_within_their_bounds(seed: int) -> None:
    program = random_program(seed)
    for kind in ("normal", "integers", "wide"):
        inputs = random_inputs(program, seed, kind)
        found = interpret(program, inputs)
        wide = {name: array.astype(float) if array.dtype.kind == "f" else array for name, array in inputs.items()}
        for name, result in analyse(program, wide).items():
            error = np.abs(found[name].astype(float) - result.value)
            assert np.all((error <= result.error) | (found[name] == result.value))


def test_f64_programs_have_bounds_of_f64() -> None:
    result = elementwise("exp(A_i)*0.1", dtype="f64", A=normal("double", 50).astype(np.float64))
    relative = result.error / result.value
    assert np.all((relative > 1e-17) & (relative < 1e-14))


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_literals_are_rounded_as_their_type_rounds(name: str) -> None:
    kinds = {"f16": np.float16, "f32": np.float32}
    for value in (0.1, 1 / 3, 1e-7, 3.14159, 65504.0 if name != "bf16" else 1.0, 6e-8):
        if name in kinds:
            assert rounded(value, FORMATS[name]) == float(kinds[name](value))
    assert literal(0.5, FORMATS[name]).error == 0.0
    assert 0 < float(literal(0.1, FORMATS[name]).error) <= 0.1 * FORMATS[name].roundoff
    assert literal(math.inf, FORMATS[name]).error == 0.0
