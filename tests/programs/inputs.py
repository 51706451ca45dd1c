"""Inputs for programs, by seed."""

import hashlib
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.check import input_ranges
from leir.interp.arithmetic import round_to
from leir.syntax import Program

InputKind = Literal["normal", "integers", "wide"]


def random_inputs(program: Program, seed: int | str, kind: InputKind = "normal") -> dict[str, NDArray[np.generic]]:
    """Arrays for a program's inputs, gather preconditions respected.

    `normal`: standard normal floats; `integers`: floats that are small integers, so that sums and products are exact;
    `wide`: magnitudes over many powers of two, signs of both kinds, some zeros. Integers are small, and indices where
    the program reads them in a subscript.
    """
    ranges = input_ranges(program)
    result: dict[str, NDArray[np.generic]] = {}
    for declaration in program.inputs:
        key = hashlib.sha256(repr(("inputs", seed, kind, declaration.tensor)).encode()).digest()
        draw = np.random.default_rng(int.from_bytes(key[:8], "little"))
        if declaration.dtype == "bool":
            result[declaration.tensor] = draw.integers(0, 2, declaration.shape).astype(np.bool_)
        elif declaration.dtype in ("i8", "i32", "i64"):
            low, high = ranges.get(declaration.tensor, (-5, 5))
            values = draw.integers(low, high + 1, declaration.shape)
            result[declaration.tensor] = values.astype(array_type(declaration.dtype))
        else:
            values = _floats(draw, declaration.shape, kind)
            if declaration.dtype == "bf16":
                result[declaration.tensor] = np.asarray(round_to("bf16", values), np.float32)
            else:
                result[declaration.tensor] = values.astype(array_type(declaration.dtype))
    return result


def _floats(draw: np.random.Generator, shape: tuple[int, ...], kind: InputKind) -> NDArray[np.float64]:
    match kind:
        case "normal":
            return np.asarray(draw.standard_normal(shape))
        case "integers":
            return np.asarray(draw.integers(-3, 4, shape), np.float64)
        case "wide":
            sizes = np.exp2(draw.uniform(-12, 6, shape)) * draw.choice([-1.0, 1.0], shape)
            return np.asarray(np.where(draw.random(shape) < 0.05, 0.0, sizes))
