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
CASES = (
    Case("matmul", (2048, 2048, 2048), _PRODUCTS),
    Case("matmul", (4096, 4096, 4096), _PRODUCTS),
    Case("softmax", (8192, 8192), ({"threads": 256}, {"threads": 512})),
    Case("transpose", (8192, 8192), ({"tile": 32, "rows": 8}, {"tile": 64, "rows": 8}, {"tile": 64, "rows": 16})),
)
