"""The interpreter that defines what a LEIR program means.

`interpret` runs a program on NumPy arrays by generated Python, compiled once a program.

Arrays: float32, float64, int8, int32, int64, bool as the dtype says; f16 as float16; bf16, which NumPy has not, as
float32 arrays whose values are bf16 numbers.
"""

from leir.interp.errors import InterpreterError
from leir.interp.run import array_type, interpret

__all__ = ["InterpreterError", "array_type", "interpret"]
