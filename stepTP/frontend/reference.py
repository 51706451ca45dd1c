"""Running a module as the reference, and whether it is worth translating.

Inputs are drawn anew by shuffling and scaling those given, so that signs and ranges such as 0..1 are kept.

A module is degenerate, and refused by name, where in float64 on the reference inputs and a few other draws

    nan-output          an output is NaN everywhere
    constant-output     an output never changes
    saturated-output    an output sits at its two bounds, as sigmoid does far from 0, and leaves them for small inputs
    unused-input        an argument changes no output; a parameter may be idle, an argument may not

A module can also be `ill-conditioned`, which shows where its translation differs from it: one rounding error in each of
its own ops changes what it returns about as much, so that nothing can be said about the translation.
"""

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_map_only, tree_unflatten

from stepTP.frontend.scans import scans_in_order
from stepTP.frontend.translation import Inputs, as_array, called

_REDRAWS = 4
_SATURATED = 0.99  # the share of elements at its bounds that makes an output saturated
_FEWEST_FOR_SATURATION = 64  # elements over all draws: of fewer, two values say nothing
_NARROW = (torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class Degenerate:
    """Why a module teaches nothing. `cause`: one of the names above."""

    cause: str
    reason: str


def degenerate(module: torch.nn.Module, inputs: Inputs) -> Degenerate | None:
    """What is wrong with a module in float64 as a source; None if it is sound."""
    outputs = exact_outputs(module, inputs)
    for number, output in enumerate(outputs):
        if np.isnan(output).all():
            return Degenerate("nan-output", f"output {number} is NaN everywhere on the reference inputs")
    others = [exact_outputs(module, drawn) for drawn in redraws(inputs)]
    unchanged = set(range(len(outputs))).difference(*(_changed(outputs, other) for other in others))
    if unchanged:
        return Degenerate("constant-output", f"output {min(unchanged)} is the same for all inputs")
    saturated = [n for n, drawn in enumerate(zip(outputs, *others, strict=True)) if _at_two_bounds(drawn)]
    if saturated:
        small = exact_outputs(module, tree_map(_near_zero, inputs))
        for number in saturated:
            if not _at_two_bounds((*(drawn[number] for drawn in (outputs, *others)), small[number])):
                return Degenerate("saturated-output", f"output {number} is at one of two bounds nearly everywhere")
    for number, leaf in enumerate(tree_leaves(inputs)):
        if isinstance(leaf, torch.Tensor) and _can_vary(leaf):
            draws = redraws(inputs, only=number)
            if not any(_changed(outputs, exact_outputs(module, drawn)) for drawn in draws):
                return Degenerate("unused-input", f"no output depends on input {number}")
    return None


def _at_two_bounds(drawn: Sequence[np.ndarray]) -> bool:
    """Whether 99 of 100 elements of a float output are, to f32, its smallest or its largest value."""
    if drawn[0].dtype.kind != "f":
        return False
    values = np.concatenate([array.ravel() for array in drawn])
    values = values[np.isfinite(values)]
    if values.size < _FEWEST_FOR_SATURATION:
        return False
    low, high = values.min(), values.max()
    near = np.minimum(values - low, high - values) <= 2.0**-24 * max(abs(low), abs(high))
    return bool(np.mean(near) >= _SATURATED)


def _near_zero(leaf: Any) -> Any:
    return leaf * 2.0**-20 if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


class InFloat64(TorchDispatchMode):
    """While it is entered, every op computes in float64 where it would compute in a narrower float dtype.

    A dtype that the module names (`x.float()`, `torch.zeros(3)`) is widened as its parameters and inputs are.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        options = _widened(kwargs or {})
        result = func(*_widened(args), **options)
        if _has_own_dtype(func, result, (args, options)):
            result = func(*args, **options, dtype=torch.float64)
        return _widened(result)


def _has_own_dtype(func: Any, result: Any, arguments: Any) -> bool:
    """Whether an op gave a narrow float because it was told no dtype: `torch.full((3,), 0.1)`."""
    if not isinstance(result, torch.Tensor) or result.dtype not in _NARROW:
        return False
    takes = any(argument.name == "dtype" for argument in func._schema.arguments)
    return takes and not any(isinstance(leaf, torch.Tensor | torch.dtype) for leaf in tree_leaves(arguments))


def _widened(tree: Any) -> Any:
    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _NARROW:
            return leaf.to(torch.float64)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf in _NARROW else leaf

    return tree_map(widen, tree)


class Jittered(InFloat64):
    """In float64, with what each op returns off by at most one unit of its last place."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return result if func.is_view or func._schema.is_mutable else tree_map_only(torch.Tensor, self.jittered, result)

    def jittered(self, x: torch.Tensor) -> torch.Tensor:
        if x.dtype != torch.float64:
            return x
        return x * (1 + 2.0**-52 * (2 * torch.rand(x.shape, generator=self.generator, dtype=x.dtype) - 1))


def exact_outputs(module64: torch.nn.Module, inputs64: Inputs) -> list[np.ndarray]:
    """The tensors that a module in float64 returns, with every op inside in float64."""
    return outputs_of(module64, inputs64, InFloat64())


def in_dtype(dtype: torch.dtype, module: torch.nn.Module, inputs: Inputs) -> tuple[torch.nn.Module, Inputs]:
    """A copy of the module, and the inputs, with every float in `dtype`."""
    return copy.deepcopy(module).to(dtype), floats_in(dtype, inputs)


def floats_in(dtype: torch.dtype, inputs: Inputs) -> Inputs:
    """The inputs with every float tensor in `dtype`."""
    return tree_map_only(torch.Tensor, lambda x: x.to(dtype) if x.is_floating_point() else x, inputs)


def outputs_of(module: torch.nn.Module, inputs: Inputs, mode: TorchDispatchMode | None = None) -> list[np.ndarray]:
    """The tensors that the module returns, in order, where it runs under `mode`.

    A copy of the module runs on copies of the inputs: what it changes in place, it does not change for the next run.
    """
    fresh, given = copy.deepcopy(module), tree_map_only(torch.Tensor, torch.clone, inputs)
    with torch.no_grad(), scans_in_order(), mode or nullcontext():
        returned = called(fresh, given)
    return [as_array(leaf) for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]


def redraws(inputs: Inputs, only: int | None = None) -> Iterator[Inputs]:
    """A few other draws of the inputs, or of only one of the tensors and numbers in them."""
    leaves, tree = tree_flatten(inputs)
    for draw in range(_REDRAWS):
        fresh = [_fresh(leaf, f"{draw}/{n}") if only in (None, n) else leaf for n, leaf in enumerate(leaves)]
        yield tree_unflatten(fresh, tree)


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference; NaN and infinities equal themselves only, and are infinitely far from others."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return np.inf
    return float(np.abs(a[~same] - b[~same]).max(initial=0.0))


def magnitude(array: np.ndarray) -> float:
    """The largest absolute value that is finite; 0 if none is."""
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _changed(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> set[int]:
    """The outputs that differ by more than rounding in float64."""
    return {n for n, (a, b) in enumerate(zip(before, after, strict=True)) if distance(a, b) > 1e-12 * magnitude(a)}


def _can_vary(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or bool((tensor != tensor.flatten()[0]).any())


def _fresh(leaf: Any, key: str) -> Any:
    """A tensor's values shuffled, and floats scaled by 0.5 to 1; zeros everywhere become positive."""
    if not isinstance(leaf, torch.Tensor):
        return leaf
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
    generator = torch.Generator().manual_seed(seed)
    shuffled = leaf.flatten()[torch.randperm(leaf.numel(), generator=generator)].reshape(leaf.shape)
    if not leaf.is_floating_point():
        return shuffled
    scale = 0.5 + 0.5 * torch.rand(leaf.shape, generator=generator, dtype=leaf.dtype)
    return shuffled * scale if bool(leaf.any()) else scale
