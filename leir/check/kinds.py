"""What loop kinds claim: iterations of `P` and `V` loops, and blocks and threads of a kernel, are independent."""

from collections.abc import Iterator
from typing import NamedTuple

from leir.analysis.dependence import (
    Touch,
    Violation,
    carries_dependence,
    conflict,
    is_reduction,
    touches_by_tensor,
)
from leir.analysis.kernels import Kernel, axis_of, is_thread, kernels, loop_kinds
from leir.analysis.model import lifetimes
from leir.check.diagnostic import Diagnostic
from leir.edit import storage, walk_with_enclosed
from leir.syntax import AXES, Loop, Path, Place, Program, Scope, Variable


def check_kinds(program: Program) -> Iterator[Diagnostic]:
    """Every `P` and `V` loop that carries a dependence, and every conflict between blocks or threads of a kernel."""
    for number, outermost in enumerate(program.body):
        if loop_kinds(outermost).isdisjoint(("P", "V")):
            continue
        for path, statement, _ in walk_with_enclosed(outermost, (number,)):
            if isinstance(statement, Loop) and statement.kind in ("P", "V"):
                found = carries_dependence(program, path)
                if found is not None:
                    yield _carried(statement, path, found)
    if not any("B" in loop_kinds(outermost) for outermost in program.body):
        return
    life = lifetimes(program)
    scopes: dict[str, Scope] = {name: scope for name, (_, scope) in storage(program).items()}
    for kernel in kernels(program):
        if kernel.axes:
            yield from _check_kernel(program, kernel, life, scopes)


def _carried(loop: Loop, path: Path, found: Violation) -> Diagnostic:
    name = f"the {loop.kind} loop {loop.variable}"
    if not found.exact:
        return Diagnostic("independence-not-proven", f"{name} may carry a dependence: {found}", Place(path))
    if found.kind == "reduction":
        return Diagnostic("reduction-across-loop", f"{name} is reduced across: {found}", Place(path))
    return Diagnostic("loop-carries-dependence", f"{name} carries a dependence: {found}", Place(path))


class _Placed(NamedTuple):
    """An access and where in its kernel it runs.

    `axes`: the position of the loop of each GPU axis among the loops around it. `phase`: the path of the outermost
    thread loop, None outside all, and `outside` the number of loops around that.
    """

    touch: Touch
    axes: dict[str, int]
    phase: Path | None
    outside: int


class _Kernel(NamedTuple):
    """`host`: the number of loops around it. `alive`: the number around the declaration of the tensor asked about."""

    host: int
    blocks: list[str]
    threads: list[str]
    life: dict[str, int]
    scope: Scope
    alive: int


def _check_kernel(
    program: Program, kernel: Kernel, life: dict[str, int], scopes: dict[str, Scope]
) -> Iterator[Diagnostic]:
    host = sum(isinstance(node, Loop) for node in kernel.host)
    blocks = [axis for axis in AXES if axis in kernel.axes and not is_thread(axis)]
    threads = [axis for axis in AXES if axis in kernel.axes and is_thread(axis)]
    for tensor, touches in touches_by_tensor(program, kernel.path).items():
        here = _Kernel(host, blocks, threads, life, scopes[tensor], life.get(tensor, 0))
        reported: set[str] = set()
        placed = [_placed(touch) for touch in touches]
        pairs = [
            (first, second)
            for number, first in enumerate(placed)
            for second in placed[number:]  # conflicts have no direction
            if first.touch.use.mode != "read" or second.touch.use.mode != "read"
        ]
        for first, second in sorted(pairs, key=lambda pair: is_reduction(pair[0].touch, pair[1].touch)):
            found = _between_blocks(first, second, here) or _between_threads(first, second, here)
            if found is not None and found.code not in reported:
                reported.add(found.code)
                yield found


def _placed(touch: Touch) -> _Placed:
    axes: dict[str, int] = {}
    phase: Path | None = None
    outside = 0
    for number, (path, loop) in enumerate(touch.statement.loops):
        axis = axis_of(loop)
        if axis:
            axes[axis] = number
        if is_thread(axis) and phase is None:
            phase, outside = path, number
    return _Placed(touch, axes, phase, outside)


def _between_blocks(first: _Placed, second: _Placed, kernel: _Kernel) -> Diagnostic | None:
    apart = _apart(first, second, kernel.blocks, kernel.host, kernel.alive)
    if apart is None:
        return None
    found = conflict(first.touch, second.touch, kernel.host, kernel.life, [apart])
    return found and _diagnostic(first, second, found, kernel.blocks, "dependence-between-blocks", "blocks of a kernel")


def _between_threads(first: _Placed, second: _Placed, kernel: _Kernel) -> Diagnostic | None:
    same_phase = first.phase is not None and first.phase == second.phase
    if kernel.scope == "s" and not same_phase:
        return None  # a barrier stands between
    shared = first.outside if kernel.scope == "s" else kernel.host
    apart = _apart(first, second, kernel.threads, shared, kernel.alive)
    if apart is None:
        return None
    coordinates = [_coordinates(first, second, axis, shared) for axis in kernel.blocks]
    together = [f"{a} = {b}" for a, b in coordinates if a != b]
    found = conflict(first.touch, second.touch, shared, kernel.life, [*together, apart])
    if found is None:
        return None
    if kernel.scope == "l":
        return _diagnostic(first, second, found, kernel.threads, "local-used-by-two-threads", "threads")
    if same_phase and (kernel.scope == "s" or _one_phase(found, first.outside)):
        return _diagnostic(first, second, found, kernel.threads, "dependence-between-threads", "threads of a block")
    code = "phases-exchange-through-global"
    return _diagnostic(first, second, found, [], code, "phases, which exchange data through s only")


def _one_phase(found: Violation, outside: int) -> bool:
    """Whether both instances run in one execution of the phase, so that no barrier stands between them."""
    return found.source_iteration[:outside] == found.target_iteration[:outside]


def _apart(first: _Placed, second: _Placed, axes: list[str], shared: int, alive: int) -> str | None:
    """isl text: the accesses run at different coordinates. None where they never do, as far as a look can tell."""
    texts: list[str] = []
    for axis in axes:
        if not _named_alike(first, second, axis, alive):
            a, b = _coordinates(first, second, axis, shared)
            if a != b:
                texts.append(f"{a} < {b}" if first.touch is second.touch else f"{a} != {b}")
    return f"({' or '.join(texts)})" if texts else None


def _coordinates(first: _Placed, second: _Placed, axis: str, shared: int) -> tuple[str, str]:
    return _coordinate(first, axis, "x", shared), _coordinate(second, axis, "y", shared)


def _coordinate(placed: _Placed, axis: str, tag: str, shared: int) -> str:
    """The index along a GPU axis as isl text: the variable less its first value, 0 where no loop binds the axis."""
    number = placed.axes.get(axis)
    if number is None:
        return "0"
    first = placed.touch.statement.loops[number][1].first
    name = placed.touch.statement.dimensions(tag, shared)[number]
    return f"({name}-{first})" if first else name


def _named_alike(first: _Placed, second: _Placed, axis: str, alive: int) -> bool:
    """Whether one element of one lifetime means one coordinate: both accesses name the axis alone in one subscript."""
    here, there = first.axes.get(axis), second.axes.get(axis)
    if here is None or there is None:
        return here == there
    if here < alive:
        return True
    a, b = first.touch.statement.loops[here][1], second.touch.statement.loops[there][1]
    indices = zip(first.touch.use.access.indices, second.touch.use.access.indices, strict=False)
    return a.first == b.first and any(i == Variable(a.variable) and j == Variable(b.variable) for i, j in indices)


def _diagnostic(
    first: _Placed, second: _Placed, found: Violation, axes: list[str], code: str, between: str
) -> Diagnostic:
    if not found.exact:
        return Diagnostic("independence-not-proven", f"not proven independent between {between}: {found}", found.target)
    loop = _common_loop(first, second, found, axes)
    if loop is None:
        return Diagnostic(code, f"a dependence between {between}: {found}", found.target)
    return _carried(loop[1], loop[0], found)


def _common_loop(first: _Placed, second: _Placed, found: Violation, axes: list[str]) -> tuple[Path, Loop] | None:
    """The outermost loop of one of the axes around both accesses whose values differ, and no loop around it does."""
    loops = zip(first.touch.statement.loops, second.touch.statement.loops, strict=False)
    values = zip(found.source_iteration, found.target_iteration, strict=False)
    for ((path, loop), (other, _)), ((_, a), (_, b)) in zip(loops, values, strict=False):
        if path != other:
            return None
        if a != b:
            return (path, loop) if axis_of(loop) in axes else None
    return None
