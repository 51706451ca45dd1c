"""The real sizes at which the trajectories are measured on a GPU, and the tilings tried at each."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """A trajectory at a size, and keyword arguments of it that are worth trying."""

    name: str
    size: tuple[int, ...]
    tiles: tuple[dict[str, Any], ...]


_PRODUCTS = (
    {"block": [128, 128, 16], "thread": [8, 8]},
    {"block": [128, 128, 8], "thread": [8, 8]},
    {"block": [64, 128, 16], "thread": [8, 8]},
    {"block": [64, 64, 16], "thread": [4, 4]},
)
_ROWS = (
    {"threads": 256, "levels": [32, 4]},
    {"threads": 256, "levels": [16]},
    {"threads": 256, "levels": [64, 16, 4]},
    {"threads": 512, "levels": [64, 8]},
)
CASES = (
    Case("matmul", (2048, 2048, 2048), _PRODUCTS),
    Case("matmul", (4096, 4096, 4096), _PRODUCTS),
    Case("softmax", (8192, 8192), _ROWS),
    Case("layer_norm", (8192, 8192), _ROWS),
    Case(
        "convolution",
        (32, 64, 56, 56, 64),
        (
            {"block": [64, 4, 28], "thread": [8, 4]},
            {"block": [64, 4, 56], "thread": [8, 8]},
            {"block": [64, 4, 56], "thread": [8, 4]},
            {"block": [64, 8, 28], "thread": [8, 4]},
            {"block": [64, 8, 28], "thread": [8, 4], "padded": 1},
            {"block": [64, 8, 28], "thread": [8, 4], "unrolled": 1},
        ),
    ),
    Case(
        "convolution",
        (32, 128, 28, 28, 128),
        (
            {"block": [64, 4, 28], "thread": [8, 4]},
            {"block": [128, 4, 28], "thread": [16, 4]},
            {"block": [64, 7, 28], "thread": [8, 4]},
            {"block": [64, 7, 28], "thread": [8, 4], "padded": 1},
            {"block": [128, 4, 28], "thread": [16, 4], "padded": 1},
        ),
    ),
    Case(
        "convolution",
        (32, 256, 14, 14, 256),
        (
            {"block": [64, 14, 14], "thread": [8, 7]},
            {"block": [64, 14, 14], "thread": [8, 7], "padded": 1},
            {"block": [64, 7, 14], "thread": [8, 2]},
            {"block": [64, 7, 14], "thread": [8, 7], "chunk": 4},
        ),
    ),
    Case("transpose", (8192, 8192), ({"tile": 32, "rows": 8}, {"tile": 64, "rows": 8}, {"tile": 64, "rows": 16})),
)
