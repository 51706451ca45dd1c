"""Loop kinds as GPU kernels, vectors and copies of code see them. That they carry no dependence is proved elsewhere."""

from collections.abc import Iterator
from math import prod

from leir.analysis.kernels import (
    BYTES,
    Kernel,
    allocations,
    axis_of,
    binds_axis,
    is_thread,
    kernels_at,
    local_elements,
    loop_kinds,
    own_accesses,
)
from leir.check.diagnostic import Diagnostic, Limits
from leir.edit import allocations_in, storage, walk, walk_with_enclosed
from leir.syntax import Equation, Guard, Loop, Place, Program, Stmt

COPIES_LIMIT = 1024
SHARED_ALIGNMENT = 64  # bytes: where the lowering lets every s tensor start
VECTOR_EXTENTS = (2, 64)


def check_kernels(program: Program, limits: Limits) -> Iterator[Diagnostic]:
    """Nesting of host, block and thread loops; threads, extents and memory of each kernel; `U` and `V` loops."""
    scopes = {tensor: scope for tensor, (_, scope) in storage(program).items()}
    marked = [(number, outermost) for number, outermost in enumerate(program.body) if _is_marked(outermost)]
    below = (found for number, outermost in marked for found in walk_with_enclosed(outermost, (number,)))
    for path, statement, around in below:
        place = Place(path)
        match statement:
            case Loop():
                if statement.kind == "B":
                    yield from _check_binding(statement, around, place, limits)
                elif statement.kind == "V":
                    yield from _check_vector(statement, place)
                elif statement.kind == "U":
                    yield from _check_copies(statement, around, place)
                in_kernel = any(axis_of(node) for node in around)
                if statement.kind in ("P", "V") and not in_kernel and binds_axis(statement):
                    message = f"the {statement.kind} loop {statement.variable} surrounds a kernel: only L and U may"
                    yield Diagnostic("kernel-in-claimed-loop", message, place)
            case Guard():
                yield from _check_guard(statement, around, scopes, place)
            case _:
                pass
    for number, outermost in marked:
        for kernel in kernels_at(outermost, number):
            yield from _check_kernel(kernel, limits)


def _is_marked(outermost: Stmt) -> bool:
    """Whether a statement has what these rules are about: a `V`, `U` or `B` loop, or storage of its own."""
    return not loop_kinds(outermost) <= {"L", "P"} or bool(allocations_in(outermost))


def _check_binding(loop: Loop, around: tuple[Loop | Guard, ...], place: Place, limits: Limits) -> Iterator[Diagnostic]:
    axis, name = axis_of(loop), loop.variable
    if not axis:
        return
    bound = [(number, node) for number, node in enumerate(around) if axis_of(node)]
    threads = [node for _, node in bound if is_thread(axis_of(node))]
    if threads and not is_thread(axis):
        outer = threads[0].variable if isinstance(threads[0], Loop) else ""
        message = f"the block loop {name} stands inside the thread loop {outer}: blocks enclose threads"
        yield Diagnostic("block-in-thread-loop", message, place)
    if any(axis_of(node) == axis for _, node in bound):
        yield Diagnostic("axis-bound-twice", f"{name} binds {axis}, which a loop around it binds already", place)
    outermost = next((number for number, node in bound if is_thread(axis_of(node)) == is_thread(axis)), None)
    if outermost is not None and any(len(node.body) > 1 for node in around[outermost:]):
        kind, code = ("thread", "thread-loop-has-siblings") if is_thread(axis) else ("block", "block-loop-has-siblings")
        message = f"statements stand beside the {kind} loop {name}, or a loop around it, inside another {kind} loop"
        yield Diagnostic(code, message, place)
    if loop.extent > limits.axis(axis):
        message = f"{name} has extent {loop.extent}; the target allows {limits.axis(axis)} along {axis}"
        yield Diagnostic("extent-over-axis-limit", message, place)


def _check_vector(loop: Loop, place: Place) -> Iterator[Diagnostic]:
    body: tuple[Stmt, ...] = loop.body
    while len(body) == 1 and isinstance(body[0], Guard):
        body = body[0].body
    if len(body) != 1 or not isinstance(body[0], Equation):
        message = f"the V loop {loop.variable} holds one equation, which may be guarded, and no loop"
        yield Diagnostic("vector-body", message, place)
    low, high = VECTOR_EXTENTS
    if not low <= loop.extent <= high:
        message = f"the V loop {loop.variable} has extent {loop.extent}, not {low}..{high}"
        yield Diagnostic("vector-extent", message, place)


def _check_copies(loop: Loop, around: tuple[Loop | Guard, ...], place: Place) -> Iterator[Diagnostic]:
    outer = prod(node.extent for node in around if isinstance(node, Loop) and node.kind == "U")
    if outer <= COPIES_LIMIT < outer * loop.extent:
        message = f"unrolling {loop.variable} makes {outer * loop.extent} copies of a body, more than {COPIES_LIMIT}"
        yield Diagnostic("too-many-copies", message, place)


def _check_guard(
    guard: Guard, around: tuple[Loop | Guard, ...], scopes: dict[str, str], place: Place
) -> Iterator[Diagnostic]:
    axes = [axis for node in around if (axis := axis_of(node))]
    read = tuple(dict.fromkeys(access.tensor for access in own_accesses(guard)))
    if not axes and read and binds_axis(guard):
        message = f"the guard around a kernel runs on the host and reads {', '.join(read)}"
        yield Diagnostic("host-guard-reads-tensor", message, Place(place.path, (0,)))
    if not axes or any(is_thread(axis) for axis in axes):
        return
    first = next(node for node in around if axis_of(node))
    if not any(is_thread(axis_of(statement)) for _, statement in walk(first)):
        return  # one thread a block: nothing can differ
    below, kernel = _written(guard), _written(first)
    for tensor in read:
        if scopes.get(tensor) == "l":
            reason = f"{tensor} is l, so that the guard may differ between threads"
        elif tensor in below:
            reason = f"the statements below it write {tensor}: a late thread may see another value"
        elif scopes.get(tensor) == "g" and tensor in kernel:
            reason = f"{tensor} is g and is written in this kernel: threads may see different values"
        else:
            continue
        yield Diagnostic("divergent-barrier", f"phases stand below this guard; {reason}", Place(place.path, (0,)))


def _written(statement: Stmt) -> set[str]:
    return {inner.target.tensor for _, inner in walk(statement) if isinstance(inner, Equation)}


def _check_kernel(kernel: Kernel, limits: Limits) -> Iterator[Diagnostic]:
    place = Place(kernel.path)
    if kernel.threads > limits.threads_per_block:
        axes = " x ".join(f"{extent} ({axis})" for axis, extent in kernel.axes.items() if is_thread(axis))
        message = f"a block has {axes} = {kernel.threads} threads, more than {limits.threads_per_block}"
        yield Diagnostic("too-many-threads", message, place)
    shared = [a for _, a in allocations(kernel) if a.scope == "s"]
    taken = sum(-(-prod(a.shape) * BYTES[a.dtype] // SHARED_ALIGNMENT) * SHARED_ALIGNMENT for a in shared)
    if taken > limits.shared_bytes:
        names = ", ".join(a.tensor for a in shared)
        message = f"the s tensors {names} of a block take {taken} bytes, more than {limits.shared_bytes}"
        yield Diagnostic("shared-over-limit", message, place)
    local = [(path, a) for path, a in allocations(kernel) if a.scope == "l"]
    taken = sum(local_elements(a, path, kernel) * BYTES[a.dtype] for path, a in local)
    if taken > limits.local_bytes:
        names = ", ".join(a.tensor for _, a in local)
        message = f"the l tensors {names} of a thread take {taken} bytes, more than {limits.local_bytes}"
        yield Diagnostic("local-over-limit", message, place)
