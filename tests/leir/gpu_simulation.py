"""A GPU in Python: runs the TIR that is lowered for `cuda`, thread by thread, and objects to what hardware would not.

Every thread of a block is a generator that stops at barriers. Objections: a barrier that some threads of a block reach
and others do not; two threads that touch one shared element without a barrier between them, or one global element at
all, one of them writing; an index out of bounds; a vector whose lanes are not consecutive or not aligned.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.ir.prim.expr import BitwiseAnd, BitwiseXor, RShift
from tvm.tirx.stmt import ForKind

from leir.lowering.kernels import MAY_OVERLAP

NUMPY = {
    "float16": np.float16, "float32": np.float32, "float64": np.float64, "int8": np.int8, "int32": np.int32,
    "int64": np.int64, "bool": np.bool_, "bfloat16": np.float32,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "fabs": np.abs, "tanh": np.tanh, "sin": np.sin,
    "cos": np.cos, "floor": np.floor, "nearbyint": np.rint, "expm1": np.expm1,
}  # fmt: skip


class Objection(AssertionError):
    """What a GPU would not do as the program means it."""


@dataclass
class _Memory:
    """Arrays by buffer, and who touched what: global elements in a launch, shared ones since the last barrier."""

    arrays: dict[str, np.ndarray[Any, Any]]
    touched: dict[tuple[str, int], dict[tuple[int, ...], bool]] = field(default_factory=dict)

    def touch(self, name: str, offset: int, thread: tuple[int, ...], writes: bool) -> None:
        others = self.touched.setdefault((name, offset), {})
        for other, wrote in others.items():
            if other != thread and (writes or wrote):
                raise Objection(f"threads {other} and {thread} race for {name}[{offset}]")
        others[thread] = others.get(thread, False) or writes


def simulate(function: tirx.PrimFunc, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Runs the function on flat or shaped arrays by parameter name, in place."""
    for parameter in function.params:
        assert parameter.name in arrays, parameter.name
    memory = _Memory({name: array.reshape(-1) for name, array in arrays.items()})
    _Host(memory).run(function.body, {})


@dataclass
class _Host:
    memory: _Memory

    def run(self, statement: tirx.Stmt, values: dict[Any, Any]) -> None:
        match statement:
            case tirx.SeqStmt():
                for inner in statement.seq:
                    self.run(inner, values)
            case tirx.For():
                for index in range(int(statement.min), int(statement.min) + int(statement.extent)):
                    self.run(statement.body, {**values, statement.loop_var: index})
            case tirx.IfThenElse():
                if _Thread(self.memory, None, (), {}).value(statement.condition, values):
                    self.run(statement.then_case, values)
            case tirx.AttrStmt():
                self.launch(statement, values)
            case tirx.DeclBuffer():  # another view of a parameter, as TVM's flattening makes it
                self.memory.arrays[statement.buffer.name] = self.memory.arrays[statement.data.args[0].name]
            case tirx.Evaluate():
                assert int(statement.value) == 0
            case _:
                raise Objection(f"the host runs {type(statement).__name__}: it has no device memory")

    def launch(self, statement: tirx.Stmt, values: dict[Any, Any]) -> None:
        axes: dict[str, tuple[Any, int]] = {}
        while isinstance(statement, tirx.AttrStmt):
            if statement.attr_key != MAY_OVERLAP:
                assert statement.attr_key == "thread_extent"
                axes[str(statement.node.thread_tag)] = (statement.node.var, int(statement.value))
            statement = statement.body
        blocks = [axis for axis in axes if axis.startswith("blockIdx")]
        threads = [axis for axis in axes if axis.startswith("threadIdx")]
        self.memory.touched.clear()
        for block in product(*(range(axes[axis][1]) for axis in blocks)):
            shared = _Memory({})
            running: list[Iterator[int]] = []
            for thread in product(*(range(axes[axis][1]) for axis in threads)):
                here = dict(zip((axes[axis][0] for axis in (*blocks, *threads)), (*block, *thread), strict=True))
                running.append(_Thread(self.memory, shared, (*block, *thread), {}).run(statement, {**values, **here}))
            while running:
                reached = [next(thread, None) for thread in running]
                if any(place != reached[0] for place in reached):
                    raise Objection("a barrier that only some threads of a block reach")
                if reached[0] is None:
                    break
                shared.touched.clear()


@dataclass
class _Thread:
    globals: _Memory
    shared: _Memory | None
    name: tuple[int, ...]
    local: dict[str, np.ndarray[Any, Any]]
    trace: list[tuple[str, int]] | None = None

    def run(self, statement: tirx.Stmt, values: dict[Any, Any]) -> Iterator[int]:
        """Yields at each barrier what tells it apart from others."""
        match statement:
            case tirx.SeqStmt():
                for inner in statement.seq:
                    yield from self.run(inner, values)
            case tirx.For():
                assert statement.kind in (ForKind.SERIAL, ForKind.UNROLLED, ForKind.VECTORIZED)
                if statement.kind == ForKind.VECTORIZED:
                    self.vector(statement, values)
                    return
                for index in range(int(statement.min), int(statement.min) + int(statement.extent)):
                    yield from self.run(statement.body, {**values, statement.loop_var: index})
            case tirx.IfThenElse():
                if self.value(statement.condition, values):
                    yield from self.run(statement.then_case, values)
            case tirx.AllocBuffer():
                self.allocate(statement.buffer)
            case tirx.Evaluate(value=Call() as call):
                assert call.op.name == "tirx.tvm_storage_sync"
                yield hash(statement)
            case tirx.Evaluate():
                pass
            case tirx.BufferStore():
                array, offset = self.element(statement.buffer, statement.indices, values, writes=True)
                array[offset] = self.value(statement.value, values)
            case _:
                raise Objection(f"{type(statement).__name__} in a kernel")

    def allocate(self, buffer: Any) -> None:
        size = int(np.prod([int(extent) for extent in buffer.shape]))
        dtype = NUMPY[str(buffer.dtype)]
        poison = np.nan if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).min if dtype is not np.bool_ else True
        fresh = np.full(size, poison, dtype)
        if buffer.scope() == "shared":
            assert self.shared is not None
            self.shared.arrays.setdefault(buffer.name, fresh)
        else:
            self.local[buffer.name] = fresh

    def element(self, buffer: Any, indices: Any, values: dict[Any, Any], writes: bool) -> tuple[Any, int]:
        offset = self.offset(buffer, indices, values)
        name = buffer.name
        if self.trace is not None:
            self.trace.append((name, offset))
        if buffer.scope() == "local":
            return self.local[name], offset
        memory = self.shared if buffer.scope() == "shared" else self.globals
        assert memory is not None
        memory.touch(name, offset, self.name, writes)
        return memory.arrays[name], offset

    def offset(self, buffer: Any, indices: Any, values: dict[Any, Any]) -> int:
        offset = 0
        for index, extent in zip(indices, buffer.shape, strict=True):
            at = int(self.value(index, values))
            if not 0 <= at < int(extent):
                raise Objection(f"{buffer.name} at {at} of {int(extent)}")
            offset = offset * int(extent) + at
        return offset

    def vector(self, loop: tirx.For, values: dict[Any, Any]) -> None:
        """The lanes one after the other; what each touches must be what one load or store of all of them would."""
        lanes = range(int(loop.extent))
        assert isinstance(loop.body, tirx.BufferStore)
        touched: list[list[tuple[str, int]]] = []
        for lane in lanes:
            self.trace = []
            assert not list(self.run(loop.body, {**values, loop.loop_var: lane}))
            touched.append(self.trace)
            self.trace = None
        for position, accesses in enumerate(zip(*touched, strict=True)):
            (name, first), is_store = accesses[0], position == 0
            offsets = [offset for _, offset in accesses]
            if not is_store and offsets == [first] * len(lanes):
                continue
            if offsets != [first + lane for lane in lanes]:
                raise Objection(f"the lanes of {name} are at {offsets}")
            if first % len(lanes):
                raise Objection(f"{name} at {first} is not aligned to {len(lanes)} lanes")

    def value(self, node: Any, values: dict[Any, Any]) -> Any:
        match node:
            case tirx.IntImm():
                return bool(node.value) if str(node.ty.dtype) == "bool" else int(node.value)
            case tirx.FloatImm():
                return NUMPY[str(node.ty.dtype)](node.value)
            case tvm.ir.Var():
                return values[node]
            case TensorLoad():
                array, offset = self.element(node.source, node.indices, values, writes=False)
                loaded = array[offset]
                return loaded.item() if array.dtype.kind in "bi" else loaded
            case tirx.Cast():
                return _cast(str(node.ty.dtype), self.value(node.value, values))
            case tirx.Not():
                return not self.value(node.a, values)
            case tirx.And():
                return self.value(node.a, values) and self.value(node.b, values)
            case tirx.Or():
                return self.value(node.a, values) or self.value(node.b, values)
            case Call() if node.op.name == "prim.if_then_else":
                test, then, otherwise = node.args
                return self.value(then if self.value(test, values) else otherwise, values)
            case Call() if node.op.name == "tirx.call_pure_extern":
                return self.function(node.args[0].value.removesuffix("f"), node.args[1:], values)
            case Call():
                return self.function(node.op.name.removeprefix("tirx."), node.args, values)
            case _:
                return _BINARY[type(node)](self.value(node.a, values), self.value(node.b, values))

    def function(self, name: str, arguments: Any, values: dict[Any, Any]) -> Any:
        numbers = [self.value(argument, values) for argument in arguments]
        if name in ("abs", "llabs"):
            return abs(numbers[0])
        if name == "__longlong_as_double":
            return np.int64(numbers[0]).view(np.float64)
        if name == "pow":
            return np.power(*numbers)
        if name == "erf":
            import math

            return type(numbers[0])(math.erf(numbers[0]))
        return FUNCTIONS[name](numbers[0])


def _cast(dtype: str, value: Any) -> Any:
    if dtype in ("int8", "int32", "int64", "uint32", "uint64"):
        bounds = np.iinfo(dtype)
        whole = int(value) if np.isfinite(value) else int(bounds.min)
        return (whole - int(bounds.min)) % (1 << bounds.bits) + int(bounds.min)
    if dtype == "bfloat16":
        from leir.interp.arithmetic import round_to

        return round_to("bf16", value)
    return NUMPY[dtype](value)


def _divided(a: Any, b: Any) -> Any:
    """Division as C++ has it: integers truncate."""
    if not isinstance(a, int):
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY: dict[Any, Callable[[Any, Any], Any]] = {
    tirx.Add: lambda a, b: a + b, tirx.Sub: lambda a, b: a - b, tirx.Mul: lambda a, b: a * b,
    tirx.Div: _divided, tirx.Mod: lambda a, b: a - b * _divided(a, b),
    BitwiseAnd: lambda a, b: a & b, RShift: lambda a, b: a >> b,
    BitwiseXor: lambda a, b: a ^ b, tirx.FloorDiv: lambda a, b: a // b, tirx.FloorMod: lambda a, b: a % b,
    tirx.Max: lambda a, b: max(a, b), tirx.Min: lambda a, b: min(a, b), tirx.LT: lambda a, b: a < b,
    tirx.LE: lambda a, b: a <= b, tirx.GT: lambda a, b: a > b, tirx.GE: lambda a, b: a >= b,
    tirx.EQ: lambda a, b: a == b, tirx.NE: lambda a, b: a != b,
}  # fmt: skip
