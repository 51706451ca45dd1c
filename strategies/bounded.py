"""The ranges that identities rest on: of inputs that are finite, and of ordinary size.

Inputs of a float type are taken to be finite, and at most `LARGEST_INPUT` in magnitude (f16: any finite number).
Whatever is proved holds for such inputs.
"""

from functools import lru_cache

from leir.analysis.intervals import Range, largest, span
from leir.analysis.ranges import ranges
from leir.analysis.types import computing_type, is_float
from leir.analysis.values import Ranges
from leir.remembered import remembered
from leir.syntax import Program

LARGEST_INPUT = 2.0**20  # of f32, bf16 and f64: far beyond what models are fed, far below where products overflow


@remembered
@lru_cache(maxsize=32)
def bounded(program: Program) -> Ranges:
    """The ranges of a program for inputs that are finite and not huge."""
    assume: dict[str, Range] = {}
    for declaration in program.inputs:
        if is_float(declaration.dtype):
            most = min(LARGEST_INPUT, largest(declaration.dtype))
            assume[declaration.tensor] = span(-most, most, computing_type(declaration.dtype))
    return ranges(program, assume)
