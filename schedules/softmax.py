"""Softmax of rows: a block a row, the row in registers, two reductions through shared memory."""

from schedules.rows import hold_rows, keep_held, reduce_columns, spread_columns
from schedules.trajectory import Trajectory


def trajectory(m: int, n: int, threads: int = 256, levels: tuple[int, ...] = (32, 4)) -> Trajectory:
    """The trajectory for A of m x n.

    `threads` of a block reduce their part of a row each; `levels`: how many parts are left each time partial results
    are combined, until one thread combines the last.
    """
    loops = f"L^{{{m},{n}}}_{{i,j}}"
    t = Trajectory(
        f"in A_{{{m},{n}}};out C_{{{m},{n}}};{loops}[D_i max=A_{{i,j}};]{loops}[E_i+=exp(A_{{i,j}}-D_i);]"
        f"{loops}[C_{{i,j}}=exp(A_{{i,j}}-D_i)/E_i;]"
    )
    hold_rows(t, "A", threads)
    held = t.tensors()[0]
    spread_columns(t, held)
    for result in ("D", "E"):
        reduce_columns(t, result, threads, levels)
    spread_columns(t, "C")
    keep_held(t, held)
    return t
