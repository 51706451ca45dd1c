"""Subscript arithmetic against evaluation: whatever is simplified keeps its value and its range."""

import itertools
import random
from math import prod

import pytest

from leir.printer import expression_text
from leir.syntax import Binary, Expr, Integer, Unary, Variable
from stepTP.frontend.indices import (
    Index,
    delinearised,
    expression,
    inside,
    linear,
    loop_index,
    quotient,
    remainder,
    reshaped,
)  # fmt: skip


def value(e: Expr, variables: dict[str, int]) -> int:
    match e:
        case Integer(number):
            return number
        case Variable(name):
            return variables[name]
        case Unary("-", operand):
            return -value(operand, variables)
        case Binary(op, left, right):
            a, b = value(left, variables), value(right, variables)
            return {"+": a + b, "-": a - b, "*": a * b, "//": a // b if b else 0, "%": a % b if b else 0}[op]
    raise AssertionError(e)


def points(extents: dict[str, int]) -> list[dict[str, int]]:
    ranges = [range(extent) for extent in extents.values()]
    return [dict(zip(extents, values, strict=True)) for values in itertools.product(*ranges)]


@pytest.mark.parametrize("seed", range(60))
def test_random_expressions_keep_value_and_range(seed: int) -> None:
    draw = random.Random(f"indices/{seed}")
    extents = {name: draw.choice([2, 3, 4, 5, 6]) for name in "ijk"}
    index, raw = Index(), Integer(0)
    raw_value: list[int] = [0] * prod(extents.values())
    everywhere = points(extents)
    for _ in range(draw.randint(2, 7)):
        match draw.choice(["add", "add", "scale", "shift", "quotient", "remainder", "minus"]):
            case "add":
                name, factor = draw.choice("ijk"), draw.choice([1, 1, 2, 3, 4, 6, 12])
                index = index + loop_index(name, extents[name]) * factor
                raw_value = [v + p[name] * factor for v, p in zip(raw_value, everywhere, strict=True)]
            case "minus":
                name = draw.choice("ijk")
                index = index - loop_index(name, extents[name])
                raw_value = [v - p[name] for v, p in zip(raw_value, everywhere, strict=True)]
            case "scale":
                factor = draw.choice([2, 3, -1])
                index, raw_value = index * factor, [v * factor for v in raw_value]
            case "shift":
                number = draw.randint(-7, 7)
                index, raw_value = index + number, [v + number for v in raw_value]
            case "quotient":
                divisor = draw.choice([1, 2, 3, 4, 6, 12])
                index, raw_value = quotient(index, divisor), [v // divisor for v in raw_value]
            case "remainder":
                divisor = draw.choice([1, 2, 3, 4, 6, 12])
                index, raw_value = remainder(index, divisor), [v % divisor for v in raw_value]
    shown = [value(expression(index), point) for point in everywhere]
    assert shown == raw_value, expression_text(expression(index))
    assert index.low <= min(shown) and max(shown) <= index.high
    assert raw == Integer(0)


@pytest.mark.parametrize("seed", range(60))
def test_chains_of_reshapes_keep_the_element(seed: int) -> None:
    draw = random.Random(f"reshapes/{seed}")
    size = draw.choice([12, 24, 36, 48, 60])
    shapes = [shape_of(size, draw) for _ in range(draw.randint(2, 4))]
    first, last = shapes[0], shapes[-1]
    extents = {name: extent for name, extent in zip("ijklmnop", last, strict=False) if extent > 1}
    point = tuple(
        loop_index(name, extent) if extent > 1 else Index() for name, extent in zip("ijklmnop", last, strict=False)
    )
    indices = point
    for outer, inner in itertools.pairwise(reversed(shapes)):
        indices = reshaped(indices, outer, inner)
    for variables in points(extents):
        outer_position = value(expression(linear(point, last)), variables)
        assert outer_position == value(expression(linear(indices, first)), variables)
        found = [value(expression(index), variables) for index in indices]
        assert all(0 <= at < extent for at, extent in zip(found, first, strict=True))
    if first == last:
        assert indices == point


def shape_of(size: int, draw: random.Random) -> tuple[int, ...]:
    shape: list[int] = []
    while size > 1:
        factor = draw.choice([d for d in range(2, size + 1) if size % d == 0])
        shape.append(factor)
        size //= factor
        if draw.random() < 0.2:
            shape.append(1)
    draw.shuffle(shape)
    return tuple(shape)


@pytest.mark.parametrize("shape", [(4, 6), (2, 3, 4), (24,), (2, 2, 2, 3), (1, 24, 1)], ids=str)
def test_reshaping_back_is_the_identity(shape: tuple[int, ...]) -> None:
    names = iter("ijklm")
    point = tuple(loop_index(next(names), extent) if extent > 1 else Index() for extent in shape)
    for other in [(24,), (4, 6), (8, 3), (3, 8), (2, 12), (6, 2, 2), (12, 2)]:
        there = reshaped(point, shape, other)
        assert reshaped(there, other, shape) == point, [expression_text(expression(i)) for i in there]


def test_what_is_known_goes() -> None:
    i, j = loop_index("i", 4), loop_index("j", 5)

    def text(index: Index) -> str:
        return expression_text(expression(index))

    assert text(quotient(i * 5 + j, 5)) == "i"
    assert text(remainder(i * 5 + j, 5)) == "j"
    assert text(quotient(i * 5 + j, 10)) == "i//2"
    assert text(remainder(i * 5 + j, 10)) == "i%2*5+j"
    assert text(quotient(quotient(i * 5 + j, 2), 3)) == "(i*5+j)//6"
    assert text(quotient(i, 2) * 2 + remainder(i, 2)) == "i"
    assert text(Index((), 3) - i) == "3-i"
    assert text(i * -1) == "-i"
    assert text(i * 2 - 1) == "i*2-1"
    assert text(Index()) == "0"
    assert [text(x) for x in delinearised(i * 5 + j, (4, 5))] == ["i", "j"]


def test_only_conditions_that_may_fail_are_written() -> None:
    i = loop_index("i", 4)
    assert [expression_text(c) for c in inside(i - 1, 0, 3)] == ["0<=i-1"]
    assert [expression_text(c) for c in inside(i + 1, 0, 4)] == ["i+1<4"]
    assert inside(i, 0, 4) == ()
