"""Statement instances, shapes and values of the polyhedral model, by hand and against enumeration."""

import pytest

from leir.analysis import isl
from leir.analysis.access import Tensor, tensors
from leir.analysis.affine import affine, condition, interval
from leir.analysis.dataflow import Side, flow
from leir.analysis.isl import TooHard, bounded, example, largest
from leir.analysis.model import lifetimes, statements_of, time
from leir.parser import parse, parse_expression
from leir.syntax import Path, Place, Program
from tests.leir.enumeration import affine_program, evaluate, events

NAMES = {"i": "x0", "j": "x1"}


@pytest.mark.parametrize(
    "text",
    [
        "i", "i+1", "2*i-j", "i*3", "-i", "i//2", "i%3", "-i//3", "i//-2", "i%-3", "-(i%-2)", "max(i-2,0)",
        "min(i,j)", "abs(i-j)", "(i*2+j)//3%2", "cast(i64,i)", "3-2*2", "max(3,4)*i", "(2-5)//2+i",
    ],
)  # fmt: skip
def test_an_affine_expression_has_the_value_that_it_has(text: str):
    expression = parse_expression(text)
    shown = affine(expression, NAMES)
    plain = parse_expression(text.replace("cast(i64,i)", "i"))
    for i in range(-4, 5):
        for j in range(-2, 3):
            value = evaluate(plain, {"i": i, "j": j})
            assert example(f"{{ [v,x0,x1] : x0 = {i} and x1 = {j} and v = {shown} }}") == (value, i, j)


@pytest.mark.parametrize(
    "text", ["i*j", "i//j", "i%0", "i//0", "A_i", "i+A_i", "cast(i32,i)", "i/2", "1.5", "q", "exp(i)"]
)
def test_what_is_not_quasi_affine_is_opaque(text: str):
    assert affine(parse_expression(text), NAMES) is None


@pytest.mark.parametrize(
    "text",
    ["i<j", "i<=3&&j!=0", "!(i<j||i==2)", "!(i<j&&!(i==2))", "i%2==0||!(j>=1)", "max(i,j)>1", "i-j"],
)
def test_a_condition_holds_where_it_holds(text: str):
    expression = parse_expression(text)
    holds, fails = condition(expression, NAMES), condition(expression, NAMES, holds=False)
    for i in range(-3, 4):
        for j in range(-3, 4):
            where = f"x0 = {i} and x1 = {j}"
            expected = bool(evaluate(expression, {"i": i, "j": j}))
            assert (example(f"{{ [x0,x1] : {where} and {holds} }}") is not None) == expected
            assert (example(f"{{ [x0,x1] : {where} and {fails} }}") is not None) != expected


def test_opaque_parts_count_as_asked():
    both, either = parse_expression("A_i>0.0&&i<3"), parse_expression("A_i>0.0||i<3")
    assert condition(both, NAMES) == "x0 < 3"
    assert condition(both, NAMES, opaque=False) == "false"
    assert condition(either, NAMES) == "true"
    assert condition(either, NAMES, opaque=False) == "x0 < 3"
    assert condition(both, NAMES, holds=False) == "true"
    assert condition(both, NAMES, holds=False, opaque=False) == "x0 >= 3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i+j", (0, 10)), ("i-j", (-3, 7)), ("i*3", (0, 21)), ("-i", (-7, 0)), ("i//2", (0, 3)), ("i%4", (0, 3)),
        ("j%4", (0, 3)), ("(j+4)%8", (4, 7)), ("max(i,2)", (2, 7)), ("min(A_i,2)", (float("-inf"), 2)),
        ("min(max(A_i,0),5)", (0, 5)), ("A_i%5", (0, 4)), ("if_then_else(i<3,j,9)", (0, 9)), ("abs(j-2)", (0, 2)),
        ("i/2", (float("-inf"), float("inf"))), ("i*A_i", (float("-inf"), float("inf"))),
    ],
)  # fmt: skip
def test_the_interval_of_an_expression(text: str, expected: tuple[float, float]):
    assert interval(parse_expression(text), {"i": (0, 7), "j": (0, 3)}) == expected


def test_time_is_positions_and_loop_values_and_a_guard_reads_first():
    program = parse("in A_4;out C_4;C_0=A_0;L^4_i[L^2_j[D=A_i;](A_i>0.0)[C_i=D;]]")
    times = {statement.path: time(statement, "x") for statement in statements_of(program)}
    assert times == {
        (0,): ["0"],
        (1, 0, 0): ["1", "x0", "0", "x1", "0"],
        (1, 1): ["1", "x0", "1", "-1"],
        (1, 1, 0): ["1", "x0", "1", "0"],
    }


def test_lifetimes_count_the_loops_around_a_declaration():
    program = parse("in A_4;out C_4;G^{f32,g}_2;L^4_i(i>0)[L^2_j[R^{f32,l};R=A_i;C_i=R;]S^{f32,l};S=A_i;]")
    assert lifetimes(program) == {"G": 0, "R": 2, "S": 1}


def test_tensors_have_role_type_scope_shape_and_declaration():
    program = parse(
        "in A^{f16}_{4,8},I^{i32}_3;out C_4;S^{i8,g}_9;"
        "L^4_i[R^{f32,l}_2;L^{3}_{j=2}(i+j<5)[T_{i+j,2*i}=A_{i,j};]C_i=T_{i,0};]"
    )
    found = tensors(program)
    assert found["A"] == Tensor("A", "input", "f16", "g", (4, 8), None)
    assert found["C"] == Tensor("C", "output", "f32", "g", (4,), None)
    assert found["S"] == Tensor("S", "temporary", "i8", "g", (9,), (0,))
    assert found["R"] == Tensor("R", "temporary", "f32", "l", (2,), (1, 0))
    assert found["T"] == Tensor("T", "temporary", "f32", "g", (5, 5), None)


def test_an_opaque_subscript_of_an_undeclared_tensor_counts_as_far_as_it_is_bounded():
    program = parse("in A_4,I^{i32}_4;out C_4;L^4_i[T_{I_i%6}=A_i;W_{I_i}=A_i;C_i=A_i;]")
    assert tensors(program)["T"].shape == (6,)
    assert tensors(program)["W"].shape == (1,)


@pytest.mark.parametrize("number", range(60))
def test_shapes_are_what_running_reaches(number: int):
    program = affine_program(f"shapes {number}")
    reached: dict[str, list[int]] = {}
    for event in events(program):
        known = reached.setdefault(event.tensor, [0] * len(event.indices))
        known[:] = [max(size, index + 1) for size, index in zip(known, event.indices, strict=True)]
    for name in ("T", "W"):
        if name in reached:
            assert tensors(program)[name].shape == tuple(max(size, 1) for size in reached[name])


Writers = dict[tuple[Path, Path, tuple[int, ...]], tuple[Path, tuple[int, ...]]]


def last_writers(program: Program, tensor: str) -> Writers:
    """For each read instance of a tensor, the instance that wrote what it finds; none where nothing did."""
    written: dict[tuple[int, ...], tuple[Path, tuple[int, ...]]] = {}
    result: Writers = {}
    for event in events(program):
        if event.tensor != tensor:
            continue
        if event.mode != "write" and event.element in written:
            result[event.statement, event.place.within or (), event.values] = written[event.element]
        if event.mode != "read":
            written[event.element] = (event.statement, event.values)
    return result


@pytest.mark.parametrize("number", range(60))
def test_flow_is_what_running_finds(number: int):
    program = affine_program(f"flow {number}")
    side = Side(program)
    for tensor in side.fills:
        expected = last_writers(program, tensor)
        found, _ = flow(side.question(tensor, list(side.equations), ()))
        assert _pairs(side, found) == expected


def test_a_read_that_isl_loses_is_noticed():
    """With isl of islpy 2026.2.2; where isl answers, it must answer right."""
    side = Side(
        parse(
            "in A_4;out C_4;L^2_iL^3_j[W_{i//2,3-j}=A_{3-j};W_{(i+j)%3,j*2+j}+=A_0;]"
            "L^{1,2}_{m,n}[W_{m//2,n*2+m} max=C_n;]L^4_i[C_i=A_i;]"
        )
    )
    try:
        found, _ = flow(side.question("W", list(side.equations), ()))
    except TooHard as reason:
        assert "lost a read" in str(reason)
    else:
        assert _pairs(side, found) == last_writers(side.program, "W")


def _pairs(side: Side, found) -> Writers:
    result: Writers = {}
    maps: list = []
    found.foreach_map(maps.append)
    for piece in maps:
        reader, writer = piece.get_tuple_name(_out()), piece.get_tuple_name(_in())
        if reader == "End":
            continue
        points: list = []
        piece.wrap().foreach_point(points.append)
        source = side.listed[int(writer[1:])]
        number, read = (int(part) for part in reader[1:].split("_"))
        sink = side.listed[number]
        for point in points:
            values = [point.get_coordinate_val(_set(), n).to_python() for n in range(piece.wrap().dim(_set()))]
            count = len(source.loops)
            key = (sink.path, side.reads(sink)[read].use.place.within or (), tuple(values[count:]))
            assert key not in result
            result[key] = (source.path, tuple(values[:count]))
    return result


def _set():
    from islpy import dim_type

    return dim_type.set


def _in():
    from islpy import dim_type

    return dim_type.in_


def _out():
    from islpy import dim_type

    return dim_type.out


def test_a_question_that_is_too_hard_says_so_and_the_next_one_is_answered():
    context = isl.context()
    hard = "{ [a,b,c] : 97a + 89b + 83c = 1000003 and 0 <= a < 5000 and 0 <= b < 5000 and 0 <= c < 5000 and a = 7c }"
    context.set_max_operations(3)
    try:
        with pytest.raises(TooHard):
            example(hard)
        with pytest.raises(TooHard):
            example(hard)  # from the cache
    finally:
        context.set_max_operations(isl.OPERATIONS)
    assert bounded(lambda: 1) == 1
    assert largest("{ [a] : 0 <= a < 10 and a mod 4 = 3 }", 0) == 7
    assert example("{ [a] : 0 <= a < 10 and a mod 4 = 3 }") == (3,)


def test_places_of_uses_name_the_accesses():
    program = parse("in A_4,I^{i32}_4;out C_4;L^4_i(A_i>0.0&&A_{i//2}>1.0)[C_i+=A_{I_i};]")
    guard, equation = statements_of(program)
    assert [use.place for use in guard.uses] == [Place((0, 0), (0, 0, 0)), Place((0, 0), (0, 1, 0))]
    assert [len(use.conditions) for use in guard.uses] == [0, 1]
    assert [(use.access.tensor, use.mode, use.place.within) for use in equation.uses] == [
        ("I", "read", (1, 0)), ("A", "read", (1,)), ("C", "update", (0,)),
    ]  # fmt: skip
