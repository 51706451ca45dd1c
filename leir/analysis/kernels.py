"""Which statements are GPU kernels, and what threads and memory each takes.

A kernel is an outermost `B` loop with all below it, or a maximal statement without `B` outside kernels, run as one
thread. The loops and guards around a kernel run on the host.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod

from leir.edit import accesses, body_of, walk_enclosed
from leir.syntax import AXES, Access, Alloc, DType, Equation, Guard, Kind, Loop, Path, Program, Stmt, Variable

BYTES: dict[DType, int] = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i8": 1, "i32": 4, "i64": 8, "bool": 1}


@dataclass(frozen=True, slots=True)
class Kernel:
    """`axes`: the largest extent of each axis that it binds. `host`: the loops and guards around it, outside first."""

    path: Path
    statement: Stmt
    host: tuple[Loop | Guard, ...]
    axes: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def threads(self) -> int:
        """The threads of a block: the product of the thread axes, each at its largest."""
        return prod(extent for axis, extent in self.axes.items() if is_thread(axis))

    @property
    def blocks(self) -> int:
        return prod(extent for axis, extent in self.axes.items() if not is_thread(axis))


def kernels(program: Program) -> Iterator[Kernel]:
    """The kernels of a program in the order of the text."""
    for number, outermost in enumerate(program.body):
        yield from kernels_at(outermost, number)


@lru_cache(maxsize=2048)
def kernels_at(outermost: Stmt, number: int) -> tuple[Kernel, ...]:
    """The kernels of an outermost statement, the `number`th of its program."""
    return tuple(_kernels((outermost,), (), (), number))


@lru_cache(maxsize=4096)
def loop_kinds(outermost: Stmt) -> frozenset[Kind]:
    """The kinds of the loops at and below a statement."""
    return frozenset(loop.kind for loop in _loops(outermost))


def _kernels(body: tuple[Stmt, ...], path: Path, host: tuple[Loop | Guard, ...], first: int = 0) -> Iterator[Kernel]:
    """The kernels of a list of statements, or of a part of one that starts with its statement number `first`."""
    for number, statement in enumerate(body, first):
        here = (*path, number)
        if isinstance(statement, Alloc):
            continue
        if axis_of(statement) or not binds_axis(statement):
            axes: dict[str, int] = {}
            for loop in _loops(statement):
                if axis := axis_of(loop):
                    axes[axis] = max(axes.get(axis, 1), loop.extent)
            yield Kernel(here, statement, host, {axis: axes[axis] for axis in AXES if axis in axes})
        elif isinstance(statement, Loop | Guard):
            yield from _kernels(statement.body, here, (*host, statement))


def _loops(statement: Stmt) -> Iterator[Loop]:
    if isinstance(statement, Loop):
        yield statement
    for inner in body_of(statement):
        yield from _loops(inner)


def axis_of(statement: Stmt) -> str:
    """The GPU axis that a `B` loop binds; empty for other statements, and for a variable without an axis."""
    if isinstance(statement, Loop) and statement.kind == "B" and statement.variable[:2] in AXES:
        return statement.variable[:2]
    return ""


def is_thread(axis: str) -> bool:
    return axis.startswith("t")


def binds_axis(statement: Stmt) -> bool:
    """Whether a `B` loop stands at or below the statement."""
    return any(loop.kind == "B" for loop in _loops(statement))


def thread_loops(around: tuple[Loop | Guard, ...]) -> tuple[Loop, ...]:
    """The thread loops among the loops and guards around a statement, outside first."""
    return tuple(node for node in around if isinstance(node, Loop) and is_thread(axis_of(node)))


def leading_threads(access: Access, around: tuple[Loop | Guard, ...]) -> tuple[tuple[str, int], ...] | None:
    """The axes (each with its loop's first value) that the leading subscripts of an access name, in their order.

    `around`: the loops and guards around the access. None where the leading subscripts are not exactly the thread
    variables, each once. Outside all thread loops the answer is `()`.
    """
    bound = {loop.variable: (axis_of(loop), loop.first) for loop in thread_loops(around)}
    leading = access.indices[: len(bound)]
    names = [index.name for index in leading if isinstance(index, Variable)]
    return tuple(bound[name] for name in names) if sorted(names) == sorted(bound) else None


def local_elements(alloc: Alloc, path: Path, kernel: Kernel) -> int:
    """How many elements of an `l` tensor one thread owns: without the thread dimensions, if it has any.

    `path` is where it is allocated, in the program of the kernel.
    """
    around_alloc = next(a for p, s, a in _below(kernel) if p == path and s == alloc)
    if thread_loops(around_alloc):
        return prod(alloc.shape)
    for _, statement, around in _below(kernel):
        for access in own_accesses(statement):
            if access.tensor == alloc.tensor:
                return prod(alloc.shape[len(leading_threads(access, around) or ()) :])
    return prod(alloc.shape)


def _below(kernel: Kernel) -> Iterator[tuple[Path, Stmt, tuple[Loop | Guard, ...]]]:
    statement = kernel.statement
    around = (statement,) if isinstance(statement, Loop | Guard) else ()
    return walk_enclosed(statement, kernel.path, around)


def allocations(kernel: Kernel) -> Iterator[tuple[Path, Alloc]]:
    """The allocations inside a kernel."""
    for path, statement, _ in _below(kernel):
        if isinstance(statement, Alloc):
            yield path, statement


def own_accesses(statement: Stmt) -> Iterator[Access]:
    """The accesses of a statement itself, not of those below it."""
    match statement:
        case Guard(condition):
            yield from accesses(condition)
        case Equation():
            yield from accesses(statement)
        case Loop() | Alloc():
            pass
