"""What schedules of rows share: a block a row, the row in the threads' registers, reductions through shared memory."""

from leir.syntax import Path
from schedules.trajectory import Trajectory

LANES = 4


def hold_rows(t: Trajectory, tensor: str, threads: int) -> None:
    """One kernel, a block a row, from nests over rows, of which some go on over the columns of `tensor`.

    Every thread loads its columns of `tensor`, groups of 4, once, and keeps them in registers. Temporaries of the rows
    are shared by the threads of a block.
    """
    t.take("layout_transformation", at=0, tensor=tensor, op="swap", axis=0, by=1)
    held = t.tensors()[0]
    results = [name for name in t.tensors() if name != held and name not in t.outputs()]
    for _ in t.program.body[1:]:
        t.take("operator_fusion", path=(0,), depth=1)
    t.bind((0,), bx=next(iter(t.nest((0,)))))
    for result in (held, *results):  # what is held too, until every use of it is bound to its thread
        t.take("set_storage_scope", tensor=result, scope="s")

    for root in [path for path in t.places((0,)) if t.nest(path)]:
        (columns,) = t.nest(root)
        lane = t.split(root, columns, threads * LANES)
        own = lane
        lane = t.split(root, own, LANES)
        t.order(root, own, columns, lane)
    t.take("set_storage_layout", tensor=held, op="split", axis=0, by=threads * LANES)
    t.take("set_storage_layout", tensor=held, op="split", axis=1, by=LANES)
    t.take("set_storage_layout", tensor=held, op="swap", axis=0, by=1)


def spread_columns(t: Trajectory, tensor: str) -> None:
    """Binds the threads of the nest that writes `tensor` column by column, and writes its loops out."""
    root = t.writers(tensor)[0][:2]
    t.bind(root, tx=next(iter(t.nest(root))))
    t.take("loop_vectorization", path=list(t.nest(root).values())[-1], kind="vectorised")
    t.unroll_below(root)


def reduce_columns(t: Trajectory, tensor: str, threads: int, levels: tuple[int, ...]) -> None:
    """Turns the reduction into `tensor` into parts of each thread, and parts of parts, as many as `levels` say."""
    root: Path = t.writers(tensor)[0][:2]
    for number, parts in enumerate((threads, *levels)):
        known = t.tensors()
        t.take("reduction_factorization", path=root, tensor=tensor, parts=parts)
        (partial,) = (name for name in t.tensors() if name not in known)
        t.take("set_storage_scope", tensor=partial, scope="s")
        for written in t.writers(partial):  # where a part may get no term, it is set before
            t.bind(written[:2], tx=next(iter(t.nest(written[:2]))))
        root = t.writers(partial)[-1][:2]
        if number == 0:
            nest = root if len(t.writers(partial)) > 1 else t.stage(root, partial, "l", "write")[2]
            t.unroll_below(nest)
        root = t.writers(tensor)[0][:2]


def keep_held(t: Trajectory, tensor: str) -> None:
    """Moves what `hold_rows` holds to registers, once every use is bound to its thread."""
    t.take("set_storage_scope", tensor=tensor, scope="l")
