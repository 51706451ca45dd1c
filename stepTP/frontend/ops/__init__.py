"""The entries of the table, by theme. Importing this package fills the table."""

from stepTP.frontend.ops import (
    activations,
    attention,
    gather,
    linear_algebra,
    normalisation,
    pointwise,
    recurrence,
    reduce,
    scan,
    shape,
    windows,
)

__all__ = [
    "activations", "attention", "gather", "linear_algebra", "normalisation", "pointwise", "recurrence", "reduce",
    "scan", "shape", "windows",
]  # fmt: skip
