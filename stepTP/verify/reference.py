"""The source itself as the reference: its PyTorch module in float64, on any inputs and parameters."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from leir.check import input_ranges, preconditions
from leir.syntax import Declaration, Program
from stepTP.frontend import InFloat64, LoadedSource, Translation, bind, in_dtype, load_text, translated
from stepTP.frontend.scans import scans_in_order
from stepTP.verify.inputs import Profile, profile
from stepTP.verify.prepare import Outputs, Reference, Unverified

Array = NDArray[Any]

_SAMPLES = 2  # loads of a source that show what its inputs are like


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the programs of a walk come from: the plain program, the reference, and the profiles of the inputs."""

    program: Program
    reference: Reference
    profiles: tuple[Profile, ...]


def torch_origin(code: str, name: str, program: Program) -> Origin:
    """The origin of `program`, the plain program that was translated from `code`; `name` is what errors call the code.

    Raises Unverified where the code does not translate to the program's signature, and what loading and translating
    raise (SourceError, UnsupportedOp).
    """
    loaded, translation = translated(code, name)
    if (translation.program.inputs, translation.program.outputs) != (program.inputs, program.outputs):
        raise Unverified(f"{name} translates to a program with another signature than the source program's")
    others = [load_text(code, name, seed=seed) for seed in range(1, _SAMPLES)]
    samples = [bind(translation, sample.inputs) for sample in (loaded, *others)]
    allowed = gather_ranges(program)
    profiles = tuple(_profile(d, translation, loaded.module, samples, allowed.get(d.tensor)) for d in program.inputs)
    return Origin(program, _reference(loaded, translation), profiles)


def gather_ranges(program: Program) -> dict[str, tuple[int, int]]:
    """In which range each input that subscripts read may be drawn. Raises Unverified where none is known."""
    ranges = input_ranges(program)
    for need in preconditions(program):
        if unknown := [name for name in need.index if name not in ranges]:
            raise Unverified(f"no range of {unknown[0]} is known that keeps every subscript within {need.tensor}")
    return ranges


def _profile(
    declaration: Declaration,
    translation: Translation,
    module: torch.nn.Module,
    samples: list[dict[str, Array]],
    allowed: tuple[int, int] | None,
) -> Profile:
    name = declaration.tensor
    values = [sample[name] for sample in samples]
    if name not in translation.constants:
        return profile(declaration, values, allowed=allowed)
    drawn = (
        translation.paths(name)[0] in _state(module) and values[0].dtype.kind == "f" and np.isfinite(values[0]).all()
    )
    return profile(declaration, values[:1], is_parameter=True, fixed=not drawn)


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and buffers by path."""
    return dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))


def _reference(loaded: LoadedSource, translation: Translation) -> Reference:
    module, _ = in_dtype(torch.float64, loaded.module, loaded.inputs)
    leaves, tree = tree_flatten(loaded.inputs)
    own = _state(module)
    drawn = [name for name in translation.constants if translation.paths(name)[0] in own]

    def reference(inputs: dict[str, Array]) -> Outputs:
        given = iter(translation.user_inputs)
        arguments = [_tensor(inputs[next(given)], leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        state: dict[str, torch.Tensor] = {}
        for name in drawn:
            paths = translation.paths(name)
            state |= dict.fromkeys(paths, _tensor(inputs[name], own[paths[0]]))
        given_inputs = tree_unflatten(arguments, tree)
        in_order, by_name = ((), dict(given_inputs)) if isinstance(given_inputs, Mapping) else (given_inputs, {})
        fresh = copy.deepcopy(module)  # what forward changes in place, it does not change for the next draw
        with torch.no_grad(), scans_in_order(), InFloat64():
            try:
                returned = torch.func.functional_call(fresh, state, in_order, by_name)
            except (RuntimeError, TypeError, IndexError) as error:
                raise Unverified(f"the module does not run in float64: {error}") from error
        tensors = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
        return {name: t.detach().numpy().copy() for name, t in zip(translation.outputs, tensors, strict=True)}

    return reference


def _tensor(array: Array, like: torch.Tensor) -> torch.Tensor:
    """The values as a tensor of its own memory: float64, or the dtype that `like` has."""
    dtype = torch.float64 if like.is_floating_point() else like.dtype
    return torch.tensor(array, dtype=dtype).reshape(like.shape)
