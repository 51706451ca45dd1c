"""Convolutions of images: the schedule of `schedules.convolution`, with tiles that fit the sizes."""

from collections.abc import Iterable, Iterator
from itertools import product

from leir.edit import accesses
from leir.syntax import Access, Binary
from schedules.convolution import tile
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, plain_nests, subscripts
from stepTP.search.experts.rule import Rule

_THREADS = (512, 256)  # of a block at most
_WIDTHS = (28, 56)  # columns of a block at most
_CHANNELS = ((64, 8), (128, 16), (32, 8), (16, 4))  # of a block, and of a thread
_WRITTEN_OUT = 2  # tilings whose copies may be written out, too


def rules(nest: Nest) -> Iterator[Rule]:
    """Blocks of whole rows of columns, or halves of them, which the sizes allow."""
    found = _as_convolution(nest)
    if found is None:
        return
    names, extents = found, nest.extents
    _, channels, rows, columns = (extents[name] for name in nest.variables[:4])
    tiles: dict[tuple[tuple[int, int, int], tuple[int, int]], None] = {}
    for most, widest, (wide, own) in product(_THREADS, _WIDTHS, _CHANNELS):
        width = max(size for size in range(1, widest + 1) if columns % size == 0)
        lanes = next((lanes for lanes in (4, 7, 2) if width % lanes == 0), 0)
        if wide > channels or not lanes or width == lanes:
            continue
        each = (wide // own) * (width // lanes)
        high = next((high for high in range(most // each, 1, -1) if rows % high == 0), 0)
        if high:
            tiles[(wide, high, width), (own, lanes)] = None
    for number, (block, thread) in enumerate(tiles):
        why = f"convolution by {block[0]} channels, {block[1]} rows, {block[2]} columns"
        for unrolled, how in ((0, ""), (1, ", copies written out")) if number < _WRITTEN_OUT else ((0, ""),):
            yield Rule(
                f"{why}{how}",
                lambda t, n, block=block, thread=thread, unrolled=unrolled: _tiled(
                    t, n, nest, names, block, thread, unrolled
                ),
            )


def is_padding(nest: Nest, nests: Iterable[Nest]) -> bool:
    """Whether a nest only prepares the image of a convolution: it is best computed where that stages it."""
    readers = [n for n in nests if any(a.tensor == nest.equation.target.tensor for a in accesses(n.equation.value))]
    return nest.equation.op == "=" and len(readers) == 1 and _image_of(readers[0]) == nest.equation.target.tensor


def _image_of(nest: Nest) -> str | None:
    found = _as_convolution(nest)
    return None if found is None else found[1]


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
    unrolled: int,
) -> None:
    """The schedule; an image that a nest of its own has padded is padded where it is staged."""
    tile(t, (number,), nest.variables, names, block, thread, unrolled=unrolled)
    others = plain_nests(t.program).values()
    if any(other.equation.target.tensor == names[1] and other.equation.op == "=" for other in others):
        t.take("compute_inline", tensor=names[1])
