"""The constants at the top of a file: found, typed, and replaced as text."""

import ast
from typing import Any

import pytest

from stepTP.given.constants import ConstantError, constants, parse_value, with_constants

CODE = '''"""Ä file."""
batch_size = 16
width: int = 4  # of one
shape = (
    8,
    9,
)
sizes, rate = [1, 2], 0.5
bias = True
mode = "max"
double = batch_size * 2


def f():
    batch_size = 3
    return batch_size
'''


def run(code: str) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(code, scope)
    return scope


def test_literals_are_found() -> None:
    assert constants(CODE) == {
        "batch_size": 16, "width": 4, "shape": (8, 9), "sizes": [1, 2], "rate": 0.5, "bias": True, "mode": "max",
    }  # fmt: skip


def test_values_are_replaced_where_they_stand() -> None:
    values = {
        "batch_size": 2, "width": 5, "shape": [3, 4, 5], "sizes": (6,), "rate": 1, "bias": False, "mode": "sum",
    }  # fmt: skip
    found = run(with_constants(CODE, values))
    wanted = {**values, "shape": (3, 4, 5), "sizes": [6], "rate": 1.0, "double": 4}
    assert {name: found[name] for name in wanted} == wanted
    assert all(type(found[name]) is type(wanted[name]) for name in wanted)
    assert found["f"]() == 3


def test_all_else_stays_as_it_is() -> None:
    assert with_constants(CODE, {}) == CODE
    changed = with_constants(CODE, {"width": 12})
    assert changed == CODE.replace("width: int = 4", "width: int = 12")
    assert run(with_constants(CODE, {"double": 7}))["double"] == 7


def test_a_name_that_is_assigned_twice_is_replaced_twice() -> None:
    assert with_constants("a = 1\nb = a\na = 2\n", {"a": 5}) == "a = 5\nb = a\na = 5\n"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("batchsize", 2, "assigns no batchsize at its top level: did you mean batch_size?"),
        ("zzz", 2, "it assigns batch_size, width, shape, sizes, rate, bias, mode, double"),
        ("width", True, "give an integer"),
        ("width", "a", "give an integer"),
        ("rate", "a", "give a number"),
        ("bias", 1, "give true or false"),
        ("shape", 3, "give a tuple, like"),
        ("mode", 3, "give a value like 'max'"),
    ],
)
def test_what_cannot_stand_there(name: str, value: Any, message: str) -> None:
    with pytest.raises(ConstantError, match=message.replace("?", r"\?")):
        with_constants(CODE, {name: value})


def test_values_as_people_write_them() -> None:
    texts = ("3", "0.5", "1e-5", "(2, 3)", "[2]", "true", "False", "max", "-1", "'7'")
    assert [parse_value(text) for text in texts] == [3, 0.5, 1e-5, (2, 3), [2], True, False, "max", -1, "7"]


def test_no_python_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        with_constants("a = (", {"a": 1})
    assert ast.parse(with_constants("a = 'w'", {"a": "x\ny"}))
