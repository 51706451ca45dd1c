"""The entries of the table, by theme. Importing this package fills the table."""

from stepTP.frontend.ops import (
    attention,
    gather,
    linear_algebra,
    normalisation,
    pointwise,
    reduce,
    shape,
    windows,
)

__all__ = ["attention", "gather", "linear_algebra", "normalisation", "pointwise", "reduce", "shape", "windows"]
