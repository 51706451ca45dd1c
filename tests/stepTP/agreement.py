"""The front end against PyTorch: a function is translated, checked, run by the interpreter, and compared."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from leir.check import check
from leir.edit import walk
from leir.interp import interpret
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Loop, Program
from stepTP.frontend import Translation, bind, translate
from stepTP.frontend.reference import exact_outputs, floats_in
from stepTP.frontend.translation import as_array, called
from stepTP.frontend.verification import widened

TOLERANCE = {"float16": 4e-3, "float32": 2e-5, "float64": 1e-12}


class Calls(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def agree(function: Callable[..., Any], *inputs: Any, in_double: bool = True) -> Program:
    """The program of the function, after comparing it with the function in the inputs' own dtype and in float64.

    `in_double` is False for a function that names a dtype, so that float64 inputs do not make all of it float64.
    """
    return module_agrees(Calls(function).eval(), *inputs, in_double=in_double)


def module_agrees(module: torch.nn.Module, *inputs: Any, in_double: bool = True) -> Program:
    translation = translate(module, inputs)
    program = translation.program
    assert check(program) == (), to_text(program)
    assert parse(to_text(program)) == program
    assert all(s.kind == "L" for _, s in walk(program) if isinstance(s, Loop))
    compare(translation, module, inputs)
    if in_double and any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in inputs):
        doubles = floats_in(torch.float64, inputs)
        compare(widened(translation), module.double(), doubles, exact_outputs(module, doubles))
    return program


def compare(
    translation: Translation, module: torch.nn.Module, inputs: tuple[Any, ...], returned: list[np.ndarray] | None = None
) -> None:
    """The program's outputs against what the module returns, unless that is given."""
    if returned is None:
        with torch.no_grad():
            answer = called(copy.deepcopy(module), tree_map_only(torch.Tensor, torch.clone, inputs))
        returned = [as_array(x) for x in tree_leaves(answer) if isinstance(x, torch.Tensor)]
    found = interpret(translation.program, bind(translation, inputs))
    assert len(found) == len(returned)
    for name, wanted in zip(translation.outputs, returned, strict=True):
        got = found[name]
        place = f"{name}\n{to_text(translation.program)}"
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape), place
        if wanted.dtype.kind == "f":
            finite = wanted[np.isfinite(wanted)]
            scale = max(1.0, float(np.abs(finite).max(initial=0.0)))
            tolerance = TOLERANCE[wanted.dtype.name]
            np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale, err_msg=place)
        else:
            np.testing.assert_array_equal(got, wanted, err_msg=place)


def draw(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normal values, or integers in -4..4, or booleans."""
    generator = torch.Generator().manual_seed(seed + 7919 * len(shape))
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(-4, 5, shape, generator=generator).to(dtype)


def positive(*shape: int, seed: int = 0) -> torch.Tensor:
    """Values in 0.5..2.5."""
    return 0.5 + 2 * torch.rand(shape, generator=torch.Generator().manual_seed(seed))
