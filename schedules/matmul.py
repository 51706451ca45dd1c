"""Matrix product: block tiles in shared memory, thread tiles in registers.

From `C = A W` in three loops: rows and columns are cut into tiles for blocks, threads and registers; accumulators go to
registers; the depth is cut, and each block stages its parts of A and W in shared memory; threads load the rows and
columns of their tile to registers, and loops of constant extent are written out.
"""

from schedules.trajectory import Trajectory


def trajectory(
    m: int, n: int, k: int, block: tuple[int, int, int] = (128, 128, 16), thread: tuple[int, int] = (8, 8)
) -> Trajectory:
    """The trajectory for A of m x k and W of k x n.

    `block`: rows, columns and depth of a block's tile, which `thread`, rows and columns of a thread's, divides. Tiles
    need not divide the sizes.
    """
    t = Trajectory(
        f"in A_{{{m},{k}}},W_{{{k},{n}}};out C_{{{m},{n}}};L^{{{m},{n},{k}}}_{{i,j,k}}[C_{{i,j}}+=A_{{i,k}}*W_{{k,j}};]"
    )
    rows, columns, depth = block
    threads = (rows // thread[0], columns // thread[1])

    # Blocks, threads, registers: rows i are i, ti, u and columns j are j, tj, v.
    root = (0,)
    ti = t.split(root, "i", rows)
    u = t.split(root, ti, thread[0])
    tj = t.split(root, "j", columns)
    v = t.split(root, tj, thread[1])
    t.order(root, "i", "j", ti, tj, u, v)
    t.bind(root, by="i", bx="j", ty=ti, tx=tj)

    # Accumulators in registers: each thread has its own, and stores them once.
    _, stored, work = t.stage(t.nest(root)["ty"], "C", "l", "write")

    # The depth in parts, outside the threads; within a part, one step of the depth after the other.
    p = t.split(work, "k", depth)
    t.order(work, "k", "ty", "tx", p, u, v)

    # The block's parts of both operands in shared memory, copied by all of its threads: A's with the depth outside, so
    # that the rows of a thread lie side by side.
    users = (*work, 0)
    shared: list[str] = []
    for tensor in ("A", "W"):
        name, copy, users = t.stage(users, tensor, "s")
        shared.append(name)
        t.spread(copy, *threads)
    t.take("set_storage_layout", tensor=shared[0], op="swap", axis=0, by=1)

    # Each thread's rows and columns in registers, for one step of the depth.
    step = t.nest(users)[p]
    inner = (*step, 0)
    for tensor in shared:
        _, _, inner = t.stage(inner, tensor, "l")
    t.unroll_below(step)
    t.unroll_below((*stored, 0, 0))
    return t
