"""Signs and bounds: claims with their evidence, and a property: what evaluation gives lies within the bounds."""

import math
import random
import warnings
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest

from leir.analysis import intervals
from leir.analysis import ranges as solver
from leir.analysis.intervals import Range, everything, span
from leir.analysis.ranges import evidence, ranges
from leir.analysis.values import Write
from leir.interp import InterpreterError, interpret
from leir.parser import parse
from leir.syntax import Declaration, DType, Place, Program
from tests.programs import random_program
from tests.programs.inputs import random_inputs

SOFTMAX = parse(
    "in A_{16,512};out C_{16,512};L^{16,512}_{i,j}[D_i max=A_{i,j};]L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)
VALUE = Place((0, 0), (1,))


def of(expression: str, **inputs: Range) -> Range:
    """The range of an expression of A, D (f32), F (f64), H (f16), I (i32), J (i8), Q (bool) and i in 0..7."""
    text = f"in A_8,D_8,F^{{f64}}_8,H^{{f16}}_8,I^{{i32}}_8,J^{{i8}}_8,Q^{{bool}}_8;out C_8;L^8_i[C_i={expression};]"
    return ranges(parse(text), inputs).at(VALUE)


UNIT = span(0.0, 1.0, "f32")
LARGE = span(1.0, 3e38, "f32")


@pytest.mark.parametrize(
    ("expression", "low", "high", "nan", "zero"),
    [
        ("A_i", -math.inf, math.inf, True, True),
        ("I_i", -(2**31), 2**31 - 1, False, True),
        ("i", 0, 7, False, True),
        ("i+1", 1, 8, False, False),
        ("i*8+3", 3, 59, False, False),
        ("i//2", 0, 3, False, True),
        ("i%4", 0, 3, False, True),
        ("(i-4)%3", 0, 2, False, True),
        ("i-8", -8, -1, False, False),
        ("max(I_i,1)", 1, 2**31 - 1, False, False),
        ("min(max(I_i,0),7)", 0, 7, False, True),
        ("J_i+J_i", -128, 127, False, True),  # it may overflow, which is open
        ("cast(i32,J_i)+J_i", -256, 254, False, True),
        ("Q_i+Q_i", 0, 2, False, True),
        ("abs(A_i)", 0.0, math.inf, True, True),
        ("A_i*A_i", 0.0, math.inf, True, True),
        ("exp(A_i)", 0.0, math.inf, True, True),
        ("1.0+exp(A_i)", 1.0, math.inf, True, False),
        ("max(A_i,0.0)", 0.0, math.inf, True, True),
        ("sqrt(1.0+A_i*A_i)", 1.0, math.inf, True, False),
        ("if_then_else(A_i>0.0,A_i,1.0)", 0.0, math.inf, False, False),
        ("if_then_else(A_i>=2.0,A_i,3.0)", 2.0, math.inf, False, False),
        ("if_then_else(A_i!=0.0,A_i,1.0)", -math.inf, math.inf, True, False),
        ("if_then_else(A_i==1.0,A_i,1.0)", 1.0, 1.0, False, False),
        ("if_then_else(0.0<A_i&&A_i<2.0,A_i,1.0)", 0.0, 2.0, False, False),
        ("if_then_else(!(A_i<1.0),A_i,1.0)", 1.0, math.inf, True, False),
        ("if_then_else(A_i<=0.0||A_i>1.0,0.5,A_i)", 0.0, 1.0, True, False),
        ("A_i-A_i", -math.inf, math.inf, True, True),
        ("i-i", 0, 0, False, True),
    ],
)  # fmt: skip
def test_bounds(expression: str, low: float, high: float, nan: bool, zero: bool) -> None:
    found = of(expression)
    assert (found.low, found.high, found.nan, found.zero) == (low, high, nan, zero)


def test_exp_is_positive_only_where_its_argument_is_bounded_below() -> None:
    assert of("exp(A_i)", A=span(-50.0, 50.0, "f32")).low > 0
    assert of("exp(A_i)", A=span(-200.0, 0.0, "f32")).low == 0
    assert of("exp(A_i)", A=span(-math.inf, 0.0, "f32")).zero
    assert of("exp(F_i)", F=span(-200.0, 0.0, "f64")).low > 0


def test_overflow_is_seen_in_the_type_that_computes() -> None:
    assert math.isinf(of("A_i*A_i", A=LARGE).high)
    assert of("cast(f64,A_i)*A_i", A=LARGE).finite
    assert math.isinf(of("exp(A_i)", A=span(0.0, 89.0, "f32")).high)
    assert of("exp(F_i)", F=span(0.0, 89.0, "f64")).finite
    assert math.isinf(of("cast(f16,A_i)", A=span(0.0, 70000.0, "f32")).high)
    assert of("cast(f16,A_i)", A=span(0.0, 60000.0, "f32")).finite
    assert of("H_i*H_i", H=span(0.0, 60000.0, "f32")).finite  # f16 computes in f32


def test_underflow_is_seen() -> None:
    tiny = span(1e-30, 1.0, "f32")
    assert of("A_i*A_i", A=tiny).zero
    assert not of("cast(f64,A_i)*A_i", A=tiny).zero
    assert of("cast(f16,A_i)", A=tiny).zero
    assert of("cast(f32,1e-46)").zero
    assert not of("cast(f64,1e-46)").zero


def test_nan_arises_only_where_it_can() -> None:
    infinite = span(0.0, math.inf, "f32")
    assert not of("A_i+D_i", A=infinite, D=infinite).nan
    assert of("A_i-D_i", A=infinite, D=infinite).nan
    assert of("A_i*D_i", A=infinite, D=UNIT).nan
    assert not of("A_i*D_i", A=infinite, D=span(0.5, 1.0, "f32")).nan
    assert of("A_i/D_i", A=UNIT, D=UNIT).nan
    assert not of("A_i/D_i", A=span(1.0, 2.0, "f32"), D=UNIT).nan
    assert of("sqrt(A_i)", A=span(-1.0, 1.0, "f32")).nan
    assert of("log(A_i)", A=span(-1.0, 1.0, "f32")).nan
    assert not of("log(A_i)", A=UNIT).nan
    assert of("sin(A_i)", A=infinite).nan


def test_a_comparison_that_fails_for_the_other_sides_nan_proves_nothing() -> None:
    negative, large = span(-1.0, 1.0, "f32"), span(0.0, 10.0, "f32")
    assert of("if_then_else(log(A_i)<D_i,0.0,D_i)", A=negative, D=large).high == 10
    assert of("if_then_else(log(A_i)<D_i,0.0,D_i)", A=UNIT, D=large).high < 1


def test_a_divisor_of_either_zero_gives_either_infinity() -> None:
    found = of("1.0/A_i", A=UNIT)
    assert (found.low, found.high) == (-math.inf, math.inf)
    found = of("1.0/A_i", A=span(0.5, 2.0, "f32"))
    assert 0 < found.low <= 0.5 and 2 <= found.high < 2.001


def test_temporaries_are_bounded_by_all_their_writes() -> None:
    program = parse(
        "in A_{4,8};out C_4;L^{4,8}_{i,j}[D_i+=abs(A_{i,j});]L^4_i[E_i=1.0+D_i;]L^4_i(i>1)[E_i=3.0;]L^4_i[C_i=E_i;]"
    )
    found = ranges(program)
    assert found.whole["D"].low == 0
    assert found.at(Place((3, 0), (1,))).low == 1


def test_a_count_is_exact_for_a_finished_sum_and_zero_while_it_runs() -> None:
    program = parse("in A_{4,8};out C_4,F_4;L^4_i[L^8_j[D_i+=1.0;C_i=D_i;]F_i=1.0;]L^4_i[F_i=D_i;]")
    found = ranges(program)
    assert found.at(Place((0, 0, 1), (1,))).low == 0
    after = found.at(Place((1, 0), (1,)))
    assert 7.99 < after.low <= 8.0 <= after.high < 8.01


def test_a_guarded_sum_has_one_term_at_least() -> None:
    program = parse("in A_8;out C;L^8_i(i>A_0)[D+=2.0;]C=D;")
    assert ranges(program).at(Place((1,), (1,))).low == 2


def test_a_maximum_is_above_its_terms() -> None:
    found = ranges(SOFTMAX)
    difference = found.at(Place((1, 0, 0), (1, 0)))
    assert difference.high == 0
    assert found.at(Place((1, 0, 0), (1,))).high < 1.0001
    other = parse(
        "in A_{16,512};out C_{16,512};L^{16,511}_{i,j}[D_i max=A_{i,j};]L^{16,512}_{i,j}[C_{i,j}=A_{i,j}-D_i;]"
    )
    assert ranges(other).at(Place((1, 0, 0), (1,))).high == math.inf
    changed = parse(
        "in A_{8,8};out C_{8,8};L^{8,8}_{i,j}[E_{i,j}=A_{i,j};]L^{8,8}_{i,j}[D_i max=E_{i,j};]"
        "L^{8,8}_{i,j}[E_{i,j}=E_{i,j}+1.0;]L^{8,8}_{i,j}[C_{i,j}=E_{i,j}-D_i;]"
    )
    assert ranges(changed).at(Place((3, 0, 0), (1,))).high == math.inf


def test_a_softmax_divides_by_one_or_more() -> None:
    found = ranges(SOFTMAX)
    assert 0.99999 < found.settled["E"].low <= 1
    divisor = Place((2, 0, 0), (1, 1))
    assert not found.at(divisor).zero
    assert "one of its terms is exp(0), where D is reached" in evidence(found, divisor)
    assert found.at(Place((1, 0, 0), (0,))).zero  # while the sum runs


@pytest.mark.parametrize(
    "sums",
    [
        "L^{16,511}_{i,j}[E_i+=exp(A_{i,j}-D_i);]",
        "L^{16,512}_{i,j}(A_{i,j}>0)[E_i+=exp(A_{i,j}-D_i);]",
        "L^{16,512}_{i,j}[E_i+=exp(A_{i,j}-D_{15-i});]",
        "L^{16,512}_{i,j}[E_{i}+=exp(A_{15-i,j}-D_i);]",
        "L^{16,512,8}_{i,j,k}[E_i+=exp(A_{i,j}-D_k);]",
        "L^{16,16}_{i,j}[E_i+=exp(A_{i,j}-D_i);]",
        "L^{16,512}_{i,j}[E_i+=exp(A_{i,511}-D_i);]",
        "L^{16,512}_{i,j}[E_i+=exp(2.0*A_{i,j}-D_i);]",
    ],
)
def test_other_sums_may_be_zero(sums: str) -> None:
    program = parse(
        f"in A_{{16,512}};out C_{{16,512}};L^{{16,512}}_{{i,j}}[D_i max=A_{{i,j}};]{sums}"
        "L^{16,512}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
    )
    assert ranges(program).settled["E"].zero


def test_running_values_are_widened_to_what_holds() -> None:
    program = parse("in A_8;out C_8;C_0=1.0;L^7_{i=1}[C_i=C_{i-1}*abs(A_i);]")
    assert ranges(program).whole["C"].low == 0
    growing = parse("in A_8;out C^{i32}_8;C_0=1;L^7_{i=1}[C_i=min(C_{i-1}+1,100);]")
    bounds = ranges(growing).whole["C"]
    assert bounds.low >= -(2**31) and bounds.high <= 100


def test_guards_hold_unless_their_tensor_is_written_below() -> None:
    kept = parse("in A^{i32}_8;out C_8;L^8_i[C_i=0.0;(A_i>3)[C_i=A_i;]]")
    assert ranges(kept).at(Place((0, 1, 0), (1,))).low == 4
    lost = parse("in A^{i32}_8;out C^{i32}_8;L^8_i[C_i=A_i;(C_i>3)[C_i=0;C_i=C_i;]]")
    assert ranges(lost).at(Place((0, 1, 1), (1,))).low < 4


def test_bounds_come_with_evidence() -> None:
    found = ranges(parse("in A_8;out C_8;L^8_i[C_i=1.0+exp(A_i);]"))
    assert evidence(found, VALUE) == (
        "1.0+exp(A_i) is in [1, inf] or NaN; exp(A_i) is in [0, inf] or NaN; "
        "A_i is in [-inf, inf] or NaN, as any value of its type is"
    )
    bounds = found.at(VALUE)
    assert (bounds.low, bounds.zero, bounds.finite, bounds.nan) == (1, False, False, True)
    assert evidence(found, Place((0, 0), (0, 0))) == "i is in [0, 7], as i is a loop variable"
    assert "by its one write" in evidence(ranges(SOFTMAX), Place((2, 0, 0), (1, 1)))


def test_nested_conditions_do_not_double_the_work() -> None:
    expression = "I_i"
    for _ in range(40):
        expression = f"if_then_else({expression}>0,I_i,2)"
    program = parse(f"in I^{{i32}}_8;out C_8;L^8_i[C_i=I_i//max({expression},1);]")
    assert ranges(program).at(Place((0, 0), (1, 1))).low == 1


def test_places_without_an_expression() -> None:
    for place in (Place((0,)), Place((0, 0), (2,)), Place((9,), (1,)), Place((0, 0), (1, 5))):
        with pytest.raises(LookupError):
            ranges(parse("in A_8;out C_8;L^8_i[C_i=-A_i;]")).at(place)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-45, -1e-45, 1e-38, 1e38, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan,
         88.8, -104.0, 65504.0, 70000.0, 1e-8, 2.0, -2.0, 0.1]  # fmt: skip
UNARY = ["exp", "expm1", "log", "log1p", "sqrt", "abs", "erf", "tanh", "sin", "cos", "floor", "round"]


def random_expression(draw: random.Random, depth: int) -> str:
    if depth == 0:
        return draw.choice(
            ["A_i", "D_i", "F_i", "H_i", "cast(i64,I_i)", "cast(i64,J_i)", "i", "1.5", "0.0", "2", "A_i", "D_i"]
        )
    one, two = random_expression(draw, depth - 1), random_expression(draw, draw.randrange(depth))
    return draw.choice([
        f"({one}+{two})", f"({one}-{two})", f"({one}*{two})", f"({one}/{two})", f"({one}*{one})", f"-{one}",
        f"max({one},{two})", f"min({one},{two})", f"{draw.choice(UNARY)}({one})", f"{draw.choice(UNARY)}({one})",
        f"if_then_else({one}<{two},{one},{two})", f"if_then_else({one}>0,{one},1)", f"cast(f16,{one})",
        f"cast(f64,{one})", f"abs(cast(f32,{one}))**{two}", f"cast(f32,{one})**2",
        f"if_then_else({one}!={two},{two},{one})",
    ])  # fmt: skip


def bounds_of(values: np.ndarray, dtype: DType) -> Range:
    numbers = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not len(numbers):
        return Range(math.inf, -math.inf, True, False, dtype)
    low, high = numbers.min().item(), numbers.max().item()
    nan = bool(values.dtype.kind == "f" and np.isnan(values).any())
    return Range(low, high, nan, bool((numbers == 0).any()), dtype)


def assert_within(values: np.ndarray, found: Range, about: str) -> None:
    for value in values.ravel().tolist():
        if isinstance(value, float) and math.isnan(value):
            assert found.nan, f"{about}: NaN, and the bounds say {found}"
        else:
            assert found.low <= value <= found.high, f"{about}: {value} outside {found}"
            assert value != 0 or found.zero, f"{about}: zero, and the bounds say {found}"


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_evaluation_stays_within_the_bounds(first: int) -> None:
    signature = "in A_8,D_8,F^{f64}_8,H^{f16}_8,I^{i32}_8,J^{i8}_8;out C^{f64}_8;"
    for seed in range(first, first + 100):
        draw = random.Random(f"expression {seed}")
        expression = random_expression(draw, draw.randrange(1, 4))
        program = parse(f"{signature}L^8_i[C_i={expression};]")
        pool = EDGES if draw.random() < 0.6 else [0.25, 1.0, 2.0, 5.0, 1e-3]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            inputs = {
                "A": np.array([draw.choice(pool) for _ in range(8)], dtype=np.float32),
                "D": np.array([draw.choice(pool) for _ in range(8)], dtype=np.float32),
                "F": np.array([draw.choice(pool) for _ in range(8)], dtype=np.float64),
                "H": np.array([draw.choice(pool) for _ in range(8)]).astype(np.float16),
                "I": np.array([draw.choice([0, 1, -1, 7, -100]) for _ in range(8)], dtype=np.int32),
                "J": np.array([draw.choice([0, 1, -1, 100, -128]) for _ in range(8)], dtype=np.int8),
            }
            found = interpret(program, inputs)["C"]
        given = {
            name: bounds_of(array, "f64" if name == "F" else "i32" if name == "I" else "i8" if name == "J" else "f32")
            for name, array in inputs.items()
            if not np.isnan(array).all()
        }
        for assume in (given, None):
            about = f"seed {seed}: {expression}"
            assert_within(found, ranges(program, assume).whole["C"], about)


@pytest.mark.parametrize("seed", range(40))
def test_outputs_of_random_programs_stay_within_the_bounds(seed: int) -> None:
    program = random_program(seed)
    for kind in ("normal", "integers", "wide"):
        arrays = random_inputs(program, seed, kind)
        given = {name: bounds_of(array, _computing(program, name)) for name, array in arrays.items() if array.size}
        try:
            outputs = interpret(program, arrays)
        except InterpreterError:
            continue  # a division by zero of these inputs, or such
        for name, values in outputs.items():
            assert_within(values, ranges(program, given).whole[name], f"{name} of seed {seed}")


def _computing(program: Program, name: str) -> DType:
    declaration: Declaration = next(d for d in program.inputs if d.tensor == name)
    return "f32" if declaration.dtype in ("f16", "bf16") else declaration.dtype


def test_rounding_outwards() -> None:
    from fractions import Fraction

    assert intervals.round_down(Fraction(1, 10), "f32") == np.float32(0.1) - np.float32(2**-27)
    assert intervals.round_down(Fraction(-1, 10), "f32") == -float(np.float32(0.1))
    for dtype, largest in (("f16", 65504.0), ("f32", float(np.finfo(np.float32).max))):
        assert intervals.largest(dtype) == largest  # type: ignore[arg-type]
        assert intervals.round_down(Fraction(largest) * 2, dtype) == largest  # type: ignore[arg-type]
        assert intervals.round_down(Fraction(-largest) * 2, dtype) == -math.inf  # type: ignore[arg-type]
    assert intervals.tiny("f32") == float(np.finfo(np.float32).smallest_subnormal)
    assert intervals.round_down(Fraction(intervals.tiny("f32")) / 2, "f32") == 0.0
    assert everything("bool") == span(0, 1, "bool")


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_rounding_down_gives_the_nearest_value_below(dtype: DType) -> None:
    """Against the steps between the type's values, in exact arithmetic."""
    bits, least = {"f16": (11, -14), "bf16": (8, -126), "f32": (24, -126), "f64": (53, -1022)}[dtype]
    top, draw = Fraction(intervals.largest(dtype)), random.Random(dtype)
    some = [Fraction(draw.randint(-(10**9), 10**9), draw.randint(1, 10**6)) for _ in range(300)]
    some += [
        sign * Fraction(2) ** draw.randint(-1080, 1030) * draw.randint(1, 9) for _ in range(300) for sign in (1, -1)
    ]
    ends = [top, top + 1, top * 2, Fraction(intervals.smallest_normal(dtype)), Fraction(intervals.tiny(dtype)) / 3]
    for value in (*some, *ends, *(-end for end in ends)):
        found = intervals.round_down(value, dtype)
        if value > top:
            assert found == float(top)
        elif value < -top:
            assert found == -math.inf
        else:
            exponent = max(least, math.frexp(found)[1] - 1) if found else least
            step = Fraction(2) ** (exponent - bits + 1)
            assert Fraction(found) <= value < Fraction(found) + step
            assert (Fraction(found) / step).denominator == 1
            assert math.copysign(1.0, found) == (-1.0 if value < 0 and found else 1.0)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_not_looked_at_again_has_the_bounds_that_it_would_get(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = random_program(seed)
    assume = {d.tensor: span(-2.0, 3.0, "f32") for d in program.inputs if d.dtype == "f32"}
    found = ranges(program, assume)

    def everything_reads_everything(writes: Mapping[str, tuple[Write, ...]]) -> dict[str, set[str]]:
        return {name: set(writes) for name in (*writes, *(d.tensor for d in program.inputs))}

    monkeypatch.setattr(solver, "_readers", everything_reads_everything)
    again = ranges(program, assume)
    assert (found.whole, found.settled, found.reasons) == (again.whole, again.settled, again.reasons)


@pytest.mark.parametrize(
    ("body", "low", "high"),
    [("(i>0)[C_i=D;]D=min(max(A_i,1.0),2.0);", 1.0, 2.0), ("(A_i<D)[C_i=A_i;]D=2.0;", -9.0, 2.0)],
)
def test_a_bound_that_is_found_later_reaches_what_reads_it(body: str, low: float, high: float) -> None:
    """In a value, and in a guard; both stand before the write that the next iteration reads."""
    found = ranges(parse(f"in A_8;out C_8;L^8_i[{body}]"), {"A": span(-9.0, 9.0, "f32")})
    assert (found.whole["C"].low, found.whole["C"].high) == (low, high)
