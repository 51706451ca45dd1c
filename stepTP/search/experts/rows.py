"""Rows that are reduced and used again, as in softmax and the normalisations: a block a row, the row in registers.

After the schedules `schedules.softmax` and `schedules.layer_norm`, for any neighbouring nests over the same rows: they
become one kernel. What is read more than once of a row, every thread loads once and keeps; its reductions are cut in
parts of each thread, and parts of parts, through shared memory.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from leir.edit import accesses
from leir.syntax import Path
from schedules.trajectory import Trajectory
from stepTP.search.experts.nests import Nest, as_product, subscripts
from stepTP.search.experts.rule import Rule

_LANES = 4
_THREADS = ((512, (64, 8)), (256, (32, 4)), (1024, (128, 16)), (128, (16, 4)), (64, (8,)), (32, (8,)))
_MOST_HELD = 32  # elements of a row that a thread keeps of one tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Neighbouring nests over the same rows, `count` from `first` on, some of which go on over columns.

    `depth`: loops of a row. `held`: tensors of whole rows that are read again, written ahead of the group; `own`: those
    that it writes itself and nobody else reads. `results`: of its reductions, in the order of the text; `inner`: its
    other temporaries.
    """

    first: int
    count: int
    depth: int
    columns: int
    held: tuple[str, ...]
    own: tuple[str, ...]
    results: tuple[str, ...]
    inner: tuple[str, ...]


def group_at(nests: dict[int, Nest], number: int, outputs: tuple[str, ...]) -> Group | None:
    """The longest group that begins with a nest; None where there is none that reduces rows."""
    found: list[Nest] = []
    depth = columns = 0
    for nest in (nests[n] for n in range(number, max(nests) + 1) if n in nests):
        if nest.number != number + len(found) or nest.guarded or as_product(nest) is not None:
            break
        rows, width = _shape(nest, depth)
        if not rows or (found and _extents(nest, depth) != _extents(found[0], depth)):
            break
        if width and columns and width != columns:
            break
        depth, columns = rows, columns or width
        found.append(nest)
    while found and not any(nest.reduced for nest in found):
        return None
    return _group(found, nests, depth, columns, outputs) if found and columns else None


def rules(group: Group) -> Iterator[Rule]:
    for threads, levels in _THREADS:
        if group.columns >= threads * _LANES and group.columns <= threads * _MOST_HELD:
            yield Rule(
                f"a block a row of {group.columns}, {threads} threads",
                lambda t, n, threads=threads, levels=levels: _scheduled(t, n, group, threads, levels),
            )


def _shape(nest: Nest, depth: int) -> tuple[int, int]:
    """How many loops are of rows, given how many are known to be, and the extent of the columns, 0 without any."""
    if nest.reduced:
        whole = any(subscripts(access) == nest.variables for access in accesses(nest.equation.value))
        kept = nest.variables[:-1]
        ok = nest.reduced == nest.variables[-1:] and nest.target == kept and whole and depth in (0, len(kept))
        return (len(kept), nest.loops[-1].extent) if ok and kept else (0, 0)
    if nest.target != nest.variables:
        return 0, 0
    if depth and len(nest.loops) == depth:
        return depth, 0
    if not depth or len(nest.loops) == depth + 1:
        return len(nest.loops) - 1, nest.loops[-1].extent
    return 0, 0


def _extents(nest: Nest, depth: int) -> tuple[int, ...]:
    return tuple(loop.extent for loop in nest.loops[:depth])


def _group(found: list[Nest], nests: dict[int, Nest], depth: int, columns: int, outputs: tuple[str, ...]) -> Group:
    inside = {nest.number for nest in found}
    written = tuple(dict.fromkeys(nest.equation.target.tensor for nest in found))
    reads: dict[str, int] = {}
    for nest in found:
        whole = {a.tensor for a in accesses(nest.equation.value) if subscripts(a) == nest.variables[: depth + 1]}
        for tensor in sorted(whole) if len(nest.loops) > depth else ():
            reads[tensor] = reads.get(tensor, 0) + (2 if nest.reduced else 1)  # a reduction reads no vectors
    elsewhere = {a.tensor for n, nest in nests.items() if n not in inside for a in accesses(nest.equation.value)}
    inner = tuple(name for name in written if name not in outputs and name not in elsewhere)
    whole_rows = {nest.equation.target.tensor for nest in found if len(nest.loops) > depth and not nest.reduced}
    return Group(
        found[0].number,
        len(found),
        depth,
        columns,
        tuple(name for name, count in reads.items() if count > 1 and name not in written),
        tuple(name for name in inner if name in whole_rows),
        tuple(dict.fromkeys(nest.equation.target.tensor for nest in found if nest.reduced)),
        tuple(name for name in inner if name not in whole_rows),
    )


def _scheduled(t: Trajectory, number: int, group: Group, threads: int, levels: tuple[int, ...]) -> None:
    held = list(group.own)
    for tensor in group.held:
        t.take("layout_transformation", at=number, tensor=tensor, op="swap", axis=group.depth - 1, by=group.depth)
        held.append(t.writer((number,)))
    for _ in range(group.count + len(group.held) - 1):
        t.take("operator_fusion", path=(number,), depth=group.depth)
    rows = list(t.nest((number,)))[: group.depth]
    for _ in rows[3:]:
        t.take("loop_fusion", path=(number,))
    rows = list(t.nest((number,)))[: min(3, group.depth)]
    t.bind((number,), **dict(zip(("bx", "by", "bz"), rows[::-1], strict=False)))
    block: Path = (number,) + (0,) * (len(rows) - 1)
    for tensor in (*held, *group.inner):  # what is held too, until every use of it is bound to its thread
        t.take("set_storage_scope", tensor=tensor, scope="s")

    rounds = group.columns > threads * _LANES
    for root in [path for path in t.places(block) if t.nest(path)]:
        (columns,) = t.nest(root)
        own = t.tile(root, columns, threads * _LANES)
        lane = t.split(root, own, _LANES)
        t.order(root, own, *([columns] if rounds else []), lane)
    for tensor in held:
        if rounds:
            t.take("set_storage_layout", tensor=tensor, op="split", axis=0, by=threads * _LANES)
        t.take("set_storage_layout", tensor=tensor, op="split", axis=int(rounds), by=_LANES)
        if rounds:
            t.take("set_storage_layout", tensor=tensor, op="swap", axis=0, by=1)

    depth = len(block) + 1
    for root in [path for path in t.places(block) if len(t.nest(path)) > 1]:
        tensor = t.writer(root)
        if tensor not in group.results:
            _spread(t, t.writers(tensor)[0][:depth])
    for tensor in group.results:
        _reduce(t, tensor, depth, threads, levels)
    for tensor in held:
        t.take("set_storage_scope", tensor=tensor, scope="l")


def _spread(t: Trajectory, root: Path) -> None:
    """Binds the threads of a nest of columns, and writes its loops out."""
    t.bind(root, tx=next(iter(t.nest(root))))
    t.take("loop_vectorization", path=list(t.nest(root).values())[-1], kind="vectorised")
    t.unroll_below(root)


def _reduce(t: Trajectory, tensor: str, depth: int, threads: int, levels: tuple[int, ...]) -> None:
    """Turns a reduction into parts of each thread, and parts of parts, as many as `levels` say."""
    for number, parts in enumerate((threads, *levels)):
        known = t.tensors()
        t.take("reduction_factorization", path=t.writers(tensor)[0][:depth], tensor=tensor, parts=parts)
        (partial,) = (name for name in t.tensors() if name not in known)
        t.take("set_storage_scope", tensor=partial, scope="s")
        for written in t.writers(partial):  # where a part may get no term, it is set before
            t.bind(written[:depth], tx=next(iter(t.nest(written[:depth]))))
        root = t.writers(partial)[-1][:depth]
        if number == 0:
            t.unroll_below(root if len(t.writers(partial)) > 1 else t.stage(root, partial, "l", "write")[2])
