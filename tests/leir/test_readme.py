"""The programs of the language's introduction: parsed, checked, printed, run, and compared with NumPy."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from leir.check import check
from leir.interp import interpret
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from tests.programs import random_inputs

Arrays = dict[str, NDArray[np.generic]]

README = (Path(__file__).parents[2] / "leir" / "README.md").read_text(encoding="utf-8")
PROGRAMS: dict[str, str] = dict(re.findall(r"```leir (.*?)\n(.*?)```", README, re.DOTALL))


def softmax(a: Arrays) -> NDArray[np.generic]:
    weights = np.exp(a["A"] - a["A"].max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


def convolution(a: Arrays) -> NDArray[np.generic]:
    padded = np.pad(a["A"], ((0, 0), (1, 1)))
    return sum((padded[:, r : r + 10] * a["W"][:, r : r + 1]).sum(0) for r in range(3))


EXPECTED: dict[str, Callable[[Arrays], NDArray[np.generic]]] = {
    "add and clip": lambda a: np.maximum(a["A"] + a["D"], 0),
    "product and bias": lambda a: a["A"] @ a["W"] + a["X"],
    "softmax": softmax,
    "padded convolution": convolution,
    "tail and powers": lambda a: 1 + a["A"] + a["A"] ** 2 + a["A"] ** 3,
    "table look-up": lambda a: a["A"][a["I"]] + 0.5 * a["A"][np.clip(a["J"], 0, 6)],
    "running maximum": lambda a: np.maximum.accumulate(a["A"], axis=1),
    "tiled product": lambda a: a["A"] @ a["W"],
}


def test_the_introduction_has_these_programs() -> None:
    assert list(PROGRAMS) == list(EXPECTED)


def program_of(name: str) -> Program:
    return parse(PROGRAMS[name], name)


@pytest.mark.parametrize("name", EXPECTED)
def test_is_well_formed(name: str) -> None:
    assert check(program_of(name)) == ()


@pytest.mark.parametrize("name", EXPECTED)
def test_is_written_as_it_prints(name: str) -> None:
    lines = (line.strip() for line in PROGRAMS[name].splitlines())
    assert "".join(lines) == to_text(program_of(name)).replace("\n", "")


@pytest.mark.parametrize("scalar", [False, True])
@pytest.mark.parametrize("name", EXPECTED)
def test_computes_what_numpy_does(name: str, scalar: bool) -> None:
    program = program_of(name)
    inputs = random_inputs(program, name)
    wide = {key: array.astype(np.float64) if array.dtype == np.float32 else array for key, array in inputs.items()}
    np.testing.assert_allclose(
        interpret(program, inputs, scalar=scalar)["C"], EXPECTED[name](wide), rtol=2e-5, atol=1e-5
    )


def test_the_race_that_the_introduction_names_is_refused() -> None:
    racing = PROGRAMS["running maximum"].replace("L^5_{j=1}", "P^5_{j=1}")
    assert [d.code for d in check(parse(racing))] == ["loop-carries-dependence"]
