"""Nests whose iterations are independent: element-wise work, copies, transposes, and whatever is left over."""

from collections.abc import Iterator

from leir.analysis.cost import cost
from leir.edit import accesses
from leir.syntax import Access
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, subscripts
from stepTP.search.experts.rule import Rule

_LANES = 4
_THREADS = (256, 128, 512)
_UNROLLED = 16  # iterations of a serial loop that are written out


def rules(nest: Nest) -> Iterator[Rule]:
    if not nest.reduced and not nest.guarded and nest.target is not None:
        crossed = _crossed(nest)
        if crossed is not None:
            for tile, rows in ((64, 8), (32, 8), (64, 16)):
                if all(nest.extents[name] > tile for name in crossed[1:]):
                    size, why = (tile, rows), f"transposed by tiles of {tile}, {rows} rows of threads"
                    yield Rule(why, lambda t, n, size=size: _transpose(t, n, crossed, size))
        last = nest.extents[nest.target[-1]] if nest.target else 0
        for threads in _THREADS:
            if last % _LANES == 0 and last >= threads * _LANES:
                why = f"vectors of 4, {threads} threads"
                yield Rule(why, lambda t, n, threads=threads: _vectors(t, n, nest, threads))
    for threads in _THREADS[:1]:
        yield Rule(f"one thread a result, {threads} a block", lambda t, n, threads=threads: _spread(t, n, threads))


def _vectors(t: Trajectory, number: int, nest: Nest, threads: int) -> None:
    """Columns in vectors of four, threads along them, a row of blocks for the rest of a row, all rows in a grid."""
    root, target = (number,), nest.target
    assert target
    t.order(root, *target)
    last = target[-1]
    lane = t.split(root, last, _LANES)
    thread = t.tile(root, last, threads)
    for _ in target[2:]:
        t.take("loop_fusion", path=root)
    outer = [name for name in t.nest(root) if name not in (thread, lane)]
    axes = ("bx", "by") if len(outer) > 1 else ("bx",)  # the longest grid is that of x
    t.bind(root, **dict(zip(axes, outer, strict=False)), tx=thread)
    t.take("loop_vectorization", path=t.nest(root)[lane], kind="vectorised")


def _spread(t: Trajectory, number: int, threads: int) -> None:
    """The independent outer loops as one, in blocks of threads."""
    root = (number,)
    found = next(nest for nest in cost(t.program).nests if nest.path == root)
    outer = [name for name, path in t.nest(root).items() if path in found.independent]
    inside = [name for name in t.nest(root) if name not in outer]
    t.order(root, *outer)
    for _ in outer[1:]:
        t.take("loop_fusion", path=root)
    whole = next(iter(t.nest(root)))
    thread = t.tile(root, whole, threads)
    t.bind(root, **({"bx": whole} if thread != whole else {}), tx=thread)
    for name in inside:
        if t.extent(root, name) <= _UNROLLED:
            t.take("loop_unrolling", path=t.nest(root)[name], kind="unrolled")


def _crossed(nest: Nest) -> tuple[Access, str, str] | None:
    """An operand that lies along another loop than the result does, with that loop and the result's last."""
    last = (nest.target or ("",))[-1]
    for access in accesses(nest.equation.value):
        names = subscripts(access)
        if names and len(names) > 1 and last in names and names[-1] != last:
            return access, names[-1], last
    return None


def _transpose(t: Trajectory, number: int, crossed: tuple[Access, str, str], size: tuple[int, int]) -> None:
    """A tile through padded shared memory, so that both sides are walked along memory (as `schedules.transpose`)."""
    (access, along, last), (tile, rows), root = crossed, size, (number,)
    others = [name for name in t.nest(root) if name not in (along, last)]
    t.order(root, *others, last, along)
    u, v = t.split(root, last, tile), t.split(root, along, tile)
    t.order(root, *others, last, along, u, v)
    for _ in others[1:]:
        t.take("loop_fusion", path=root)
    t.bind(root, **({"bz": next(iter(t.nest(root)))} if others else {}), by=last, bx=along)
    name, copy, work = t.stage(t.nest(root)[u], access.tensor, "s")
    for nest in (copy, work):
        outer, inner = list(t.nest(nest))[-2:]
        if nest == work:
            outer, inner = inner, outer
        within = t.split(nest, outer, rows)
        t.order(nest, within, inner, outer)
        t.bind(nest, ty=within, tx=inner)
    t.take("set_storage_layout", tensor=name, op="pad", axis=1, by=1)
