"""What a lowered function takes: inputs, outputs, then the global temporaries as a workspace."""

import math
from typing import assert_never

from leir.analysis.access import Tensor, tensors
from leir.analysis.types import integer_range
from leir.syntax import DType, Program


def parameters(program: Program) -> tuple[Tensor, ...]:
    """The parameters in order: inputs, outputs, then `workspace(program)`."""
    known = tensors(program)
    return tuple(known[d.tensor] for d in (*program.inputs, *program.outputs)) + workspace(program)


def workspace(program: Program) -> tuple[Tensor, ...]:
    """The global temporaries: buffers that the caller provides, and may poison."""
    return tuple(t for t in tensors(program).values() if t.role == "temporary" and t.scope == "g")


def poison_value(dtype: DType) -> int | float | bool:
    """A value that shows where it is used: NaN, the least integer, true."""
    match dtype:
        case "f16" | "bf16" | "f32" | "f64":
            return math.nan
        case "i8" | "i32" | "i64":
            return integer_range(dtype)[0]
        case "bool":
            return True
        case _:
            assert_never(dtype)
