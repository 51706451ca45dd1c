"""PyTorch's scans, `associative_scan` and `scan`, run one step after the other.

Written in order, a scan is linear in its length, and tracing sees the same step again and again, which `rolling` turns
into one loop. PyTorch itself halves an associative scan again and again, and compiles the steps of a plain one. The
sums of an associative scan are formed in another order than PyTorch's: the combination is associative by contract.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_ASSOCIATIVE = importlib.import_module("torch._higher_order_ops.associative_scan")
_PLAIN = importlib.import_module("torch._higher_order_ops.scan")
_PLACES = ((_ASSOCIATIVE, "generic_associative_scan"), (_PLAIN, "_maybe_compile_and_run_fn"))


@contextmanager
def scans_in_order() -> Iterator[None]:
    """While it is entered, both scans run their steps in order, traced or not."""
    kept = [getattr(module, name) for module, name in _PLACES]
    for (module, name), ours in zip(_PLACES, (_associative_scan, _scan), strict=True):
        setattr(module, name, ours)
    try:
        yield
    finally:
        for (module, name), theirs in zip(_PLACES, kept, strict=True):
            setattr(module, name, theirs)


def _associative_scan(operator: Any, leaves: list[torch.Tensor], *_: Any, **__: Any) -> list[torch.Tensor]:
    """The scan over axis 0 of the leaves; `operator` holds the combination of two elements, mapped over that axis."""
    combine = inspect.getclosurevars(operator.keywords["combine_fn"]).nonlocals["func"]
    spec = operator.keywords["spec"]
    running = tree_unflatten([leaf[0] for leaf in leaves], spec)
    rows = [tree_leaves(running)]
    for step in range(1, leaves[0].shape[0]):
        running = combine(running, tree_unflatten([leaf[step] for leaf in leaves], spec))
        rows.append(tree_leaves(running))
    return [torch.stack(column) for column in zip(*rows, strict=True)]


def _scan(_: Callable[..., Any], operator: Any, start: list[torch.Tensor], leaves: list[torch.Tensor]) -> Any:
    """(last carry, stacked results): `operator` holds the step from carry and element to both."""
    step, into, spec = (operator.keywords[name] for name in ("combine_fn", "spec_init", "spec_xs"))
    carry = tree_unflatten(start, into)
    rows: list[list[Any]] = []
    structure = None
    for number in range(leaves[0].shape[0]):
        carry, result = step(carry, tree_unflatten([leaf[number] for leaf in leaves], spec))
        row, structure = tree_flatten(result)
        rows.append(row)
    assert structure is not None
    return carry, tree_unflatten([torch.stack(column) for column in zip(*rows, strict=True)], structure)
