"""Layer norm of rows, as the front end writes it: a block a row, the row in registers, mean and variance reduced."""

from schedules.rows import hold_rows, keep_held, reduce_columns, spread_columns
from schedules.trajectory import Trajectory


def trajectory(m: int, n: int, threads: int = 256, levels: tuple[int, ...] = (32, 4)) -> Trajectory:
    """The trajectory for A of m x n, weights C and shifts D of n; `threads` and `levels` as for softmax."""
    rows, loops = f"L^{{{m}}}_{{i}}", f"L^{{{m},{n}}}_{{i,j}}"
    t = Trajectory(
        f"in A_{{{m},{n}}},C_{{{n}}},D_{{{n}}};out E_{{{m},{n}}};{loops}[F_i+=A_{{i,j}};]{rows}[G_i=F_i/{n}.0;]"
        f"{loops}[H_i+=(A_{{i,j}}-G_i)*(A_{{i,j}}-G_i);]{rows}[I_i=1.0/sqrt(H_i/{n}.0+1e-05);]"
        f"{loops}[E_{{i,j}}=(A_{{i,j}}-G_i)*I_i*C_j+D_j;]"
    )
    hold_rows(t, "A", threads)
    held = t.tensors()[0]
    spread_columns(t, held)
    for result in ("F", "H"):
        reduce_columns(t, result, threads, levels)
    spread_columns(t, "E")
    keep_held(t, held)
    return t
