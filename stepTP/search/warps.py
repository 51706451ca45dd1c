"""What an access costs when the 32 threads of a warp make it together: sectors of memory, turns at shared memory.

Addresses are computed for every thread of the first warp, all other loops at their first iterations, so that any
subscript is seen as it is, // and % included. A vector loop's elements go in one access.
"""

from functools import lru_cache
from itertools import islice, product

from leir.analysis.affine import constant
from leir.edit import variables_of
from leir.syntax import Access, Loop

_WARP, _BANKS, _SECTOR = 32, 32, 32
_WORD = 4  # bytes of a bank


@lru_cache(maxsize=1 << 14)
def sector_bytes(
    access: Access, threads: tuple[Loop, ...], vector: Loop | None, shape: tuple[int, ...], size: int
) -> float:
    """Bytes of memory's sectors that one element of one thread takes of the warp's; `threads`: tx, ty, tz."""
    places = _places(access, threads, vector, shape)
    if places is None:  # a gather: every thread has a sector of its own
        return float(_SECTOR)
    return len({place * size // _SECTOR for place in places}) * _SECTOR / len(places)


@lru_cache(maxsize=1 << 14)
def bank_turns(
    access: Access, threads: tuple[Loop, ...], vector: Loop | None, shape: tuple[int, ...], size: int
) -> float:
    """How many turns at the banks an element of a warp takes: 1 without a conflict, less where threads share a word."""
    places = _places(access, threads, vector, shape)
    if places is None:
        return 1.0
    words = {place * size // _WORD for place in places}
    banks: dict[int, int] = {}
    for word in sorted(words):
        banks[word % _BANKS] = banks.get(word % _BANKS, 0) + 1
    return max(max(banks.values()) * _BANKS / len(places), 1 / _BANKS)


def _places(access: Access, threads: tuple[Loop, ...], vector: Loop | None, shape: tuple[int, ...]) -> list[int] | None:
    """The element of each thread of the first warp, and of each lane of its vector; None where a subscript is read."""
    lanes = (vector,) if vector is not None else ()
    # tx moves fastest among threads; a vector's lanes are of one thread.
    order = [*reversed(threads), *lanes]
    runs = product(*(range(loop.first, loop.first + loop.extent) for loop in order))
    count = _WARP * (vector.extent if vector is not None else 1)
    fixed = {name: 0 for index in access.indices for name in sorted(variables_of(index))}
    found: list[int] = []
    for values in islice(runs, count):
        at = fixed | dict(zip((loop.variable for loop in order), values, strict=True))
        place = 0
        for index, extent in zip(access.indices, shape, strict=True):
            value = constant(index, at)
            if value is None:
                return None
            place = place * extent + value
        found.append(place)
    return found
