"""Transpose: a tile through padded shared memory, so that both sides are walked along memory."""

from schedules.trajectory import Trajectory


def trajectory(m: int, n: int, tile: int = 32, rows: int = 8) -> Trajectory:
    """The trajectory for A of m x n. A block of `rows` x `tile` threads takes a tile of `tile` x `tile` elements."""
    t = Trajectory(f"in A_{{{m},{n}}};out C_{{{n},{m}}};L^{{{m},{n}}}_{{i,j}}[C_{{j,i}}=A_{{i,j}};]")
    root = (0,)
    t.take("loop_tiling", outer=(0,), inner=(0, 0), outer_tile=tile, inner_tile=tile)
    _, _, u, v = t.nest(root)
    t.bind(root, by="i", bx="j")
    name, copy, work = t.stage(t.nest(root)[u], "A", "s")
    t.order(work, v, u)  # the rows of the result are the columns of the source
    for nest in (copy, work):
        outer, inner = t.nest(nest)
        within = t.split(nest, outer, rows)
        t.order(nest, within, inner, outer)
        t.bind(nest, ty=within, tx=inner)
    t.take("set_storage_layout", tensor=name, op="pad", axis=1, by=1)
    return t
