"""Random programs of table ops against PyTorch: a translation is right or refused, never silently wrong."""

import pytest
import torch

from leir.check import check
from leir.interp import interpret
from leir.printer import to_text
from stepTP.frontend import UnsupportedOp, bind, translate
from stepTP.frontend.reference import distance, in_dtype, magnitude
from stepTP.frontend.translation import as_array
from stepTP.frontend.verification import EPSILON
from tests.stepTP.agreement import Calls
from tests.stepTP.random_modules import random_module

EACH = {"float32": 500, "float64": 500, "float16": 200, "bfloat16": 200, "int64": 200, "bool": 200}


def right(dtype: str, seed: int) -> bool:
    """Whether a random program was translated, after comparing it; False if it was refused, or PyTorch runs it not.

    Floats may differ from the module in their own dtype, or in float64, by some roundings of the largest value that
    any line of the program has.
    """
    drawn = random_module(dtype, seed)
    module = Calls(drawn.function).eval()
    try:
        wanted = [as_array(output) for output in module(*drawn.inputs)]
    except (RuntimeError, IndexError):
        return False
    try:
        translation = translate(module, drawn.inputs)
    except UnsupportedOp:
        return False
    place = f"{dtype} {seed}\n{drawn.code}\n{to_text(translation.program)}"
    assert check(translation.program) == (), place
    found = interpret(translation.program, bind(translation, drawn.inputs))
    exact = wanted
    if drawn.inputs[0].is_floating_point():
        exact = [as_array(output) for output in module(*in_dtype(torch.float64, module, drawn.inputs)[1])]
    largest = max(magnitude(output) for output in (*wanted, *exact))
    for declaration, own, wide in zip(translation.program.outputs, wanted, exact, strict=True):
        array = found[declaration.tensor]
        assert (array.shape, array.dtype) == (own.shape, own.dtype), place
        tolerance = 64 * EPSILON.get(declaration.dtype, 0.0) * max(1.0, largest)
        assert min(distance(array, own), distance(array, wide)) <= tolerance, f"{declaration.tensor} in {place}"
    return True


@pytest.mark.parametrize("dtype", EACH)
def test_a_few_random_programs(dtype: str) -> None:
    assert sum(right(dtype, seed) for seed in range(8)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EACH)
def test_many_random_programs(dtype: str) -> None:
    assert sum(right(dtype, seed) for seed in range(EACH[dtype])) >= EACH[dtype] // 2
