"""Matrix product: block tiles in shared memory, thread tiles in registers, four values at a time.

From `C = A W` in three loops: rows and columns are cut into tiles for blocks, threads and registers; accumulators go to
registers; the depth is cut, and each block stages its parts of A and W in shared memory; threads load the rows and
columns of their tile to registers, and loops of constant extent are written out.
"""

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
    rows, columns, depth = block
    threads = (rows // thread[0], columns // thread[1])

    # Blocks, threads, registers: rows i are i, ti, u; columns j are j, groups w, tj, and v within a group.
    root = (0,)
    ti = t.split(root, "i", rows)
    u = t.split(root, ti, thread[0])
    w = t.split(root, "j", columns)
    groups = [w] if thread[1] > LANES else []
    tj = t.split(root, w, threads[1] * LANES) if groups else w
    v = t.split(root, tj, min(LANES, thread[1]))
    t.order(root, "i", "j", ti, tj, u, *groups, v)
    t.bind(root, by="i", bx="j", ty=ti, tx=tj)

    # Accumulators in registers: each thread has its own, and stores them once.
    _, stored, work = t.stage(t.nest(root)["ty"], "C", "l", "write")

    # The depth in parts, outside the threads; within a part, one step of the depth after the other.
    p = t.split(work, "k", depth)
    t.order(work, "k", "ty", "tx", p, u, *groups, v)

    # The block's parts of both operands in shared memory, copied by all of its threads.
    users = (*work, 0)
    shared: list[str] = []
    for tensor in ("A", "W"):
        name, copy, users = t.stage(users, tensor, "s")
        shared.append(name)
        lanes = t.split(copy, list(t.nest(copy))[-1], LANES)
        t.spread(copy, loops=2, ty=threads[0], tx=threads[1])
        if tensor == "W":
            t.take("loop_vectorization", path=t.nest(copy)[lanes], kind="vectorised")
        else:  # a vector from memory to registers, from where its values go to as many rows
            _, load, store = t.stage(t.nest(copy)[lanes], tensor, "l")
            t.take("loop_vectorization", path=load, kind="vectorised")
            t.unroll_below(store)
        t.unroll_below(copy)
    t.take("set_storage_layout", tensor=shared[0], op="swap", axis=0, by=1)
    if pad:
        t.take("set_storage_layout", tensor=shared[0], op="pad", axis=1, by=pad)

    # Each thread's rows and columns in registers, for one step of the depth.
    step = t.nest(users)[p]
    inner = (*step, 0)
    for tensor in shared:
        _, load, inner = t.stage(inner, tensor, "l")
        t.vectorise(load, LANES)
    t.vectorise(stored, LANES)
    t.unroll_below(step)
    t.unroll_below((*stored, 0, 0))
    return t
