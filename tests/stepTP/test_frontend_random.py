"""Random programs of table ops against PyTorch: a translation is right or refused, never silently wrong."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any, Literal

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

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
Outcome = Literal["right", "refused", "unsteady"]


class Jittered(TorchDispatchMode):
    """What each op returns is off by at most one unit in its last place."""

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result if func.is_view or func._schema.is_mutable else tree_map_only(torch.Tensor, _jittered, result)


def _jittered(x: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    noise = torch.linspace(-1, 1, x.numel(), dtype=torch.float64).reshape(x.shape).cos()
    return (x.double() * (1 + torch.finfo(x.dtype).eps * noise)).to(x.dtype)


def outcome(dtype: str, seed: int) -> Outcome:
    """Compares a random program with its module. Fails where it is wrong.

    Floats may differ from the module in their own dtype, or in float64, by some roundings of the largest value that
    any line of the program has. Where they differ by more, and one rounding an op moves the module itself as far, a
    comparison went the other way: what can be said of that program is nothing.
    """
    drawn = random_module(dtype, seed)
    module = Calls(drawn.function).eval()
    wanted = [as_array(output) for output in module(*drawn.inputs)]
    try:
        translation = translate(module, drawn.inputs)
    except UnsupportedOp:
        return "refused"
    place = f"{dtype} {seed}\n{drawn.code}\n{to_text(translation.program)}"
    assert check(translation.program) == (), place
    found = interpret(translation.program, bind(translation, drawn.inputs))
    exact = wanted
    if drawn.inputs[0].is_floating_point():
        exact = [as_array(output) for output in module(*in_dtype(torch.float64, module, drawn.inputs)[1])]
    largest = max(1.0, *(magnitude(output) for output in (*wanted, *exact)))
    for number, declaration in enumerate(translation.program.outputs):
        array, own = found[declaration.tensor], wanted[number]
        assert (array.shape, array.dtype) == (own.shape, own.dtype), place
        error = min(distance(array, own), distance(array, exact[number]))
        if error > 8 * EPSILON.get(declaration.dtype, 0.0) * largest:
            assert error <= 16 * _moved(module, drawn.inputs, wanted), (
                f"{declaration.tensor} is off by {error} in {place}"
            )
            return "unsteady"
    return "right"


def _moved(module: torch.nn.Module, inputs: Sequence[torch.Tensor], wanted: Sequence[np.ndarray]) -> float:
    """How far one rounding an op moves what a module returns."""
    with Jittered():
        outputs = module(*inputs)
    return max(distance(as_array(a), b) for a, b in zip(outputs, wanted, strict=True))


@pytest.mark.parametrize("dtype", EACH)
def test_a_few_random_programs(dtype: str) -> None:
    assert sum(outcome(dtype, seed) == "right" for seed in range(12)) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EACH)
def test_many_random_programs(dtype: str) -> None:
    """As many as are said, all of them translated and compared; what is refused or unsteady is not among them."""
    outcomes: Counter[Outcome] = Counter()
    for seed in count():
        outcomes[outcome(dtype, seed)] += 1
        if outcomes["right"] == EACH[dtype]:
            break
    print(f"{dtype}: {dict(outcomes)}")
    assert outcomes["refused"] <= 0.02 * EACH[dtype] and outcomes["unsteady"] <= 0.05 * EACH[dtype]
