"""Whether the compiler of a GPU may be told that buffers do not overlap.

They never do. But where a value is that of one buffer or of another, as a condition decides, NVIDIA's compiler (seen in
13.0) makes one load of it at an address that it selects; and if one of the two buffers is promised to be only read
there, it loads through the cache of constant data, also what the same kernel has written to the other: the value from
before. `C ? A : B` after a store to B is enough; so are `C ? exp(R) : exp(S)` of registers that hold the two, and a
phase of fewer threads that sets a register anew. Without the promise, `__restrict__`, it does not.
"""

from leir.analysis.kernels import Kernel, axis_of
from leir.edit import (
    accesses,
    expressions,
    tensors_in,
    tensors_read,
    tensors_written,
    walk_enclosed,
    walk_expression,
    walk_with,
)
from leir.syntax import Alloc, Binary, Equation, Guard, Loop, Program, Select, Stmt


def may_promise(kernel: Kernel) -> bool:
    """Whether a kernel reads no global tensor that it writes, or none that it does not, or never chooses a value.

    A promise that is not made costs time and nothing else.
    """
    statement = kernel.statement
    inside = [inner for _, inner in walk_with(statement)]
    own = {inner.tensor for inner in inside if isinstance(inner, Alloc)}
    written, equations = tensors_written(statement), [inner for inner in inside if isinstance(inner, Equation)]
    read = {*tensors_read(statement), *(each.target.tensor for each in equations if each.op != "=")}
    changing = {name in written for name in tensors_in(statement) if name in read and name not in own}
    return len(changing) < 2 or not _chooses(kernel)


def _chooses(kernel: Kernel) -> bool:
    """Whether a place may get one value or another: what reads nothing and guards all of the kernel decides neither."""
    body: tuple[Stmt, ...] = (kernel.statement,)
    while len(body) == 1 and isinstance(body[0], Loop | Guard):
        if isinstance(body[0], Guard) and any(accesses(body[0].condition)):
            return True
        body = body[0].body
    inside = [inner for statement in body for _, inner in walk_with(statement)]
    equations = [inner for inner in inside if isinstance(inner, Equation)]
    if any(isinstance(inner, Guard) for inner in inside) or not _is_done_by_all(kernel):
        return True
    parts = [part for each in equations for side in expressions(each) for _, part in walk_expression(side)]
    if any(isinstance(part, Select) or (isinstance(part, Binary) and part.op in ("&&", "||")) for part in parts):
        return True
    held: set[str] = set()  # tensors that what was read is kept in
    for each in equations:
        if any(accesses(each.value)):
            if each.op == "=" and each.target.tensor in held:
                return True
            held.add(each.target.tensor)
    return False


def _is_done_by_all(kernel: Kernel) -> bool:
    """Whether every thread computes every equation."""
    whole = Program((), (), (kernel.statement,))
    for _, statement, around in walk_enclosed(whole):
        bound = {axis_of(loop): loop.extent for loop in around if isinstance(loop, Loop) and axis_of(loop)}
        lacking = (axis for axis, extent in kernel.axes.items() if bound.get(axis, 1) != extent)
        if isinstance(statement, Equation) and any(lacking):
            return False
    return True
