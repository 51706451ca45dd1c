"""The interpreter that defines what a LEIR program means.

`interpret` runs a program on NumPy arrays (`leir.arrays`) by generated Python, compiled once a program.
"""

from leir.interp.errors import InterpreterError
from leir.interp.run import interpret

__all__ = ["InterpreterError", "interpret"]
