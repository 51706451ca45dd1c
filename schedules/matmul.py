"""Matrix product: block tiles in shared memory, thread tiles in registers, four values at a time.

From `C = A W` in three loops: rows and columns are cut into tiles for blocks, threads and registers; accumulators go to
registers; the depth is cut, and each block stages its parts of A and W in shared memory; threads load the rows and
columns of their tile to registers, and loops of constant extent are written out.
"""

from leir.syntax import Path
from schedules.trajectory import Trajectory

LANES = 4


def trajectory(
    m: int,
    n: int,
    k: int,
    block: tuple[int, int, int] = (128, 128, 16),
    thread: tuple[int, int] = (8, 8),
    pad: int = 4,
) -> Trajectory:
    """The trajectory for A of m x k and W of k x n.

    `block`: rows, columns and depth of a block's tile, multiples of 4 from 8 on; `thread`: rows and columns of a
    thread's, which divide them. A thread's columns are groups of 4 that lie as far apart as the threads of a row of the
    block need. The rows of the staged A are `pad` elements longer than they must be. Tiles need not divide the sizes,
    which are above them.
    """
    t = Trajectory(
        f"in A_{{{m},{k}}},W_{{{k},{n}}};out C_{{{m},{n}}};L^{{{m},{n},{k}}}_{{i,j,k}}[C_{{i,j}}+=A_{{i,k}}*W_{{k,j}};]"
    )
    tile(t, (0,), ("i", "j", "k"), ("A", "W"), block, thread, pad)
    return t


def tile(
    t: Trajectory,
    root: Path,
    loops: tuple[str, str, str],
    operands: tuple[str, str],
    block: tuple[int, int, int],
    thread: tuple[int, int],
    pad: int = 4,
    batch: tuple[str, ...] = (),
    along: tuple[bool, bool] = (True, False),
) -> None:
    """Tiles the nest of a product at `root`, whatever its tensors are called: one kernel.

    `loops`: of its rows, its columns and its depth; `batch`: the other loops, each a grid of its own, two at most.
    `operands`: the tensors of the rows and of the columns; `along`: whether the depth is the last subscript of each, so
    that memory is walked along the depth. `block`, `thread` and `pad` as for `trajectory`.
    """
    i, j, k = loops
    rows, columns, depth = block
    threads = (rows // thread[0], columns // thread[1])

    # Blocks, threads, registers: rows i are i, ti, u; columns j are j, groups w, tj, and v within a group.
    ti = t.split(root, i, rows)
    u = t.split(root, ti, thread[0])
    w = t.split(root, j, columns)
    groups = [w] if thread[1] > LANES else []
    tj = t.split(root, w, threads[1] * LANES) if groups else w
    v = t.split(root, tj, min(LANES, thread[1]))
    t.order(root, *batch, i, j, ti, tj, u, *groups, v)
    for _ in batch[1:]:
        t.take("loop_fusion", path=root)
    if batch:
        t.bind(root, bz=next(iter(t.nest(root))))
    t.bind(root, by=i, bx=j, ty=ti, tx=tj)

    # Accumulators in registers: each thread has its own, and stores them once.
    result = t.writer(root)
    _, stored, work = t.stage(t.nest(root)["ty"], result, "l", "write")

    # The depth in parts, outside the threads; within a part, one step of the depth after the other.
    p = t.split(work, k, depth)
    t.order(work, k, "ty", "tx", p, u, *groups, v)

    # The block's parts of both operands in shared memory, copied by all of its threads.
    users = (*work, 0)
    shared: list[str] = []
    for tensor, walks_depth in zip(operands, along, strict=True):
        name, copy, users = t.stage(users, tensor, "s")
        shared.append(name)
        lanes = t.split(copy, list(t.nest(copy))[-1], LANES)
        t.spread(copy, loops=2, ty=threads[0], tx=threads[1])
        if not walks_depth:
            t.take("loop_vectorization", path=t.nest(copy)[lanes], kind="vectorised")
        else:  # a vector from memory to registers, from where its values go to as many rows
            _, load, store = t.stage(t.nest(copy)[lanes], tensor, "l")
            t.take("loop_vectorization", path=load, kind="vectorised")
            t.unroll_below(store)
        t.unroll_below(copy)
    for tensor, walks_depth in zip(shared, along, strict=True):
        if walks_depth:  # the depth first, so that a step of it lies side by side
            t.take("set_storage_layout", tensor=tensor, op="swap", axis=0, by=1)
            if pad:
                t.take("set_storage_layout", tensor=tensor, op="pad", axis=1, by=pad)

    # Each thread's rows and columns in registers, for one step of the depth.
    step = t.nest(users)[p]
    inner = (*step, 0)
    for tensor in shared:
        _, load, inner = t.stage(inner, tensor, "l")
        t.vectorise(load, LANES)
    t.vectorise(stored, LANES)
    t.unroll_below(step)
    t.unroll_below((*stored, 0, 0))
