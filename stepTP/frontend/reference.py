"""Running a module as the reference, and whether it is worth translating.

Inputs are drawn anew by shuffling and scaling those given, so that signs and ranges such as 0..1 are kept.
"""

import copy
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from stepTP.frontend.translation import as_array

_REDRAWS = 4
_NARROW = (torch.float16, torch.bfloat16, torch.float32)


def degenerate(module: torch.nn.Module, inputs: tuple[Any, ...]) -> str | None:
    """Why a module in float64 teaches nothing: an output that is NaN everywhere or never changes, or an input that no
    output depends on; None if it is sound."""
    outputs = exact_outputs(module, inputs)
    for number, output in enumerate(outputs):
        if np.isnan(output).all():
            return f"output {number} is NaN everywhere on the reference inputs"
    unchanged = set(range(len(outputs)))
    for drawn in redraws(inputs):
        unchanged -= _changed(outputs, exact_outputs(module, drawn))
    if unchanged:
        return f"output {min(unchanged)} is the same for all inputs"
    for number, leaf in enumerate(tree_leaves(inputs)):
        if isinstance(leaf, torch.Tensor) and _can_vary(leaf):
            draws = redraws(inputs, only=number)
            if not any(_changed(outputs, exact_outputs(module, drawn)) for drawn in draws):
                return f"no output depends on input {number}"
    return None


class InFloat64(TorchDispatchMode):
    """While it is entered, every op computes in float64 where it would compute in a narrower float dtype.

    A dtype that the module names (`x.float()`, `torch.zeros(3)`) is widened as its parameters and inputs are.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return _widened(func(*_widened(args), **_widened(kwargs or {})))


def _widened(tree: Any) -> Any:
    def widen(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype in _NARROW:
            return leaf.to(torch.float64)
        return torch.float64 if isinstance(leaf, torch.dtype) and leaf in _NARROW else leaf

    return tree_map(widen, tree)


def exact_outputs(module64: torch.nn.Module, inputs64: tuple[Any, ...]) -> list[np.ndarray]:
    """The tensors that a module in float64 returns, with every op inside in float64."""
    with InFloat64():
        return outputs_of(module64, inputs64)


def in_dtype(
    dtype: torch.dtype, module: torch.nn.Module, inputs: tuple[Any, ...]
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A copy of the module, and the inputs, with every float in `dtype`."""

    def convert(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return copy.deepcopy(module).to(dtype), tree_map(convert, inputs)


def outputs_of(module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    """The tensors that the module returns, in order, for copies of the inputs."""
    with torch.no_grad():
        returned = module(*tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, inputs))
    return [as_array(leaf) for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]


def redraws(inputs: tuple[Any, ...], only: int | None = None) -> Iterator[tuple[Any, ...]]:
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
