"""The algebraic strategies in floats: what they make of a program lies within what verification allows for it.

Random expressions, some of temporaries, are rewritten by every legal step of every algebraic strategy, on inputs that
are hard on floats: magnitudes of 1e4, zeros, equal values, nearly opposite ones, denormals. The interpreter runs the
result, and every element must lie within the bounds that `stepTP.verify.analysis` derives from the program before.
"""

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from leir.check import check
from leir.interp import interpret
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import DType, Program
from stepTP.verify.analysis import analyse
from strategies.base import Refused, Strategy
from strategies.catalog import print_step, strategy
from tests.programs import keyed
from tests.strategies.disguises import ALGEBRAIC

SIZE = 64
STRATEGIES = tuple(strategy(name) for name in ALGEBRAIC)
DTYPES: tuple[DType, ...] = ("f32", "f32", "f16", "f64")
ATOMS = (
    "A_i",
    "W_i",
    "X_i",
    "2.0",
    "0.1",
    "1.0",
    "tanh(A_i)",
    "abs(W_i)",
    "exp(min(X_i,1.0))",
    "F_i",
    "G_i",
    "F_i**2.0",
)
TEMPORARIES = ("1.0+A_i*A_i", "2.5+tanh(X_i)", "abs(W_i)+0.5", "1.0+exp(min(A_i,2.0))")
FREE = ("A_i-W_i", "A_i*W_i", "X_i*0.3+A_i")


def expression(draw: random.Random, depth: int) -> str:
    """A sum, product or quotient; divisors are temporaries that stay away from zero, or such sums."""
    if depth == 0:
        return draw.choice(ATOMS)
    match draw.choice(("sum", "sum", "product", "shared", "quotient", "square", "sign", "cancels")):
        case "sum":
            parts = [expression(draw, depth - 1) for _ in range(draw.choice((2, 2, 3)))]
            return "(" + "".join(f"{draw.choice('+-') if n else ''}{part}" for n, part in enumerate(parts)) + ")"
        case "product":
            return f"{expression(draw, depth - 1)}*{expression(draw, depth - 1)}"
        case "shared":
            factor = draw.choice(ATOMS)
            others = [expression(draw, depth - 1) for _ in range(2)]
            last = draw.choice(("", "", f"{draw.choice('+-')}{draw.choice(ATOMS)}"))
            return f"({factor}*{others[0]}{draw.choice('+-')}{others[1]}*{factor}{last})"
        case "quotient":
            divisor = draw.choice(("F_i", "F_i", "F_i", "(2.0+abs(A_i))", "(F_i*F_i)"))
            top = expression(draw, depth - 1)
            return f"({top}/{divisor}{draw.choice('+-')}{expression(draw, depth - 1)}/{divisor})"
        case "square":
            a, b = draw.choice(ATOMS), draw.choice(ATOMS)
            return draw.choice((f"({a}*{a}-{b}*{b})", f"({a}*{a}+2.0*{a}*{b}+{b}*{b})", f"({a}+{b})**2.0"))
        case "sign":
            return f"(-({expression(draw, depth - 1)}))"
        case _:
            a, b = expression(draw, depth - 1), draw.choice(("F_i", "A_i", "W_i"))
            return draw.choice((f"({a}+{b}-{b})", f"({a})*F_i/F_i", f"({a}*F_i)/(F_i*F_i)", f"({a}-{b}+{b})"))


def program(seed: int) -> Program:
    draw = keyed("algebra", seed)
    dtype = draw.choice(DTYPES)
    value = expression(draw, draw.choice((1, 2, 2, 3)))
    value = draw.choice((value, value, value, f"tanh({value})", f"{value}*X_i*W_i", f"A_i*A_i*W_i+{value}"))
    text = (
        f"in A^{{{dtype}}}_{{{SIZE}}},W^{{{dtype}}}_{{{SIZE}}},X^{{{dtype}}}_{{{SIZE}}};out C^{{{dtype}}}_{{{SIZE}}};"
        f"L^{{{SIZE}}}_i[F_i={draw.choice(TEMPORARIES)};] L^{{{SIZE}}}_i[G_i={draw.choice(FREE)};]"
        f"L^{{{SIZE}}}_i[C_i={value};]"
    )
    return parse(text)


def stress(dtype: DType, seed: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Inputs by kind."""
    array = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    draw = np.random.default_rng(seed)
    normal = {name: draw.standard_normal(SIZE) for name in "AWX"}
    smallest = float(np.finfo(array).smallest_subnormal)
    kinds = {
        "normal": normal,
        "large": {name: values * 1e4 for name, values in normal.items()},
        "zeros": {name: values * draw.integers(0, 2, SIZE) for name, values in normal.items()},
        "equal": dict.fromkeys("AWX", normal["A"]),
        "opposite": {"A": normal["A"], "W": -normal["A"] * (1 + 1e-3 * draw.integers(0, 3, SIZE)), "X": normal["A"]},
        "denormal": {name: smallest * draw.integers(-9, 10, SIZE) for name in "AWX"},
        "mixed": {name: np.exp2(draw.integers(-126, 14, SIZE)) * draw.choice([-1.0, 1.0], SIZE) for name in "AWX"},
    }
    for kind, values in kinds.items():
        yield kind, {name: value.astype(array) for name, value in values.items()}


def why_outside(before: Program, after: Program, seed: int) -> str:
    """Where a finite result leaves what verification allows for the program before; empty if nowhere."""
    for kind, inputs in stress(before.inputs[0].dtype, seed):
        (allowed,) = analyse(before, {name: value.astype(np.float64) for name, value in inputs.items()}).values()
        found = interpret(after, inputs)["C"].astype(np.float64)
        finite = np.isfinite(interpret(before, inputs)["C"])  # inf * 0 of an overflow is NaN before as after
        bounded = np.isfinite(allowed.error) & np.isfinite(allowed.value) & finite
        with np.errstate(invalid="ignore"):
            bad = bounded & ~(np.abs(found - allowed.value) <= allowed.error)
        if bad.any():
            at = int(np.argmax(bad))
            there = {name: float(value[at]) for name, value in inputs.items()}
            return f"{kind} {there}: {found[at]} is not within {allowed.error[at]:.3g} of {allowed.value[at]}"
    return ""


def judged(seeds: range, counts: Counter[str]) -> list[str]:
    """Every legal step on the programs of these seeds that leaves the bounds."""
    wrong: list[str] = []
    for seed in seeds:
        before = program(seed)
        assert not check(before), to_text(before)
        for cls in STRATEGIES:
            steps: list[Strategy] = list(cls.candidates(before))
            for step in keyed("algebra", seed, cls.name).sample(steps, min(3, len(steps))):
                try:
                    after = step.apply(before).program
                except Refused as refused:
                    counts[f"{cls.name} refused, {refused.fact.name}"] += 1
                    continue
                counts[cls.name] += 1
                if why := why_outside(before, after, seed):
                    wrong.append(f"{why}\n{print_step(step)} on\n{to_text(before)}gives\n{to_text(after)}")
    return wrong


def test_legal_steps_stay_within_what_verification_allows() -> None:
    counts: Counter[str] = Counter()
    wrong = judged(range(16), counts)
    assert not wrong, "\n".join(wrong[:5])
    assert all(counts[cls.name] for cls in STRATEGIES), counts


@pytest.mark.slow
def test_many_legal_steps_stay_within_what_verification_allows(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    wrong = judged(range(1000, 4000), counts)
    with capsys.disabled():
        print("\n" + "\n".join(f"{count:6} {what}" for what, count in sorted(counts.items())))
    assert not wrong, "\n".join(wrong[:5])
