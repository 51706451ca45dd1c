"""The one table of ATen ops: from an overload's name to the function that emits LEIR for it.

An op that is in the table is not decomposed; a graph that holds any other is, as far as PyTorch knows how. Composite
ops (`conv2d`, `layer_norm`) have entries beside the core ops that they come to, because a graph of entries alone needs
no decomposition, which costs ten times what its export does.
"""

from collections.abc import Callable
from typing import Any

Emit = Callable[..., Any]

TABLE: dict[str, Emit] = {}


def emits(*names: str) -> Callable[[Emit], Emit]:
    """Enters a function for these overloads, named as `mul.Tensor`; `relu` is short for `relu.default`."""

    def enter(function: Emit) -> Emit:
        for name in names:
            key = "aten." + (name if "." in name else f"{name}.default")
            if key in TABLE:
                raise ValueError(f"{key} has an entry already")
            TABLE[key] = function
        return function

    return enter
