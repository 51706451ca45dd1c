"""Reductions with few results: terms are shared out among enough threads, and parts combined by further kernels."""

from collections.abc import Iterator

from leir.edit import accesses
from leir.syntax import Path
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, subscripts
from stepTP.search.experts.rule import Rule

_BLOCK = 256
_DEVICE = 1 << 17  # threads that keep a device busy


def rules(nest: Nest) -> Iterator[Rule]:
    """For all of a tensor into one result, and for columns, whose threads walk along rows."""
    if nest.guarded or not nest.reduced or nest.target is None or nest.equation.op not in ("+=", "max=", "min=", "*="):
        return
    if not nest.target:
        for parts in (_DEVICE, 2 * _DEVICE, _DEVICE // 4):
            if nest.runs >= 2 * parts:
                yield Rule(f"{parts} partial results", lambda t, n, parts=parts: _all(t, n, parts))
        return
    along = nest.target[-1]
    read = [names for a in accesses(nest.equation.value) if (names := subscripts(a))]
    if len(nest.reduced) == 1 and any(names[-1] == along for names in read):
        results = nest.runs // nest.extents[nest.reduced[0]]
        for wanted in (_DEVICE, 2 * _DEVICE, _DEVICE // 2):
            parts = _divisor(nest.extents[nest.reduced[0]], -(-wanted // results))
            if parts > 1:
                yield Rule(f"columns in {parts} parts", lambda t, n, parts=parts: _columns(t, n, nest, parts))


def _divisor(extent: int, wanted: int) -> int:
    """The least divisor of an extent that is not below `wanted`; the extent's half where that is all of it."""
    found = next(d for d in range(max(1, wanted), extent + 1) if extent % d == 0) if wanted < extent else extent
    return found if found < extent else extent // 2


def _all(t: Trajectory, number: int, parts: int) -> None:
    """Neighbouring threads take neighbouring terms; parts become 1,024, then 32, then one."""
    root, tensor = (number,), t.writer((number,))
    for _ in range(len(t.nest(root)) - 1):
        t.take("loop_fusion", path=root)
    for count in (parts, 1024, 32):
        root = t.writers(tensor)[0][:1]
        (whole,) = t.nest(root)
        within = t.split(root, whole, count)
        t.order(root, within, whole)
        known = t.tensors()
        t.take("reduction_factorization", path=root, tensor=tensor, parts=count)
        (partial,) = (name for name in t.tensors() if name not in known)
        for written in t.writers(partial):
            first = next(iter(t.nest(written[:1])))
            thread = t.tile(written[:1], first, _BLOCK)
            t.bind(written[:1], **({"bx": first} if thread != first else {}), tx=thread)


def _columns(t: Trajectory, number: int, nest: Nest, parts: int) -> None:
    """A grid of parts of the depth, threads along the results; then a thread a result combines the parts."""
    root, tensor = (number,), nest.equation.target.tensor
    (depth,), target = nest.reduced, nest.target or ()
    t.order(root, *target, depth)
    known = t.tensors()
    t.take("reduction_factorization", path=t.nest(root)[depth], tensor=tensor, parts=parts)
    (partial,) = (name for name in t.tensors() if name not in known)
    t.take("set_storage_layout", tensor=partial, op="swap", axis=len(target) - 1, by=len(target))  # along the threads
    t.take("operator_fission", path=root, depth=len(target), at=1)
    for place in (number, number + 1):
        _grid(t, (place,), len(target), split=place == number)


def _grid(t: Trajectory, root: Path, results: int, *, split: bool) -> None:
    """Threads along the last of the results' loops, blocks for the others and, if `split`, for the parts."""
    names = list(t.nest(root))
    last, parts = names[results - 1], names[results]
    thread = t.tile(root, last, _BLOCK)
    outer = names[: results - 1]
    grid = [*outer, *([parts] if split else []), *([last] if thread != last else [])]
    t.order(root, *grid, thread)
    for _ in outer[1:]:
        t.take("loop_fusion", path=root)
    axes = [name for name in t.nest(root) if name in grid]
    t.bind(root, **dict(zip(("bx", "by", "bz"), axes[::-1], strict=False)), tx=thread)
