"""Softmax of rows: a block a row, two reductions of two phases each through shared memory."""

from schedules.trajectory import Trajectory


def trajectory(m: int, n: int, threads: int = 256, second: int = 16) -> Trajectory:
    """The trajectory for A of m x n.

    `threads` of a block reduce their part of a row each; `second` of them combine as many partial results again.
    """
    loops = f"L^{{{m},{n}}}_{{i,j}}"
    t = Trajectory(
        f"in A_{{{m},{n}}};out C_{{{m},{n}}};{loops}[D_i max=A_{{i,j}};]{loops}[E_i+=exp(A_{{i,j}}-D_i);]"
        f"{loops}[C_{{i,j}}=exp(A_{{i,j}}-D_i)/E_i;]"
    )
    # One kernel, a block a row; what the block's threads share is in shared memory.
    t.take("operator_fusion", path=(0,), depth=1)
    t.take("operator_fusion", path=(0,), depth=1)
    t.bind((0,), bx="i")
    for tensor in ("D", "E"):
        t.take("set_storage_scope", tensor=tensor, scope="s")

    for tensor in ("D", "E"):
        root = t.writers(tensor)[0][:2]
        _reduce(t, root, tensor, threads, second)
    root = t.writers("C")[0][:2]
    own = t.split(root, "j", threads)
    t.order(root, own, "j")
    t.bind(root, tx=own)
    return t


def _reduce(t: Trajectory, root: tuple[int, ...], tensor: str, threads: int, second: int) -> None:
    """Turns the reduction at `root` into one of two phases: parts of neighbouring threads, then parts of parts."""
    own = t.split(root, "j", threads)
    t.order(root, own, "j")
    for parts in (threads, second):
        known = t.tensors()
        t.take("reduction_factorization", path=root, tensor=tensor, parts=parts)
        (partial,) = (name for name in t.tensors() if name not in known)
        t.take("set_storage_scope", tensor=partial, scope="s")
        root = t.writers(partial)[-1][:2]
        t.bind(root, tx=next(iter(t.nest(root))))
        root = t.writers(tensor)[0][:2]
