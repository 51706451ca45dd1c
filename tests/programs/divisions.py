"""Random programs of index arithmetic full of `//` and `%`: in subscripts, guards and values, under loops of any kind.

Factors, constants and divisors are of both signs, divisors powers of two or not. Dividends are often moved to where
they are never negative, as in a reversed loop: `(15 - k) // 8`.
"""

import hashlib
import random
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from leir.parser import parse
from leir.syntax import Program

_FACTORS = (1, 1, 1, -1, -1, -1, 2, -2, 3, -3, 4, -4, 8, -8, 16)
_CONSTANTS = (0, 0, 1, 3, 7, 15, 16, 31, -1, -4, -9)
_DIVISORS = (2, 3, 4, 5, 6, 7, 8, 12, 16)
_LARGEST = 4096  # elements of the input that is read

_Space = Mapping[str, NDArray[np.int64]]  # the values of each variable over all iterations


def random_divisions(seed: int | str) -> Program:
    """A well-formed program of one equation, the same for the same seed."""
    rng = random.Random(hashlib.sha256(repr(("divisions", seed)).encode()).digest())
    while (text := _text(rng)) is None:
        pass
    return parse(text, f"<divisions {seed}>")


def _text(rng: random.Random) -> str | None:
    """The text of a program, None where the tensor that it reads would be large."""
    sizes = [rng.choice((2, 3, 4, 5, 8)), rng.choice((2, 3, 4, 8, 16))]
    headers, variables, at = _loops(rng, sizes)
    space = dict(zip(variables, np.meshgrid(*variables.values(), indexing="ij"), strict=True))
    kept = [f"({_moved(_expression(rng, space, rng.randint(1, 3)), space)})" for _ in range(rng.randint(1, 2))]
    shape = [int(_values(index, space).max()) + 1 for index in kept]
    if np.prod(shape) > _LARGEST:
        return None
    value = f"A_{{{','.join(kept)}}}"
    if rng.random() < 0.4:
        value += f"+{_expression(rng, space, 2)}"
    guard = ""
    if rng.random() < 0.25:
        guard = f"({_expression(rng, space, 2)}{rng.choice(('<', '>='))}{_expression(rng, space, 1)})"
        value, guard = (f"if_then_else({guard},{value},-1)", "") if rng.random() < 0.5 else (value, guard)
    target = f"C_{{{','.join(at)}}}"
    equation = f"{headers}{guard}[{target}={value};]"
    written = "".join(f"L^{{{size}}}_{{{name}}}" for size, name in zip(sizes, "xy", strict=True))
    start = f"{written}[C_{{x,y}}=7;]" if guard else ""
    signature = f"in A^{{i32}}_{{{','.join(map(str, shape))}}};out C^{{i64}}_{{{','.join(map(str, sizes))}}};"
    return signature + start + equation


def _loops(rng: random.Random, sizes: list[int]) -> tuple[str, dict[str, NDArray[np.int64]], list[str]]:
    """Two loops, or one that is fused from two: headers, each variable's values, and the indices of the output."""
    rows, columns = sizes
    kinds = rng.choice((("L", "L"), ("L", "U"), ("L", "V"), ("P", "L"), ("B", "B"), ("B", "V"), ("P", "V")))
    if rng.random() < 0.25:
        name = "tx" if kinds[0] == "B" else "f"
        header = f"{kinds[0]}^{{{rows * columns}}}_{{{name}}}"
        return header, {name: np.arange(rows * columns)}, [f"{name}//{columns}", f"{name}%{columns}"]
    names = ["bx" if kinds[0] == "B" else "i", "tx" if kinds[1] == "B" else "j"]
    firsts = [rng.choice((0, 0, 1, 3)) if kind in "LP" else 0 for kind in kinds]
    headers = "".join(
        f"{kind}^{{{size}}}_{{{name}{f'={first}' if first else ''}}}"
        for kind, name, size, first in zip(kinds, names, sizes, firsts, strict=True)
    )
    values = {n: np.arange(f, f + s) for n, f, s in zip(names, firsts, sizes, strict=True)}
    return headers, values, [f"{n}-{f}" if f else n for n, f in zip(names, firsts, strict=True)]


def _expression(rng: random.Random, space: _Space, depth: int) -> str:
    part = rng.random()
    if depth == 0 or part > 0.9:
        return _sum(rng, space)
    if part < 0.6:
        dividend = _expression(rng, space, depth - 1)
        if rng.random() < 0.7:
            dividend = _moved(dividend, space)
        divisor = rng.choice(_DIVISORS) * (-1 if rng.random() < 0.15 else 1)
        return f"(({dividend}){rng.choice(('//', '%'))}{_number(divisor)})"
    if part < 0.8:
        return f"({_expression(rng, space, depth - 1)}{rng.choice('+-')}{_expression(rng, space, depth - 1)})"
    return f"({_expression(rng, space, depth - 1)}*{_number(rng.choice((-4, -1, 2, 3, 8)))})"


def _sum(rng: random.Random, space: _Space) -> str:
    """A constant and variables with factors, in any order."""
    terms = [_number(rng.choice(_CONSTANTS))]
    for name in space:
        if rng.random() < 0.75:
            factor = rng.choice(_FACTORS)
            terms.append(name if factor == 1 else f"-{name}" if factor == -1 else f"{name}*{_number(factor)}")
    rng.shuffle(terms)
    return f"({'+'.join(terms)})"


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def _moved(expression: str, space: _Space) -> str:
    """The expression, and what makes its least value 0 or leaves it above."""
    least = int(_values(expression, space).min())
    return expression if least >= 0 else f"{expression}+{-least}"


def _values(expression: str, space: _Space) -> NDArray[np.int64]:
    """What an expression is in each iteration: Python's integers divide as the language's do."""
    return np.asarray(eval(expression, {}, dict(space)))
