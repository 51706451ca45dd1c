"""Splits: whole families and whole structures, by shares that the configuration names."""

from collections import Counter

import pytest

from stepTP.config import ConfigError, Splits, parse_config
from stepTP.splits import TRAIN, Part, part_of


def test_a_family_is_held_out_whole() -> None:
    settings = Splits(test_families=("mlp",), validation=0, test=0)
    assert {part_of(settings, 0, "mlp", f"k{n}") for n in range(50)} == {Part("test", "family")}
    assert {part_of(settings, 0, "softmax", f"k{n}") for n in range(50)} == {TRAIN}


def test_shares_are_those_asked_for_and_a_structure_has_one_split() -> None:
    settings = Splits(validation=0.1, test=0.2)
    parts = Counter(part_of(settings, 0, "mlp", f"k{n}").split for n in range(4000))
    assert parts["validation"] == pytest.approx(400, abs=80)
    assert parts["test"] == pytest.approx(800, abs=110)
    for n in range(50):
        assert part_of(settings, 0, "mlp", f"k{n}") == part_of(settings, 0, "softmax", f"k{n}")
    assert [part_of(settings, 1, "mlp", f"k{n}") for n in range(50)] != [
        part_of(settings, 0, "mlp", f"k{n}") for n in range(50)
    ]


def test_something_must_be_left_to_train_on() -> None:
    with pytest.raises(ConfigError, match="leave no program to train on"):
        parse_config("name: a\nsplits: {validation: 0.5, test: 0.5}")
