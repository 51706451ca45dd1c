"""GPU kernels: launches, phases, padding and barriers; the host loops and guards around them.

A kernel binds every axis once, at its largest extent. A phase of smaller extent, or one without some axis, is guarded
as a whole: no barrier stands inside a phase. `s` and `l` tensors are flat with our own strides, since TVM trims
dimensions whose last elements are never touched; the thread dimensions of an `l` tensor are dropped, each thread
holding its part.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import assert_never

from tvm import tirx
from tvm.ir import Expr as TirExpr
from tvm.ir import Range, StringImm

from leir.analysis.kernels import Kernel, axis_of, is_thread
from leir.analysis.kernels import kernels as kernels_of
from leir.edit import walk
from leir.lowering.aliasing import may_promise
from leir.lowering.barriers import barriers, is_phase
from leir.lowering.expressions import guarded, sequence, store
from leir.lowering.loops import for_loop, loop_variable, stored_value
from leir.lowering.names import TIR_TYPES, Names, Storage
from leir.lowering.numbers import integer
from leir.lowering.vectors import is_vector
from leir.syntax import AXES, Alloc, Equation, Guard, Kind, Loop, Path, Program, Stmt

MAY_OVERLAP = "may_overlap"  # marks the body of a kernel whose buffers the compiler must not be told to lie apart
_TIR_AXES = {axis: f"{'threadIdx' if is_thread(axis) else 'blockIdx'}.{axis[1]}" for axis in AXES}


def host_body(program: Program, owned: Mapping[str, int], names: Names) -> tirx.Stmt:
    """The kernels in order, with the loops and guards around them. `owned`: an `l` tensor's thread dimensions."""
    kernels = {kernel.path: kernel for kernel in kernels_of(program)}

    def visit(body: tuple[Stmt, ...], path: Path, names: Names) -> tirx.Stmt:
        result: list[tirx.Stmt] = []
        for number, statement in enumerate(body):
            here = (*path, number)
            if here in kernels:
                result.append(_Launch(kernels[here], owned).launch(names))
            elif isinstance(statement, Guard):
                result.append(guarded(statement.condition, names, visit(statement.body, here, names)))
            elif isinstance(statement, Loop):
                variable = loop_variable(statement)
                below = _bound(names, statement, variable)
                inside = visit(statement.body, here, below)
                result.append(for_loop(statement, variable, tirx.ForKind.SERIAL, inside))
            else:
                assert isinstance(statement, Alloc)  # of a global tensor, which is a parameter
        return sequence(result)

    return visit(program.body, (), names)


def _bound(names: Names, loop: Loop, value: TirExpr) -> Names:
    return names.with_variable(loop.variable, value, loop.first, loop.first + loop.extent - 1)


@dataclass(frozen=True, slots=True)
class _Launch:
    """One kernel under construction."""

    kernel: Kernel
    owned: Mapping[str, int]

    def launch(self, names: Names) -> tirx.Stmt:
        extents = self.kernel.axes or {"bx": 1, "tx": 1}
        axes: dict[str, tirx.IterVar] = {}
        for axis in extents:
            name = _TIR_AXES[axis]
            axes[axis] = tirx.IterVar(
                Range(integer(0), integer(extents[axis])), tirx.Var(name, "int32"), tirx.IterVar.ThreadIndex, name
            )
        statement, path = self.kernel.statement, self.kernel.path
        allocated = (inner for _, inner in walk(statement))
        shared = frozenset(inner.tensor for inner in allocated if isinstance(inner, Alloc) and inner.scope == "s")
        waits = barriers(statement, path, shared) if self.kernel.threads > 1 else frozenset[Path]()
        block = _Block(extents, {axis: variable.var for axis, variable in axes.items()}, waits, self.owned)
        body = block.statements((statement,), path[:-1], path[-1], names, frozenset())
        if not may_promise(self.kernel):
            body = tirx.AttrStmt(StringImm("default"), MAY_OVERLAP, integer(1), body)
        for axis in reversed(extents):
            body = tirx.AttrStmt(axes[axis], "thread_extent", integer(extents[axis]), body)
        return body


@dataclass(frozen=True, slots=True)
class _Block:
    """The code of one block. `indices`: the index of each axis; `waits`: the paths with a barrier before them."""

    extents: Mapping[str, int]
    indices: Mapping[str, tirx.Var]
    waits: frozenset[Path]
    owned: Mapping[str, int]

    def statements(
        self, body: tuple[Stmt, ...], parent: Path, start: int, names: Names, bound: frozenset[str]
    ) -> tirx.Stmt:
        """Statements of a block outside its phases. `bound`: the block axes that loops around them bind."""
        result: list[tirx.Stmt] = []
        for number, statement in enumerate(body, start):
            path = (*parent, number)
            if path in self.waits:
                result.append(tirx.Evaluate(tirx.call_intrin("int32", "tirx.tvm_storage_sync", StringImm("shared"))))
            if isinstance(statement, Alloc):
                names = self.allocate(statement, names, result)
            elif is_phase(statement):
                lacking = [axis for axis in self.extents if axis not in bound and axis != axis_of(statement)]
                lacking = [axis for axis in lacking if not _binds(statement, axis)]
                body_of_phase = self.phase((statement,), names)
                result.append(_guarded([self.is_first(axis) for axis in lacking], body_of_phase))
            elif isinstance(statement, Guard):
                inside = self.statements(statement.body, path, 0, names, bound)
                result.append(guarded(statement.condition, names, inside))
            elif axis := axis_of(statement):
                assert isinstance(statement, Loop)
                below = self.bind(statement, axis, names)
                inside = self.statements(statement.body, path, 0, below, bound | {axis})
                result.append(_guarded([self.is_within(statement, axis)], inside))
            else:
                assert isinstance(statement, Loop)
                variable = loop_variable(statement)
                inside = self.statements(statement.body, path, 0, _bound(names, statement, variable), bound)
                result.append(for_loop(statement, variable, _loop_kind(statement.kind), inside))
        return sequence(result)

    def phase(self, body: tuple[Stmt, ...], names: Names) -> tirx.Stmt:
        """Statements inside a phase, run by each of its threads on its own."""
        result: list[tirx.Stmt] = []
        for statement in body:
            match statement:
                case Alloc():
                    names = self.allocate(statement, names, result)
                case Guard(test, inner):
                    result.append(guarded(test, names, self.phase(inner, names)))
                case Loop(kind, inner) if axis := axis_of(statement):
                    inside = self.phase(statement.body, self.bind(statement, axis, names))
                    result.append(_guarded([self.is_within(statement, axis)], inside))
                case Loop(kind):
                    variable = loop_variable(statement)
                    inside = self.phase(statement.body, _bound(names, statement, variable))
                    is_store = isinstance(inside, tirx.BufferStore)  # and no temporaries with it
                    vector = kind == "V" and is_store and is_vector(statement, names.tensors)
                    tir_kind = tirx.ForKind.VECTORIZED if vector else _loop_kind(kind)
                    result.append(for_loop(statement, variable, tir_kind, inside))
                case Equation(target):
                    result.append(store(target, stored_value(statement), names))
                case _:
                    assert_never(statement)
        return sequence(result)

    def allocate(self, alloc: Alloc, names: Names, result: list[tirx.Stmt]) -> Names:
        dropped = self.owned[alloc.tensor]
        elements = prod(alloc.shape[dropped:])
        scope = "shared" if alloc.scope == "s" else "local"
        buffer = tirx.decl_buffer((elements,), TIR_TYPES[alloc.dtype], alloc.tensor, scope=scope)
        result.append(tirx.AllocBuffer(buffer))
        return names.with_tensor(alloc.tensor, Storage(buffer, alloc.dtype, alloc.shape, dropped, flat=True))

    def bind(self, loop: Loop, axis: str, names: Names) -> Names:
        index = self.indices[axis]
        return _bound(names, loop, tirx.Add(index, integer(loop.first)) if loop.first else index)

    def is_within(self, loop: Loop, axis: str) -> TirExpr | None:
        """The test that an axis is within a loop that binds it; None where it always is."""
        return None if loop.extent == self.extents[axis] else tirx.LT(self.indices[axis], integer(loop.extent))

    def is_first(self, axis: str) -> TirExpr | None:
        return None if self.extents[axis] == 1 else tirx.EQ(self.indices[axis], integer(0))


def _binds(statement: Stmt, axis: str) -> bool:
    return axis_of(statement) == axis or any(axis_of(inner) == axis for _, inner in walk(statement))


def _guarded(tests: list[TirExpr | None], body: tirx.Stmt) -> tirx.Stmt:
    """The body under all tests; in one condition, as they are cheap and read nothing."""
    result: TirExpr | None = None
    for test in tests:
        if test is not None:
            result = test if result is None else tirx.And(result, test)
    return body if result is None else tirx.IfThenElse(result, body, None)


def _loop_kind(kind: Kind) -> tirx.ForKind:
    return tirx.ForKind.UNROLLED if kind == "U" else tirx.ForKind.SERIAL
