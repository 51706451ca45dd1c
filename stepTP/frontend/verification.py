"""Whether a translation computes what its module computes, and whether the module is worth translating.

The program runs by the interpreter twice: in its own dtype, and with every float in f64 against the module in float64,
where a wrong translation stands out by far more than rounding. How much rounding an output may show is measured: by how
far the module in float32 is from itself in float64.
"""

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from leir.edit import with_dtypes
from leir.interp import InterpreterError, interpret
from leir.syntax import DType
from stepTP.frontend.translation import Translation, as_array, bind, translate

SLACK = 256  # how many times the module's own rounding error a translation may show: sums in another order
_REDRAWS = 4
EPSILON: dict[DType, float] = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`max_abs_error`: the program in f64 against the module in float64. `max_abs_error_own`: in the module's dtype."""

    status: Literal["verified", "mismatch", "refused"]
    max_abs_error: float | None
    max_abs_error_own: float | None
    message: str = ""


def verify_translation(translation: Translation, module: torch.nn.Module, inputs: tuple[Any, ...]) -> Verdict:
    """The verdict on these inputs. A module that is degenerate is refused first."""
    module64, inputs64 = in_dtype(torch.float64, module, inputs)
    try:
        exact = outputs_of(module64, inputs64)
    except (RuntimeError, TypeError) as error:
        return Verdict("refused", None, None, f"the module does not run in float64: {_first_line(error)}")
    if reason := degenerate(module64, inputs64):
        return Verdict("refused", None, None, reason)
    rounding = [
        _distance(a, b) for a, b in zip(outputs_of(*in_dtype(torch.float32, module, inputs)), exact, strict=True)
    ]
    try:
        own = _error(translation, inputs, exact, outputs_of(module, inputs), rounding)
        wide = widened(translation)
        double = _error(wide, inputs64, exact, exact, rounding)
        if double.excess > 1:  # the module may depend on its dtype, by an epsilon or a dtype that it names
            wide = translate(module64, inputs64)
            double = _error(wide, inputs64, exact, exact, rounding)
    except InterpreterError as error:
        return Verdict("mismatch", None, None, f"the program has no meaning on the reference inputs: {error}")
    for kind, error in (("float64", double), ("its own dtype", own)):
        if error.excess > 1:
            message = f"{translation.names[error.output]} ({error.output}) in {kind} is off by {error.largest:.3g}"
            return Verdict(
                "mismatch", double.largest, own.largest, f"{message}, {error.excess:.3g} times the tolerance"
            )
    return Verdict("verified", double.largest, own.largest)


def degenerate(module: torch.nn.Module, inputs: tuple[Any, ...]) -> str | None:
    """Why a module in float64 teaches nothing: an output that is NaN everywhere or never changes, or an input that no
    output depends on; None if it is sound. Every input is drawn anew a few times, alone and with all others."""
    outputs = outputs_of(module, inputs)
    for number, output in enumerate(outputs):
        if np.isnan(output).all():
            return f"output {number} is NaN everywhere on the reference inputs"
    leaves, tree = tree_flatten(inputs)
    varying = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and _can_vary(leaf)]
    unchanged = set(range(len(outputs)))
    for draw in range(_REDRAWS):
        fresh = [_redrawn(leaf, f"{draw}/{n}") if n in varying else leaf for n, leaf in enumerate(leaves)]
        unchanged -= _changed(outputs, outputs_of(module, tree_unflatten(fresh, tree)))
    if unchanged:
        return f"output {min(unchanged)} is the same for all inputs"
    for n in varying:
        draws = ([*leaves[:n], _redrawn(leaves[n], f"{draw}/{n}"), *leaves[n + 1 :]] for draw in range(_REDRAWS))
        if not any(_changed(outputs, outputs_of(module, tree_unflatten(draw, tree))) for draw in draws):
            return f"no output depends on input {n}"
    return None


def in_dtype(
    dtype: torch.dtype, module: torch.nn.Module, inputs: tuple[Any, ...]
) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A copy of the module, and the inputs, with every float in `dtype`."""

    def convert(leaf: Any) -> Any:
        return leaf.to(dtype) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    return copy.deepcopy(module).to(dtype), tree_map(convert, inputs)


def outputs_of(module: torch.nn.Module, inputs: tuple[Any, ...]) -> list[np.ndarray]:
    """The tensors that the module returns, in order."""
    with torch.no_grad():
        returned = module(*(tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, inputs)))
    return [as_array(leaf) for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]


def widened(translation: Translation) -> Translation:
    """The translation with every float dtype of program and constants made f64."""
    constants = {
        name: array.astype(np.float64) if array.dtype.kind == "f" else array
        for name, array in translation.constants.items()
    }
    program = with_dtypes(translation.program, {"f16": "f64", "bf16": "f64", "f32": "f64"})
    return replace(translation, program=program, constants=constants)


@dataclass(frozen=True, slots=True)
class _Error:
    """The worst output by how many times its tolerance it is off, and the largest error of any output."""

    output: str
    excess: float
    largest: float


def _error(
    translation: Translation,
    inputs: tuple[Any, ...],
    exact: Sequence[np.ndarray],
    own: Sequence[np.ndarray],
    rounding: Sequence[float],
) -> _Error:
    """The program's error. Its outputs may be near the module in float64, or in the dtype at hand (`own`), which differ
    where a comparison goes the other way; integers and booleans must be equal to either."""
    found = interpret(translation.program, bind(translation, inputs))
    worst, largest = ("", -1.0), 0.0
    for declaration, reference, same, spread in zip(translation.program.outputs, exact, own, rounding, strict=True):
        array = found[declaration.tensor]
        if array.shape != reference.shape or (array.dtype.kind == "f") != (reference.dtype.kind == "f"):
            return _Error(declaration.tensor, np.inf, np.inf)
        error = min(_distance(array, reference), _distance(array, same))
        tolerance = 0.0
        if declaration.dtype in EPSILON:
            tolerance = SLACK * EPSILON[declaration.dtype] * (spread / EPSILON["f32"] + _magnitude(reference))
        excess = 0.0 if error == 0 else error / tolerance if tolerance else np.inf
        worst = max(worst, (declaration.tensor, excess), key=lambda pair: pair[1])
        largest = max(largest, _distance(array, reference))
    return _Error(*worst, largest)


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """The largest absolute difference; NaN and infinities equal themselves only, and are infinitely far from others."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if not np.isfinite(a[~same]).all() or not np.isfinite(b[~same]).all():
        return np.inf
    return float(np.abs(a[~same] - b[~same]).max(initial=0.0))


def _magnitude(array: np.ndarray) -> float:
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max(initial=0.0))


def _changed(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> set[int]:
    """The outputs that differ by more than rounding in float64."""
    return {n for n, (a, b) in enumerate(zip(before, after, strict=True)) if _distance(a, b) > 1e-12 * _magnitude(a)}


def _can_vary(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or bool((tensor != tensor.flatten()[0]).any())


def _redrawn(tensor: torch.Tensor, key: str) -> torch.Tensor:
    """The values shuffled, and floats scaled by 0.5 to 1, so that signs and ranges such as 0..1 are kept."""
    seed = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big", signed=True)
    generator = torch.Generator().manual_seed(seed)
    shuffled = tensor.flatten()[torch.randperm(tensor.numel(), generator=generator)].reshape(tensor.shape)
    if not tensor.is_floating_point():
        return shuffled
    scale = 0.5 + 0.5 * torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype)
    return shuffled * scale if bool(tensor.any()) else scale


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
