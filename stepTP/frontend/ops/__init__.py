"""The entries of the table, by theme. Importing this package fills the table."""

from stepTP.frontend.ops import (
    activations,
    attention,
    creation,
    division,
    gather,
    linear_algebra,
    logic,
    losses,
    normalisation,
    pointwise,
    pools,
    recurrence,
    reduce,
    refused,
    resample,
    scan,
    scatter,
    search,
    shape,
    windows,
)

__all__ = [
    "activations", "attention", "creation", "division", "gather", "linear_algebra", "logic", "losses", "normalisation",
    "pointwise", "pools", "recurrence", "reduce", "refused", "resample", "scan", "scatter", "search", "shape",
    "windows",
]  # fmt: skip
