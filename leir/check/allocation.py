"""Where tensors are allocated: once, before their accesses, and where their scope has a place."""

from collections.abc import Iterator

from leir.analysis.kernels import axis_of, binds_axis, is_thread, leading_threads, thread_loops
from leir.check.diagnostic import Diagnostic
from leir.edit import allocations_in, expressions, tensors_in, walk_expression, walk_with_enclosed
from leir.printer import expression_text
from leir.syntax import Access, Alloc, Guard, Loop, Path, Place, Program, Stmt

_Around = tuple[Loop | Guard, ...]


def check_allocation(program: Program) -> Iterator[Diagnostic]:
    """One allocation a name; every access within its lifetime; `g`, `s` and `l` each in its place."""
    allocated = {alloc.tensor for outermost in program.body for _, alloc in allocations_in(outermost)}
    if not allocated:
        return
    placed = [
        found
        for number, outermost in enumerate(program.body)
        if allocations_in(outermost) or not allocated.isdisjoint(tensors_in(outermost))
        for found in walk_with_enclosed(outermost, (number,))
    ]
    first: dict[str, tuple[Path, Alloc, _Around]] = {}
    for path, statement, around in placed:
        if not isinstance(statement, Alloc):
            continue
        if statement.tensor in first:
            yield Diagnostic("allocated-twice", f"{statement.tensor} has an allocation already", Place(path))
        first.setdefault(statement.tensor, (path, statement, around))
        yield from _check_scope(program, path, statement, around)
    orders: dict[str, tuple[tuple[str, int], ...]] = {}
    for place, access, around in _accesses(placed):
        if access.tensor not in first:
            continue
        path, alloc, around_alloc = first[access.tensor]
        yield from _check_lifetime(path, access, place)
        if alloc.scope == "l" and _zone(around_alloc) == "block":
            yield from _check_owner(access, around, orders, place)


def _accesses(placed: list[tuple[Path, Stmt, _Around]]) -> Iterator[tuple[Place, Access, _Around]]:
    for path, statement, around in placed:
        for number, expression in enumerate(expressions(statement)):
            for within, part in walk_expression(expression, (number,)):
                if isinstance(part, Access):
                    yield Place(path, within), part, around


def _zone(around: _Around) -> str:
    """Where a list of statements stands: at the `top`, on the `host`, in a `block`, in a `thread`, or in a kernel
    without `B` (`single`)."""
    axes = [axis for node in around if (axis := axis_of(node))]
    if any(is_thread(axis) for axis in axes):
        return "thread"
    if axes:
        return "block"
    if not around:
        return "top"
    return "host" if binds_axis(around[-1]) else "single"


def _check_scope(program: Program, path: Path, alloc: Alloc, around: _Around) -> Iterator[Diagnostic]:
    zone, tensor, place = _zone(around), alloc.tensor, Place(path)
    siblings = around[-1].body if around else program.body
    above_block = zone == "block" and any(_binds_block(sibling) for sibling in siblings)
    match alloc.scope:
        case "g":
            if zone != "top":
                yield Diagnostic(
                    "global-not-at-top-level", f"{tensor} is g and is allocated below a loop or guard", place
                )
        case "s":
            if zone == "thread":
                variable = thread_loops(around)[-1].variable
                message = f"{tensor} is s and is allocated inside the thread loop {variable}: one a block, not a thread"
                yield Diagnostic("shared-in-thread-loop", message, place)
            elif zone != "block" or above_block:
                message = f"{tensor} is s and needs all block loops (bx, by, bz) of its kernel around it"
                yield Diagnostic("shared-outside-block", message, place)
        case "l":
            if zone in ("top", "host") or above_block:
                where = "at top level" if zone == "top" else "around a block loop" if above_block else "on the host"
                yield Diagnostic("local-outside-kernel", f"{tensor} is l and is allocated {where}", place)


def _binds_block(statement: Stmt) -> bool:
    axis = axis_of(statement)
    if axis and not is_thread(axis):
        return True
    return isinstance(statement, Loop | Guard) and any(_binds_block(inner) for inner in statement.body)


def _check_lifetime(path: Path, access: Access, place: Place) -> Iterator[Diagnostic]:
    depth = len(path) - 1
    if place.path[:depth] == path[:depth] and place.path[depth:] > path[depth:]:
        return
    if place.path < path:
        message = f"{access.tensor} is accessed before its allocation"
        yield Diagnostic("access-before-allocation", message, place)
    else:
        message = f"{access.tensor} lives to the end of the list that allocates it, and is accessed after"
        yield Diagnostic("access-after-lifetime", message, place)


def _check_owner(
    access: Access, around: _Around, orders: dict[str, tuple[tuple[str, int], ...]], place: Place
) -> Iterator[Diagnostic]:
    """Each thread owns its part of an `l` tensor that is allocated outside the thread loops."""
    order = leading_threads(access, around)
    text = expression_text(access)
    if order is None:
        variables = ",".join(loop.variable for loop in thread_loops(around))
        message = f"{text}: the thread variables {variables} are the leading subscripts of an l tensor of a block"
        yield Diagnostic("local-not-per-thread", message, place)
    elif orders.setdefault(access.tensor, order) != order:
        message = f"{text} starts with {_shown(order)}, another access with {_shown(orders[access.tensor])}"
        yield Diagnostic("local-not-per-thread", message, place)


def _shown(order: tuple[tuple[str, int], ...]) -> str:
    axes = ", ".join(axis + (f" from {first}" if first else "") for axis, first in order)
    return axes or "no thread variable"
