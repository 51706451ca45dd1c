"""Convolutions of images: the schedule of `schedules.convolution`, with tiles that fit the sizes."""

from collections.abc import Iterator
from itertools import product

from leir.syntax import Access, Binary
from schedules.convolution import tile
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, subscripts
from stepTP.search.experts.rule import Rule

_THREADS = (512, 256)  # of a block at most
_WIDTHS = (28, 56)  # columns of a block at most
_CHANNELS = ((64, 8), (128, 16), (32, 8), (16, 4))  # of a block, and of a thread


def rules(nest: Nest) -> Iterator[Rule]:
    """Blocks of whole rows of columns, or halves of them, which the sizes allow."""
    found = _as_convolution(nest)
    if found is None:
        return
    names, extents = found, nest.extents
    _, channels, rows, columns = (extents[name] for name in nest.variables[:4])
    seen: dict[tuple[tuple[int, int, int], tuple[int, int]], None] = {}
    for most, widest, (wide, own) in product(_THREADS, _WIDTHS, _CHANNELS):
        width = max(size for size in range(1, widest + 1) if columns % size == 0)
        lanes = next((lanes for lanes in (4, 7, 2) if width % lanes == 0), 0)
        if wide > channels or not lanes or width == lanes:
            continue
        each = (wide // own) * (width // lanes)
        high = next((high for high in range(most // each, 1, -1) if rows % high == 0), 0)
        block, thread = (wide, high, width), (own, lanes)
        if high and (block, thread) not in seen:
            seen[block, thread] = None
            yield Rule(
                f"convolution by {wide} channels, {high} rows, {width} columns",
                lambda t, n, block=block, thread=thread: _tiled(t, n, nest, names, block, thread),
            )


def _as_convolution(nest: Nest) -> tuple[str, str, str] | None:
    """The tensors of result, image and weights, where the nest is a convolution of images."""
    equation = nest.equation
    if equation.op != "+=" or len(nest.loops) != 7 or nest.target != nest.variables[:4]:
        return None
    match equation.value:
        case Binary("*", Access(image) as one, Access(weights) as other) if len(one.indices) == 4:
            channels, depth, high, wide = nest.variables[1], *nest.variables[4:]
            if subscripts(other) == (channels, depth, high, wide) and subscripts(one) is None:
                return equation.target.tensor, image, weights
        case _:
            pass
    return None


def _tiled(
    t: Trajectory,
    number: int,
    nest: Nest,
    names: tuple[str, str, str],
    block: tuple[int, int, int],
    thread: tuple[int, int],
) -> None:
    tile(t, (number,), nest.variables, names, block, thread)
