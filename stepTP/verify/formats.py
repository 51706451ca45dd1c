"""The float types as the error analysis sees them: their digits, their ends, and rounding to the nearest number."""

import math
from dataclasses import dataclass

from leir.syntax import DType


@dataclass(frozen=True, slots=True)
class Format:
    """A float type: `bits` significant bits, the smallest normal and the largest number."""

    bits: int
    smallest: float
    largest: float

    @property
    def roundoff(self) -> float:
        return 2.0**-self.bits

    @property
    def grid(self) -> float:
        return 2.0 ** -(self.bits // 3)


FORMATS: dict[DType, Format] = {
    "f16": Format(11, 2.0**-14, 65504.0),
    "bf16": Format(8, 2.0**-126, (2.0 - 2.0**-7) * 2.0**127),
    "f32": Format(24, 2.0**-126, (2.0 - 2.0**-23) * 2.0**127),
    "f64": Format(53, 2.0**-1022, math.ldexp(2.0 - 2.0**-52, 1023)),
}


def rounded(value: float, format: Format) -> float:
    """The nearest value of the format; overflow is not looked at."""
    if value == 0 or not math.isfinite(value):
        return value
    _, exponent = math.frexp(value)
    exponent = max(exponent, round(math.log2(format.smallest)) + 1)
    unit = math.ldexp(1.0, exponent - format.bits)
    return round(value / unit) * unit
