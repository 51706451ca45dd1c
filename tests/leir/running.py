"""Running a program by the interpreter, both ways, for tests."""

import numpy as np
import pytest
from numpy.typing import NDArray

from leir.arrays import array_type
from leir.interp import InterpreterError, interpret
from leir.parser import parse

F32 = np.float32
BOTH = pytest.mark.parametrize("scalar", [False, True], ids=["vector", "scalar"])


def run(text: str, scalar: bool = False, **inputs: object) -> NDArray[np.generic]:
    """The first output; inputs are converted to the types that the program declares."""
    program = parse(text)
    arrays = {d.tensor: np.asarray(inputs[d.tensor], array_type(d.dtype)) for d in program.inputs}
    return interpret(program, arrays, scalar=scalar)[program.outputs[0].tensor]


def fails(text: str, scalar: bool = False, **inputs: object) -> InterpreterError:
    with pytest.raises(InterpreterError) as caught:
        run(text, scalar, **inputs)
    return caught.value
