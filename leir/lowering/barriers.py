"""Where the threads of a block must wait for each other.

Phases exchange data through `s` tensors only. Going through a kernel in the order of execution, a barrier goes before a
phase that conflicts with one since the last barrier: one of the two writes a shared tensor that the other reads or
writes, and they do not both run on the one thread that runs statements outside the thread loops. A loop is gone through
until nothing changes, so that the end of an iteration is seen from the start of the next.

We place barriers ourselves rather than let TVM's ThreadSync do it: where they stand is then part of our text, and the
guards that pad phases to one extent cannot come to stand around them.
"""

from dataclasses import dataclass, field

from leir.analysis.kernels import axis_of, binds_axis, is_thread
from leir.edit import accesses, walk
from leir.syntax import Alloc, Equation, Guard, Loop, Path, Stmt

_Touches = dict[str, frozenset[str]]  # tensor -> some of "read", "write", "read-one", "write-one"


def is_phase(statement: Stmt) -> bool:
    """Whether a statement of a block is a phase: an outermost thread loop, or a statement without thread loops."""
    return is_thread(axis_of(statement)) or not binds_axis(statement)


def barriers(kernel: Stmt, path: Path, shared: frozenset[str]) -> frozenset[Path]:
    """The paths of the phases, and of the guards around phases, of the kernel at `path` that need one before them."""
    placement = _Placement(shared)
    placement.visit((kernel,), path[:-1], path[-1], {})
    return frozenset(placement.places)


@dataclass
class _Placement:
    shared: frozenset[str]
    places: dict[Path, None] = field(default_factory=dict[Path, None])

    def visit(self, body: tuple[Stmt, ...], parent: Path, start: int, pending: _Touches) -> _Touches:
        """Goes through a list of statements; `pending` and the result are what was touched since the last barrier."""
        for number, statement in enumerate(body, start):
            path = (*parent, number)
            if isinstance(statement, Alloc):
                continue
            if is_phase(statement):
                pending = self.step(path, self.touches(statement), pending)
            elif isinstance(statement, Guard):
                pending = self.step(path, self.reads(statement), pending)
                pending = _joined(pending, self.visit(statement.body, path, 0, pending))
            elif isinstance(statement, Loop):
                pending = self.visit(statement.body, path, 0, pending)
                while not axis_of(statement) and statement.extent > 1:
                    again = _joined(pending, self.visit(statement.body, path, 0, pending))
                    if again == pending:
                        break
                    pending = again
        return pending

    def step(self, path: Path, touches: _Touches, pending: _Touches) -> _Touches:
        if _conflict(touches, pending):
            self.places[path] = None
        return touches if path in self.places else _joined(pending, touches)

    def touches(self, statement: Stmt) -> _Touches:
        mark = "" if is_thread(axis_of(statement)) else "-one"
        result: dict[str, frozenset[str]] = {}
        for _, inner in (((), statement), *walk(statement)):
            match inner:
                case Equation(target, _, value):
                    found = [(target.tensor, "write")]
                    read = [a for index in target.indices for a in accesses(index)] + list(accesses(value))
                    found += [(access.tensor, "read") for access in read]
                case Guard(condition):
                    found = [(access.tensor, "read") for access in accesses(condition)]
                case Loop() | Alloc():
                    continue
            for tensor, how in found:
                if tensor in self.shared:
                    result[tensor] = result.get(tensor, frozenset()) | {how + mark}
        return result

    def reads(self, guard: Guard) -> _Touches:
        return {a.tensor: frozenset({"read"}) for a in accesses(guard.condition) if a.tensor in self.shared}


def _joined(one: _Touches, other: _Touches) -> _Touches:
    names = dict.fromkeys((*one, *other))
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in names}


def _conflict(touches: _Touches, pending: _Touches) -> bool:
    for tensor, new in touches.items():
        for a in new:
            for b in pending.get(tensor, frozenset()):
                writes = a.startswith("write") or b.startswith("write")
                if writes and not (a.endswith("-one") and b.endswith("-one")):
                    return True
    return False
