"""Identities of exponentials, roots and logarithms under stress: large, zero, equal and denormal inputs."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.edit import with_dtypes
from leir.interp import interpret
from leir.parser import parse
from leir.syntax import DType, Program
from strategies.base import Refused
from strategies.catalog import strategy
from tests.strategies.cases import read_cases
from tests.strategies.walks import PATTERNS, tried

NAMES = ("powsimp", "expand_powsimp", "logsimp", "expand_log")
ROUNDOFF: dict[DType, float] = {"f32": 2.0**-24, "f16": 2.0**-11}
STRESS: Mapping[str, tuple[float, ...]] = {
    "large": (1e4, -1e4, 9999.0, -3e3), "zero": (0.0, -0.0), "equal": (1.0,), "denormal": (1e-7, -6e-8, 3e-41, -1e-45),
    "mixed": (1e4, 0.0, -1e-41, 1.0, -1.0, 0.5, -2.5),
}  # fmt: skip


def stressed(program: Program, kind: str) -> dict[str, NDArray[np.generic]]:
    """Inputs of one kind, in another order for each input."""
    values = STRESS[kind]
    result: dict[str, NDArray[np.generic]] = {}
    for number, declaration in enumerate(program.inputs):
        count = int(np.prod(declaration.shape))
        drawn = [values[(n * (number + 1) + number) % len(values)] for n in range(count)]
        result[declaration.tensor] = np.array(drawn).astype(array_type(declaration.dtype)).reshape(declaration.shape)
    return result


def programs(dtype: DType) -> list[Program]:
    """The strategies' legal cases and the pattern of functions, in a type."""
    texts = [c.before for name in NAMES for c in read_cases(name) if c.outcome != "refused"]
    texts += [text for text in PATTERNS if "sqrt" in text]
    changed: dict[DType, DType] = {"f32": dtype, "f16": dtype}
    return [with_dtypes(parse(text), changed) for text in dict.fromkeys(texts)]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_what_is_finite_stays_so_and_keeps_its_digits(dtype: DType) -> None:
    legal = 0
    for program in programs(dtype):
        for name in NAMES:
            for step in strategy(name).candidates(program):
                outcome = tried(step, program)
                if isinstance(outcome, Refused):
                    continue
                legal += 1
                for kind in STRESS:
                    inputs = stressed(program, kind)
                    before, after = interpret(program, inputs), interpret(outcome.program, inputs)
                    for tensor, expected in before.items():
                        old, new = expected.astype(np.float64), after[tensor].astype(np.float64)
                        shown = f"{step} on {kind} {dtype}"
                        np.testing.assert_array_equal(np.isfinite(old), np.isfinite(new), shown)
                        old, new = old[np.isfinite(old)], new[np.isfinite(old)]
                        allowed = 64 * ROUNDOFF[dtype] * np.maximum(np.abs(old), 1.0)
                        assert np.all(np.abs(old - new) <= allowed), shown
    assert legal >= 20
