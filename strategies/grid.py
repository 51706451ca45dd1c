"""The sizes that candidates propose: factors, tiles, parts and the like.

A step may have any size, and its facts judge it: the grid only says which sizes are tried where steps are looked for.
What is no size (which loop, which pair of loops, which axis, which dimensions) is proposed whole, and so is whatever a
program says itself, as the distance of a recurrence does. The section `grid` of a build's configuration gives a key
another value, which takes the place of the default; an empty list proposes nothing of its kind. Lists ascend. The
defaults are powers of two, of which 32 is a warp of threads, and a three; `divisors` adds what leaves no tail.
"""

from math import isqrt
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field

LARGEST = 1 << 20  # of a size: far above any loop that a kernel has


def _ascending(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if list(sizes) != sorted(dict.fromkeys(sizes)):
        raise ValueError("sizes stand in ascending order, each once")
    return sizes


Size = Annotated[int, Field(ge=1, le=LARGEST)]
Sizes = Annotated[tuple[Size, ...], Field(max_length=64), AfterValidator(_ascending)]
Cuts = Annotated[tuple[Annotated[int, Field(ge=2, le=LARGEST)], ...], Field(max_length=64), AfterValidator(_ascending)]


class Grid(BaseModel, frozen=True, extra="forbid"):
    """What is worth trying, by key; `strategies/README.md` has the table."""

    factors: Cuts = Field(default=(2, 3, 4, 8, 16, 32, 64), description="loop_split: iterations of a block")
    tiles: Cuts = Field(default=(4, 8, 16, 32), description="loop_tiling: iterations of a tile along each of its loops")
    tile_ratio: int = Field(
        default=2, ge=1, le=1024, description="loop_tiling: the longer side of a tile over the shorter, at most"
    )
    unrolled: int = Field(default=64, ge=2, le=1024, description="loop_unrolling: iterations of a loop, at most")
    lanes: int = Field(default=64, ge=2, le=64, description="loop_vectorization: iterations of a loop, at most")
    parts: Cuts = Field(
        default=(2, 4, 8, 16, 32, 64, 128, 256), description="reduction_factorization: parts of a reduction"
    )
    lone_terms: Size = Field(default=1024, description="reduction_factorization: terms that are a part each, at most")
    blocks: Cuts = Field(
        default=(2, 4, 8, 16, 32),
        description="layout_transformation, set_storage_layout: elements of a block that divides",
    )
    pads: Sizes = Field(
        default=(1,), description="layout_transformation, set_storage_layout: elements that a row grows by"
    )
    shared_box: Size = Field(default=8192, description="cache_read_write: elements of a copy in shared memory, at most")
    local_box: Size = Field(default=256, description="cache_read_write: elements of a copy in local memory, at most")
    cuts: Sizes = Field(
        default=(1,),
        description="tensor_split_to_decouple_operators: iterations of a first part, beside half and a power of two",
    )
    alike: int = Field(
        default=4,
        ge=1,
        le=64,
        description="tensor_concat_to_fuse_operators: following nests that a nest is paired with; "
        "partially_equivalent_then_correct: nests of which any two are",
    )
    occurrences: int = Field(
        default=32,
        ge=1,
        le=1024,
        description="common_subexpression_elimination: places that an expression is looked for at",
    )
    divisors: bool = Field(
        default=False, description="beside `factors`, `tiles`, `parts` and `blocks`: all divisors of what they cut"
    )

    def below(self, sizes: tuple[int, ...], extent: int) -> list[int]:
        """The sizes that cut an extent, in ascending order: of those given, and of its divisors where wanted."""
        small = [size for size in sizes if size < extent]
        if not self.divisors:
            return small
        low = [number for number in range(2, isqrt(extent) + 1) if extent % number == 0]
        return sorted(dict.fromkeys((*small, *low, *(extent // number for number in low))))

    def chosen(self) -> dict[str, Any]:
        """What differs from the default, as JSON holds it."""
        return self.model_dump(mode="json", exclude_defaults=True)


DEFAULT = Grid()
