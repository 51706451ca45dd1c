"""Strategies find their places in disguise, and a disguise keeps what a program means."""

from pathlib import Path

import numpy as np
import pytest

from leir.interp import interpret
from strategies.catalog import names
from tests.programs import random_inputs
from tests.strategies.disguises import DISGUISES, UNDONE, VARIANTS, disguised, row, trials, wearing

# What a strategy finds at least, of 20, where that is not 90%: these still look for some patterns as they are written.
FLOORS = {
    "precompute_indices": 17,
}  # fmt: skip


@pytest.mark.parametrize("name", names())
def test_a_strategy_finds_most_of_a_few_variants(name: str) -> None:
    found = sum(step is not None for _, step in trials(name, 4))
    assert found >= 3, f"{found} of 4: python -m tests.strategies.disguises {name} --variants 4 --missed"


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_a_strategy_finds_its_share(name: str) -> None:
    results = list(trials(name))
    found = sum(step is not None for _, step in results)
    assert found >= FLOORS.get(name, 0.9 * VARIANTS), f"{found}: python -m tests.strategies.disguises {name} --missed"
    page = Path(__file__).with_name("README.md").read_text(encoding="utf-8").splitlines()
    assert row(name, results) in page, "python -m tests.strategies.disguises > tests/strategies/README.md"


def test_a_variant_computes_what_its_pattern_does() -> None:
    worn: dict[str, int] = {}
    for name in names():
        for number in range(4):
            pattern, variant = disguised(name, number)
            plain = wearing(pattern, [each for each in variant.worn if each == "retyped"], name, number).program
            inputs = random_inputs(plain, f"{name} {number}", "integers")
            arrays = list(inputs.values())
            if variant.transposed is not None:
                arrays[variant.transposed] = arrays[variant.transposed].swapaxes(0, 1)
            given = [np.stack([array, array]) if variant.batch else array for array in arrays]
            declared = [declaration.tensor for declaration in variant.program.inputs]
            found = list(interpret(variant.program, dict(zip(declared, given, strict=True))).values())
            for expected, values in zip(interpret(plain, inputs).values(), found, strict=False):
                for each in values if variant.batch else [values]:
                    np.testing.assert_array_equal(each, expected, err_msg=f"{name}, {number}: {variant.worn}")
            worn |= dict.fromkeys(variant.worn, 1)
    assert len(worn) >= len(DISGUISES)


def test_what_undoes_a_pattern_is_a_disguise_of_a_strategy() -> None:
    assert UNDONE.keys() <= set(names()) and {worn for each in UNDONE.values() for worn in each} <= DISGUISES.keys()
