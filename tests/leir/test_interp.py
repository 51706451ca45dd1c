"""The interpreter, clause by clause of the language's meaning, on cases computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from leir.arrays import array_type
from leir.interp import InterpreterError, interpret
from leir.interp.lanes import fold_of, plan
from leir.interp.tensors import tensors
from leir.parser import parse
from leir.syntax import Alloc, Equation, Guard, Loop, Program, Stmt
from tests.leir.running import BOTH, F32, fails, run
from tests.programs import random_inputs, random_program, random_tree

# sequential meaning, loops, guards


@BOTH
@pytest.mark.parametrize("kind", "LPUVB")
def test_loops_run_in_order_whatever_their_kind(kind: str, scalar: bool) -> None:
    name = "tx" if kind == "B" else "i"
    text = f"in A_4;out C_5;C_0=1.0;{kind}^4_{{{name}}}[C_{{{name}+1}}=C_{{{name}}}*2.0+A_{{{name}}};]"
    assert run(text, scalar, A=[1, 0, 1, 0]).tolist() == [1, 3, 6, 13, 26]


@BOTH
def test_statements_of_a_body_alternate(scalar: bool) -> None:
    text = "in A_3;out C_3;T=0.0;L^3_i[T=T+A_i;C_i=T;T=T*2.0;]"
    assert run(text, scalar, A=[1, 2, 3]).tolist() == [1, 4, 11]


@BOTH
def test_first_values(scalar: bool) -> None:
    assert run("in A_8;out C_3;L^{3}_{i=5}[C_{i-5}=A_i*i;]", scalar, A=range(8)).tolist() == [25, 36, 49]


@BOTH
def test_guards(scalar: bool) -> None:
    text = "in A_{10};out C_{10};L^{2,8}_{a,b}(a*8+b<10)[C_{a*8+b}=A_{a*8+b};]"
    assert run(text, scalar, A=range(10)).tolist() == list(range(10))
    nested = "in A_4;out C_4;L^4_i[C_i=0.0;(i>0)[(i<3)[C_i=A_i;C_i+=10.0;]]]"
    assert run(nested, scalar, A=[1, 2, 3, 4]).tolist() == [0, 12, 13, 0]


@BOTH
def test_a_guard_is_evaluated_once_before_its_body(scalar: bool) -> None:
    text = "in A_4;out C_4;M^{bool,g}_4;L^4_i[M_i=A_i>1.0;]L^4_i[C_i=0.0;(M_i)[M_i=1>2;C_i=A_i;C_i+=1.0;]]"
    assert run(text, scalar, A=[0, 1, 2, 3]).tolist() == [0, 0, 3, 4]


# tensors, lifetimes, initialisation


@BOTH
def test_outputs_and_temporaries_are_read_once_written(scalar: bool) -> None:
    text = "in A_3;out C_3,D_3;L^3_i[C_i=A_i+1.0;]L^3_i[T_i=C_i*2.0;]L^3_i[D_i=T_i-A_i;]"
    program = parse(text)
    out = interpret(program, {"A": np.array([1, 2, 3], F32)}, scalar=scalar)
    assert out["D"].tolist() == [3, 4, 5]
    assert list(out) == ["C", "D"]


@BOTH
@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [("+=", "f32", 6.0), ("*=", "f32", 6.0), ("max=", "f32", 3.0), ("min=", "f32", 1.0), ("+=", "i32", 6),
     ("*=", "i64", 6), ("max=", "i8", 3), ("min=", "i32", 1), ("max=", "f16", 3.0), ("min=", "bf16", 1.0)],
)  # fmt: skip
def test_a_first_accumulation_fills_with_its_identity(op: str, dtype: str, expected: float, scalar: bool) -> None:
    space = " " if op[0] == "m" else ""
    text = f"in A^{{{dtype}}}_3;out C^{{{dtype}}};L^3_i[C{space}{op}A_i;]"
    assert run(text, scalar, A=[1, 2, 3]) == expected


@BOTH
def test_negative_extremes_are_kept_by_the_fill(scalar: bool) -> None:
    assert run("in A_2;out C;L^2_i[C max=A_i;]", scalar, A=[-5, -7]) == -5
    assert run("in A^{i8}_2;out C^{i8};L^2_i[C max=A_i;]", scalar, A=[-128, -127]) == -127


@BOTH
def test_an_accumulation_after_a_store_continues_it(scalar: bool) -> None:
    assert run("in A_3;out C;C=10.0;L^3_i[C+=A_i;]", scalar, A=[1, 2, 3]) == 16


@BOTH
def test_the_first_write_is_the_first_in_the_text(scalar: bool) -> None:
    assert run("in A_3;out C_3;L^3_i[C_i+=A_i;]L^3_i[C_i=C_i*2.0;]L^3_i[C_i+=1.0;]", scalar, A=[1, 2, 3]).tolist() == [
        3, 5, 7]  # fmt: skip


@BOTH
def test_every_entry_of_a_list_is_a_fresh_lifetime(scalar: bool) -> None:
    text = "in A_{3,2};out C_3;L^3_i[S^{f32,l};L^2_j[S+=A_{i,j};]C_i=S;]"
    assert run(text, scalar, A=[[1, 2], [3, 4], [5, 6]]).tolist() == [3, 7, 11]
    stale = "in A_3;out C_3;L^3_i[S^{f32,l};(i<1)[S=A_i;]C_i=S;]"
    error = fails(stale, scalar, A=[1, 2, 3])
    assert (error.path, error.iteration) == ((0, 2), {"i": 1})
    assert "S is read and was never written" in str(error)


@BOTH
def test_a_filled_element_may_be_read_before_a_statement_writes_it(scalar: bool) -> None:
    text = "in A_2;out C_2;L^2_i[(i>5)[D_i+=0.0;]C_i=D_i;D_i+=A_i;]"
    assert run(text, scalar, A=[1, 2]).tolist() == [0, 0]
    local = "in A_2;out C_2;L^2_i[S^{f32,l};(i>5)[S max=0.0;]C_i=max(S,-9.0);S max=A_i;]"
    assert run(local, scalar, A=[1, 2]).tolist() == [-9, -9]


@BOTH
def test_a_filled_element_that_nothing_writes_may_not_be_read(scalar: bool) -> None:
    error = fails("in A_3;out C_3;L^3_i(i<2)[D_i+=A_i;]L^3_i[C_i=D_i;]", scalar, A=[1, 2, 3])
    assert (error.path, error.iteration) == ((1, 0), {"i": 2})
    local = "in A_2;out C_2;L^2_i[S^{f32,l};(i<1)[S+=A_i;]C_i=S;]"
    error = fails(local, scalar, A=[1, 2])
    assert (error.path, error.iteration) == ((0, 2), {"i": 1})


@BOTH
def test_a_fill_is_no_write(scalar: bool) -> None:
    error = fails("in A_3;out C_3;L^3_i(i!=1)[C_i+=A_i;]", scalar, A=[1, 2, 3])
    assert "output element C_{1} is not written" in str(error)


@BOTH
def test_an_accumulation_with_another_operator_must_find_its_element_written(scalar: bool) -> None:
    text = "in A_3;out C_3;L^3_i[(i<{n})[C_i+=A_i;]C_i max=2.0;]"
    assert run(text.replace("{n}", "3"), scalar, A=[1, 2, 3]).tolist() == [2, 2, 3]
    error = fails(text.replace("{n}", "2"), scalar, A=[1, 2, 3])
    assert (error.path, error.iteration) == ((0, 1), {"i": 2})


@BOTH
def test_accumulations_fold_in_the_order_written(scalar: bool) -> None:
    values = np.array([1e8, 1.0, -1e8, 1.0, 3e-8, 1e8, -1e8], F32)
    expected = F32(0)
    for value in values:
        expected = F32(expected + value)
    assert run("in A_7;out C;L^7_i[C+=A_i;]", scalar, A=values) == expected
    assert run("in A_7;out C_2;L^{7,2}_{i,j}[C_j+=A_i;]", scalar, A=values).tolist() == [expected, expected]


def test_a_long_accumulation_over_few_lanes_folds_to_the_same_bits() -> None:
    """70,000 terms a lane: more than a fold of many lanes may have."""
    text = "in A_{2,70000};out C_2;L^{2,70000}_{i,j}[D_i max=A_{i,j};]L^{2,70000}_{i,j}[C_i+=A_{i,j}-D_i*0.25;]"
    (nest, _) = parse(text).body
    assert isinstance(nest, Loop) and isinstance(inner := nest.body[0], Loop)
    assert fold_of(inner, (0, 0), 2, set()) is not None and fold_of(inner, (0, 0), 2048, set()) is None
    given = {"A": np.random.default_rng(3).normal(size=(2, 70000)).astype(F32)}
    program = parse(text)
    assert interpret(program, given)["C"].tobytes() == interpret(program, given, scalar=True)["C"].tobytes()


def test_quick_functions_are_a_few_places_off_at_most() -> None:
    names = ("exp", "expm1", "log", "log1p", "erf", "tanh", "sin", "cos", "sqrt")
    body = "".join(f"C_{{{n},i}}={name}(A_i);" for n, name in enumerate(names))
    program = parse(f"in A^{{f64}}_{{50}};out C^{{f64}}_{{10,50}};L^{{50}}_i[{body}C_{{9,i}}=A_i**1.7;]")
    given = {"A": np.random.default_rng(4).uniform(0.1, 5.0, 50)}
    exact, quick = interpret(program, given)["C"], interpret(program, given, quick=True)["C"]
    assert np.all(np.abs(quick - exact) <= 4 * np.spacing(np.abs(exact)))
    assert interpret(program, given)["C"].tobytes() == exact.tobytes()


# what has no meaning


UNDEFINED = [
    ("in A_3;out C_3;L^3_i[C_i=D_i;]", (0, 0), {"i": 0}, "D_{0} is read and was never written"),
    ("in A_3;out C_3;L^3_i(i>0)[C_i=C_{i-1};]", (0, 0, 0), {"i": 1}, "C_{0} is read and was never written"),
    ("in A_3;out C_{3,3};L^3_iL^3_j(j<2)[C_{i,j}=A_j;]", None, {}, "output element C_{0,2} is not written"),
    ("in A_3;out C_3;L^3_i[C_i=A_{i+1};]", (0, 0), {"i": 2}, "subscript 0 of A is 3, outside size 3"),
    ("in A_3;out C_3;L^3_i[C_i=A_{i-1};]", (0, 0), {"i": 0}, "subscript 0 of A is -1, outside size 3"),
    ("in A_3;out C_3;L^4_i[C_i=1.0;]", (0, 0), {"i": 3}, "subscript 0 of C is 3, outside size 3"),
    ("in A_3;out C_3;L^3_i[D_{i-1}=A_i;C_i=A_i;]", (0, 0), {"i": 0}, "subscript 0 of D is -1"),
    ("in A_3;out C_3;L^3_i[S^{f32,l}_2;S_i=A_i;C_i=S_i;]", (0, 1), {"i": 2}, "subscript 0 of S is 2, outside size 2"),
    ("in A_3;out C_3;L^3_i[C_i=A_i*(4//(i-1));]", (0, 0), {"i": 1}, "the divisor of // is 0"),
    ("in A_3;out C_3;L^3_i[C_i=A_i*(4%i);]", (0, 0), {"i": 0}, "the divisor of % is 0"),
    ("in A_3;out C_3;L^3_i(1//i==1)[C_i=A_i;]", (0, 0), {"i": 0}, "the divisor of // is 0"),
    (
        "in A_3;out C_3;L^{2,3}_{j,i}[T_i=A_i;(j==1)[C_i=T_{i+1};]]",
        (0, 0, 1, 0),
        {"j": 1, "i": 2},
        "T_{3} is read and was never written",
    ),
]


@BOTH
@pytest.mark.parametrize(("text", "path", "iteration", "message"), UNDEFINED, ids=[case[0] for case in UNDEFINED])
def test_undefined_programs_name_statement_and_iteration(
    text: str, path: tuple[int, ...] | None, iteration: dict[str, int], message: str, scalar: bool
) -> None:
    error = fails(text, scalar, A=[1, 2, 3])
    assert message in str(error)
    assert error.path == path
    assert error.iteration == iteration


ILL_FORMED = [
    "in A_3;out C_3;L^3_i[C_i=A_q;]",
    "in A_3;out C_3;L^3_i[A_i=1.0;C_i=A_i;]",
    "in A_3;out C_3;L^3_i[C_{i,0}=A_i;]",
    "in A_3;out C_3;L^3_iL^3_i[C_i=A_i;]",
    "in A_3;out C_3;L^3_i[C_i=A_{i*1.0};]",
    "in A_3;out C_3;L^3_i[C_i=A_i//2;]",
    "in A_3;out C_3;L^3_i[C_i=i**2;]",
    "in A_3;out C_3;L^3_i[C_i=2**3;]",
    "in A_3;out C_3;L^3_i[C_i=1//0;]",
    "in A_3;out C^{bool}_3;L^3_i[C_i+=A_i;]",
    "in A_3;out C_3;L^3_i[(i<2)[S^{f32,l};S=A_i;]C_i=S;]",
    "in A_3;out C_3;L^3_i[C_i=S;S^{f32,l};S=A_i;]",
    "in A_3;out C_3;S^{f32,l};S=A_0;L^3_i[C_i=S;]",
]


@BOTH
@pytest.mark.parametrize("text", ILL_FORMED)
def test_ill_formed_programs_are_errors_too(text: str, scalar: bool) -> None:
    fails(text, scalar, A=[1, 2, 3])


def test_inputs_must_fit_the_signature() -> None:
    program = parse("in A_3,I^{i32};out C_3;L^3_i[C_i=A_i*I;]")
    good = {"A": np.zeros(3, F32), "I": np.array(1, np.int32)}
    assert interpret(program, good)["C"].tolist() == [0, 0, 0]
    for change, message in [
        ({"A": np.zeros(4, F32)}, "input A is float32"),
        ({"A": np.zeros(3)}, "input A is float64"),
        ({"I": np.zeros((), np.int64)}, "input I is int64"),
        ({"Q": np.zeros(3)}, "no such input"),
    ]:
        with pytest.raises(InterpreterError, match=message):
            interpret(program, good | change)
    with pytest.raises(InterpreterError, match="input I is missing"):
        interpret(program, {"A": good["A"]})
    bf16 = parse("in A^{bf16}_1;out C_1;C_0=A_0;")
    with pytest.raises(InterpreterError, match="no bf16 numbers"):
        interpret(bf16, {"A": np.array([1.001], F32)})


def test_inputs_are_not_changed_nor_outputs_shared() -> None:
    program = parse("in A_3;out C_3;L^3_i[C_i=A_i;]L^3_i[C_i+=1.0;]")
    given = np.array([1, 2, 3], F32)
    first = interpret(program, {"A": given})["C"]
    second = interpret(program, {"A": given})["C"]
    first[:] = 0
    assert given.tolist() == [1, 2, 3]
    assert second.tolist() == [2, 3, 4]


# gathers


@BOTH
def test_gathers_read_and_write(scalar: bool) -> None:
    text = "in A_{4,2},I^{i32}_3;out C_{3,2};L^{3,2}_{i,j}[C_{i,j}=A_{I_i,j};]"
    assert run(text, scalar, A=np.arange(8).reshape(4, 2), I=[3, 0, 3]).tolist() == [[6, 7], [0, 1], [6, 7]]
    scatter = "in A_3,I^{i64}_3;out C_4;L^4_i[C_i=0.0;]L^3_i[C_{I_i}+=A_i;]"
    assert run(scatter, scalar, A=[1, 2, 4], I=[2, 0, 2]).tolist() == [2, 0, 5, 0]


@BOTH
@pytest.mark.parametrize("index", [-1, 4])
def test_a_gather_outside_violates_its_precondition(index: int, scalar: bool) -> None:
    text = "in A_4,I^{i32}_3;out C_3;L^3_i[C_i=A_{I_i};]"
    error = fails(text, scalar, A=[1, 2, 3, 4], I=[0, index, 1])
    assert (error.path, error.iteration) == ((0, 0), {"i": 1})
    assert f"subscript 0 of A is {index}, outside size 4" in str(error)


@BOTH
@pytest.mark.parametrize("index", ["max(min(I_i,3),0)", "I_i%4", "if_then_else(I_i<0,0,if_then_else(I_i>3,3,I_i))"])
def test_clamped_gathers_take_any_index(index: str, scalar: bool) -> None:
    out = run(f"in A_4,I^{{i32}}_3;out C_3;L^3_i[C_i=A_{{{index}}};]", scalar, A=[1, 2, 3, 4], I=[-9, 2, 7])
    assert out.tolist() == ([4, 3, 4] if "%" in index else [1, 3, 4])


@BOTH
def test_guards_and_branches_protect_the_access_behind_them(scalar: bool) -> None:
    for value in (
        "if_then_else(I_i>=0&&I_i<3,A_{max(I_i,I_i)},-1.0)",
        "if_then_else(!(I_i>=0&&I_i<3),-1.0,A_{I_i})",
        "if_then_else(I_i<0||I_i>=3||A_{I_i}<0.0,-1.0,A_{I_i})",
        "if_then_else(I_i>=0&&I_i<3&&A_{I_i}>=0.0,A_{I_i},-1.0)",
    ):
        out = run(f"in A_3,I^{{i32}}_3;out C_3;L^3_i[C_i={value};]", scalar, A=[1, 2, 3], I=[5, 1, -2])
        assert out.tolist() == [-1, 2, -1]
    divided = "in A_3,I^{i32}_3;out C_3;L^3_i[C_i=if_then_else(I_i!=0,6//I_i,0);]"
    assert run(divided, scalar, A=[0, 0, 0], I=[4, 0, -4]).tolist() == [1, 0, -2]


@BOTH
def test_a_branch_does_not_read_what_only_the_other_needs(scalar: bool) -> None:
    text = "in A_3;out C_3;C_0=A_0;L^3_i[D_i=if_then_else(i>0,A_{i-1},C_i);]L^3_i[C_i=D_i;]"
    assert run(text, scalar, A=[1, 2, 3]).tolist() == [1, 1, 2]


# deep programs, and against NumPy


@BOTH
def test_deep_nests_and_expressions_run(scalar: bool) -> None:
    names = [f"a{n}" for n in range(60)]
    nest = "".join(f"L^2_{{{name}}}({name}<1)[" if n % 2 else f"L^1_{{{name}}}[" for n, name in enumerate(names[:90]))
    text = f"in A;out C;{nest}C={'+'.join(names)}+A;{']' * len(names)}"
    assert run(text, scalar, A=2.0) == 2.0
    assert run(f"in A;out C;C={'+'.join(['A'] * 90)};", scalar, A=1.0) == 90.0
    chosen, masked = "A_i", "A_i"
    for _ in range(30):
        chosen, masked = f"if_then_else({chosen}>0.0,A_i,tanh(A_i))", f"if_then_else(A_i>0.0&&{masked}>0.0,A_i,0.5)"
    for value in (chosen, masked):
        assert run(f"in A_3;out C_3;L^3_i[C_i={value};]", scalar, A=[1, 2, 3]).tolist() == [1, 2, 3]


def test_attention_against_numpy() -> None:
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((2, 5, 4)) for _ in range(3))
    text = """
        in A^{f64}_{2,5,4},D^{f64}_{2,5,4},E^{f64}_{2,5,4};out C^{f64}_{2,5,4};
        L^{2,5,5,4}_{h,i,j,k}[S_{h,i,j}+=A_{h,i,k}*D_{h,j,k};]
        L^{2,5,5}_{h,i,j}[T_{h,i,j}=if_then_else(j<=i,S_{h,i,j}*0.5,-inf);]
        L^{2,5,5}_{h,i,j}[M_{h,i} max=T_{h,i,j};]
        L^{2,5,5}_{h,i,j}[Z_{h,i}+=exp(T_{h,i,j}-M_{h,i});]
        L^{2,5,4,5}_{h,i,k,j}[C_{h,i,k}+=exp(T_{h,i,j}-M_{h,i})/Z_{h,i}*E_{h,j,k};]
    """
    scores = np.where(np.tril(np.ones((5, 5), bool)), q @ k.swapaxes(1, 2) * 0.5, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v
    np.testing.assert_allclose(run(text, A=q, D=k, E=v), expected, rtol=1e-13)


def test_vector_and_scalar_execution_give_the_same_bits() -> None:
    for seed in range(120):
        program = random_program(f"bits {seed}")
        for kind in ("normal", "integers", "wide"):
            inputs = random_inputs(program, seed, kind)
            vector, scalar = interpret(program, inputs), interpret(program, inputs, scalar=True)
            for name, array in scalar.items():
                assert vector[name].dtype == array.dtype
                equal_nan = array.dtype.kind == "f"
                assert np.array_equal(vector[name], array, equal_nan=equal_nan), (seed, kind, name)


def test_the_random_programs_run_as_vectors_for_a_good_part() -> None:
    planned = [
        plan(statement, (number,), tensors(program)) is not None
        for program in map(random_program, range(40))
        for number, statement in enumerate(program.body)
    ]
    assert sum(planned) > len(planned) / 4


@BOTH
def test_a_bool_tensor_that_is_accumulated_into_is_an_error_before_anything_runs(scalar: bool) -> None:
    error = fails("in A_3;out C_3;M^{bool,g}_3;L^3_i[C_i=A_i;]L^3_i[M_i max=A_i>0.0;]", scalar, A=[1, 2, 3])
    assert error.path == (2, 0)


def _small(statement: Stmt) -> Stmt:
    match statement:
        case Loop(extent=extent, body=body):
            return replace(statement, extent=min(extent, 3), body=tuple(map(_small, body)))
        case Guard(condition, body):
            return Guard(condition, tuple(map(_small, body)))
        case Alloc(shape=shape):
            return replace(statement, shape=tuple(min(size, 5) for size in shape))
        case Equation():
            return statement


@BOTH
def test_any_tree_runs_or_is_an_interpreter_error(scalar: bool) -> None:
    for seed in range(100):
        tree = random_tree(f"any {seed}")
        declared = [
            tuple(replace(d, shape=tuple(min(size, 5) for size in d.shape)) for d in declarations)
            for declarations in (tree.inputs, tree.outputs)
        ]
        program = Program(*declared, tuple(map(_small, tree.body)))
        inputs = {d.tensor: np.ones(d.shape, array_type(d.dtype)) for d in program.inputs}
        with pytest.raises(InterpreterError):
            interpret(program, inputs, scalar=scalar)
