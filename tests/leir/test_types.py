"""In what type expressions compute: promotion, weak literals and their folding, and what breaks a rule."""

import math
import random
import warnings

import numpy as np
import pytest

from leir.analysis.types import Kinds, Weak, is_float, promote, type_of, type_problems
from leir.edit import dtypes, replace_expression_at, walk_expression, walk_places
from leir.interp import interpret
from leir.parser import parse, parse_expression
from leir.syntax import DTYPES, Cast, DType, Equation, Place
from tests.programs import random_program

TENSORS: dict[str, DType] = {
    "A": "f32", "D": "f64", "H": "f16", "G": "bf16", "I": "i32", "J": "i8", "K": "i64", "Q": "bool",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # promotion
        ("A+A", "f32"), ("A+D", "f64"), ("I+J", "i32"), ("I+K", "i64"), ("K+A", "f32"), ("K*D", "f64"),
        ("K+H", "f32"), ("H+G", "f32"), ("H+H", "f32"), ("G*D", "f64"), ("H", "f32"), ("J+J", "i8"), ("i+J", "i64"),
        ("i", "i64"), ("i+A", "f32"), ("max(I,A)", "f32"), ("min(J,K)", "i64"), ("if_then_else(Q,J,A)", "f32"),
        ("if_then_else(Q,Q,Q)", "bool"), ("if_then_else(Q,Q,J)", "i8"),
        # booleans
        ("Q+Q", "i32"), ("-Q", "i32"), ("abs(Q)", "i32"), ("max(Q,Q)", "i32"), ("Q*J", "i8"), ("Q&&Q", "bool"),
        ("!Q", "bool"), ("Q==Q", "bool"), ("A<1", "bool"), ("Q+1", "i32"), ("Q*0.5", "f32"), ("Q/Q", "f32"),
        ("if_then_else(Q,Q,1)", "i32"), ("exp(Q)", "f32"),
        # weak literals
        ("A+1", "f32"), ("D+1.5", "f64"), ("I+1", "i32"), ("J*100", "i8"), ("1-K", "i64"), ("H*2.0", "f32"),
        ("I+0.5", "f32"), ("K*0.5", "f32"), ("D*(1/3)", "f64"), ("I+(1/2)", "f32"), ("I+max(1,2)", "f32"),
        ("max(I,0)", "i32"), ("if_then_else(Q,0,I)", "i32"), ("if_then_else(Q,0.0,I)", "f32"), ("i*8", "i64"),
        # functions on integers, and division
        ("exp(I)", "f32"), ("floor(I)", "f32"), ("round(K)", "f32"), ("sqrt(D)", "f64"), ("abs(I)", "i32"),
        ("abs(J)", "i8"), ("I/J", "f32"), ("I/D", "f64"), ("1/I", "f32"), ("I//2", "i32"), ("K%J", "i64"),
        ("A**2", "f32"), ("D**A", "f64"), ("2**A", "f32"), ("2.0**I", "f32"), ("H**0.5", "f32"), ("exp(H)", "f32"),
        # casts are strong
        ("cast(f16,A)", "f32"), ("cast(bf16,D)", "f32"), ("cast(f64,1)", "f64"), ("cast(i8,300.0)+1", "i8"),
        ("cast(bool,A)", "bool"), ("cast(f32,1)+D", "f64"),
    ],
)  # fmt: skip
def test_computing_type(text: str, expected: DType) -> None:
    assert type_of(parse_expression(text), TENSORS) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2", 3), ("7//2", 3), ("-7//2", -4), ("-7%3", 2), ("1/2", 0.5), ("4/2", 2.0), ("1+2.0", 3.0),
        ("max(1,2)", 2.0), ("abs(-3)", 3.0), ("exp(0)", 1.0), ("sqrt(4)", 2.0), ("2.0**3", 8.0), ("1/0", math.inf),
        ("-1/0", -math.inf), ("1<2", True), ("!(1<2)", False), ("(1<2)+3", 4), ("-(1<2)", -1), ("inf", math.inf),
        ("if_then_else(1<2,3,4.0)", 3.0), ("if_then_else(1>2,3,4)", 4), ("1<2&&2<1", False), ("log(0)", -math.inf),
        ("log1p(-1)", -math.inf), ("exp(1000)", math.inf), ("round(2.5)", 2.0), ("floor(-0.5)", -1.0),
        ("9223372036854775807*9223372036854775807*4", (2**63 - 1) ** 2 * 4), ("10.0**400", math.inf),
        ("(-2.0)**3", -8.0), ("0.0**-1", math.inf), ("tanh(inf)", 1.0),
    ],
)  # fmt: skip
def test_folding(text: str, value: float) -> None:
    folded = type_of(parse_expression(text), TENSORS)
    assert isinstance(folded, Weak)
    assert folded.value == value
    assert type(folded.value) is type(value)


@pytest.mark.parametrize("text", ["0/0", "log(-1)", "inf-inf", "sqrt(-1)", "(-2.0)**0.5", "exp(0/0)", "sin(inf)"])
def test_folding_to_nan(text: str) -> None:
    folded = type_of(parse_expression(text), TENSORS)
    assert isinstance(folded, Weak)
    assert math.isnan(folded.value)


def test_promotion_is_a_join() -> None:
    """Commutative and associative over all types and weak values, so that no order of operands matters."""
    kinds = [d for d in DTYPES if d not in ("f16", "bf16")] + [Weak(True), Weak(1), Weak(1.5)]
    for a in kinds:
        for b in kinds:
            assert promote(a, b) == promote(b, a) or (isinstance(a, Weak) and isinstance(b, Weak))
            for c in (d for d in kinds if not isinstance(d, Weak)):
                if not isinstance(a, Weak) and not isinstance(b, Weak):
                    assert promote(promote(a, b), c) == promote(a, promote(b, c))


@pytest.mark.parametrize(
    ("equation", "problems"),
    [
        ("C_i=A_{i/2};", [("subscript-not-integer", (1, 0))]),
        ("C_{Q_i}=A_i;", [("subscript-not-integer", (0, 0))]),
        ("C_i=A_{1.0};", [("subscript-not-integer", (1, 0))]),
        ("C_i=A_i//2;", [("operand-not-integer", (1, 0))]),
        ("C_i=Q_i%I_i;", [("operand-not-integer", (1, 0))]),
        ("C_i=I_i//2.0;", [("operand-not-integer", (1, 1))]),
        ("C_i=I_i**2.0;", [("power-of-integer", (1, 0))]),
        ("C_i=2**3;", [("power-of-integer", (1, 0))]),
        ("C_i=if_then_else(I_i,1,2);", [("condition-not-bool", (1, 0))]),
        ("C_i=if_then_else(Q_i&&A_i,1,2);", [("condition-not-bool", (1, 0, 1))]),
        ("C_i=!I_i;", [("condition-not-bool", (1, 0))]),
        ("Q_i+=1;", [("bool-accumulation", (0,))]),
        ("C_i=J_i+128;", [("literal-out-of-range", (1, 1))]),
        ("J_i=inf;", [("literal-out-of-range", (1,))]),
        ("C_i=if_then_else(Q_i,J_i,-129);", [("literal-out-of-range", (1, 2))]),
        ("C_i=cast(i8,200);", [("literal-out-of-range", (1, 0))]),
        ("C_i=I_i<3000000000;", [("literal-out-of-range", (1, 1))]),
        ("C_i=A_i//2+A_{i/2};", [("operand-not-integer", (1, 0, 0)), ("subscript-not-integer", (1, 1, 0))]),
        ("C_i=A_i+I_i*2**A_i;", []),
        ("J_i=2.7;", []),
        ("Q_i=A_i;", []),
        ("C_i=J_i+127;", []),
        ("C_i=cast(i32,J_i)+128;", []),
    ],
)  # fmt: skip
def test_problems(equation: str, problems: list[tuple[str, tuple[int, ...]]]) -> None:
    program = parse(f"in A_8;out C_8;L^8_i[{equation}]")
    statement = program.body[0].body[0]  # type: ignore[union-attr]
    assert [(p.code, p.within) for p in type_problems(statement, TENSORS)] == problems


def test_types_of_ill_typed_expressions_exist() -> None:
    """Every part has a type, even where a rule is broken: later checks go on."""
    for text in ("2**3", "1//0", "A//0.5", "Q_{0.5}%Q", "exp(1//0)", "if_then_else(1,2,A)", "2.0//1.0", "inf%2"):
        expression = parse_expression(text)
        for _, part in walk_expression(expression):
            assert isinstance(type_of(part, TENSORS), str | Weak)


def random_expression(draw: random.Random, depth: int) -> str:
    """Values of every type, small enough that no integer overflows."""
    if depth == 0:
        return draw.choice([*(f"{tensor}_i" for tensor in TENSORS), "i", "2", "1", "0.1", "1.5", "(1/3)"])
    one, two = random_expression(draw, depth - 1), random_expression(draw, draw.randrange(depth))
    condition = draw.choice([f"{one}<{two}", f"{one}=={two}", f"!({two}>{one})", f"{one}!={two}&&{two}<={one}"])
    return draw.choice([
        f"({one}+{two})", f"({one}-{two})", f"({one}*{two})", f"({one}/{two})", f"max({one},{two})",
        f"min({one},{two})", f"abs({one})", f"sqrt(abs({one}))", f"round({one})", f"-{one}", f"({condition})",
        f"if_then_else({condition},{one},{two})", f"if_then_else({condition},{two},{one})", f"exp({one}*0.1)",
        f"cast({draw.choice(['f16', 'bf16', 'f32', 'f64', 'i32', 'bool'])},{one})", f"cast(f32,{one})**2",
    ])  # fmt: skip


@pytest.mark.parametrize("first", range(0, 150, 50))
def test_a_cast_to_the_computing_type_changes_nothing(first: int) -> None:
    """The interpreter, which has rules of its own, computes each part in the type that the analysis says."""
    signature = ",".join(f"{tensor}^{{{dtype}}}_4" for tensor, dtype in TENSORS.items())
    for seed in range(first, first + 50):
        draw = random.Random(f"types {seed}")
        program = parse(f"in {signature};out C^{{f64}}_4;L^4_i[C_i={random_expression(draw, draw.randrange(1, 4))};]")
        inputs = {
            tensor: np.array(
                [draw.choice([0.1, 1.7, -2.3, 3.0] if is_float(dtype) else [0, 1, 2, -1]) for _ in range(4)]
            )
            for tensor, dtype in TENSORS.items()
        }
        numpy_types = {"f16": np.float16, "bf16": np.float16, "f64": np.float64, "i8": np.int8, "i32": np.int32,
                       "i64": np.int64, "bool": np.bool_}  # fmt: skip
        arrays = {t: a.astype(numpy_types.get(TENSORS[t], np.float32)) for t, a in inputs.items()}
        arrays["G"] = np.array([1.5, -0.25, 3.0, 0.5], dtype=np.float32)  # bf16 numbers
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            expected = interpret(program, arrays)["C"]
            equation = program.body[0].body[0]  # type: ignore[union-attr]
            assert isinstance(equation, Equation)
            for within, part in walk_expression(equation.value, (1,)):
                kind = type_of(part, TENSORS)
                if not isinstance(kind, Weak):
                    changed = replace_expression_at(program, Place((0, 0), within), Cast(kind, part))
                    found = interpret(changed, arrays)["C"]
                    np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}: {kind} at {within}")


@pytest.mark.parametrize("seed", range(40))
def test_types_found_once_are_those_of_each_alone(seed: int) -> None:
    program = random_program(seed)
    kinds = Kinds(dtypes(program))
    parts = [part for _, part in walk_places(program)]
    for part in (*parts, *reversed(parts)):
        assert kinds.of(part) == type_of(part, dtypes(program))
