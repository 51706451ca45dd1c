"""Building a program one op at a time: destinations, loops around a statement, conversions between dtypes."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import getitem
from typing import Any, NoReturn

import torch

from leir.names import unused_tensor, variable_sequence
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    Cast,
    DType,
    Equation,
    Expr,
    Guard,
    Loop,
    Stmt,
    equation,
)
from stepTP.frontend.indices import Index, loop_index
from stepTP.frontend.values import FLOATS, Buffer, Point, Value, constant, literal

DTYPES: dict[torch.dtype, DType] = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.int8: "i8",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.bool: "bool",
}


class UnsupportedOp(Exception):
    """An op, or a variant of one, that has no entry in the table.

    `op` is the overload, `module` the path of the submodule that calls it, `line` the caller's `file:line: source`.
    """

    def __init__(self, op: str, module: str, line: str, reason: str) -> None:
        self.op = op
        self.module = module
        self.line = line
        self.reason = reason
        where = f" in {module or 'the top module'}" + (f" ({line})" if line else "")
        super().__init__(f"{op}: {reason}{where}")


def axes(*groups: Sequence[int]) -> list[Point]:
    """One index for every extent, named i, j, k, ... by depth; an axis of size 1 needs no loop and has index 0."""
    names = variable_sequence()
    return [tuple(loop_index(next(names), size) if size > 1 else Index() for size in group) for group in groups]


def nest(statement: Stmt, *points: Iterable[Index]) -> Stmt:
    """The statement below one serial loop for each index of the points that is a loop variable, in their order."""
    loops = [(name, index.high + 1) for point in points for index in point if (name := index.variable)]
    for name, extent in reversed(loops):
        statement = Loop("L", name, extent, 0, (statement,))
    return statement


def conjunction(conditions: Iterable[Expr]) -> Expr | None:
    """All of the conditions, or None for no condition."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Binary("&&", result, condition)
    return result


class Emitter:
    """What the entries of the table emit into.

    `node` is the fx node at hand. `result` gives the tensor that its op writes: an output of the program where the node
    is one (`outputs`, by node name and number of the result), else a temporary. `default` is the dtype of temporaries
    that need no declaration; `with_negatives` are the inputs of integers whose values, or reference values, hold
    numbers below 0. `live` are the nodes that are translated. Statements go to `statements`, `top` but inside a `loop`.
    `stacked`: the leading indices and sizes that temporaries get in the body of a scan, one element a step.
    `temporaries`: dtype and shape by name. `lifted`: the inputs that hold what some nodes compute without any input.
    """

    def __init__(self) -> None:
        self.default: DType = "f32"
        self.taken: set[str] = set()
        self.inputs: frozenset[str] = frozenset()
        self.with_negatives: set[str] = set()
        self.outputs: dict[tuple[str, int], Buffer] = {}
        self.written: set[str] = set()
        self.temporaries: dict[str, tuple[DType, tuple[int, ...]]] = {}
        self.lifted: dict[torch.fx.Node, Value] = {}
        self.top: list[Stmt] = []
        self.statements = self.top
        self.stacked: tuple[Point, tuple[int, ...]] = ((), ())
        self.ops: Counter[str] = Counter()
        self.node: torch.fx.Node
        self.live: frozenset[torch.fx.Node] = frozenset()

    @property
    def op(self) -> str:
        """The overload at hand, as `aten.mul.Tensor`."""
        node = self.node.all_input_nodes[0] if self.node.target is getitem else self.node
        return str(node.target)

    def meta(self, number: int = 0) -> torch.Tensor:
        """The metadata of the op's result, or of one of its results."""
        value = self.node.meta["val"]
        return value[number] if isinstance(value, (tuple, list)) else value

    def shape(self, number: int = 0) -> tuple[int, ...]:
        sizes = self.meta(number).shape
        if any(isinstance(size, torch.SymInt) for size in sizes):
            self.refuse("the shape of its result depends on data")
        return tuple(int(size) for size in sizes)

    def dtype(self, number: int = 0) -> DType:
        return self.dtype_of(self.meta(number).dtype)

    def dtype_of(self, dtype: torch.dtype) -> DType:
        if dtype not in DTYPES:
            self.refuse(f"{dtype} has no counterpart in LEIR")
        return DTYPES[dtype]

    def computing_dtype(self, *arguments: Any) -> DType:
        """The dtype in which PyTorch compares or combines the op's arguments, by number or as scalars."""
        metas = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in arguments]
        common = metas[0]
        if len(metas) == 1:
            return self.dtype_of(common.dtype)
        return self.dtype_of(torch.result_type(metas[0], metas[1]))

    def uses(self, number: int) -> bool:
        """Whether anything that is translated reads this one of the op's results."""
        return any(user.target is getitem and user.args[1] == number and user in self.live for user in self.node.users)

    def refuse(self, reason: str) -> NoReturn:
        """Raises UnsupportedOp for the node at hand."""
        stack = self.node.meta.get("nn_module_stack") or {}
        module = list(stack.values())[-1][0] if stack else ""
        raise UnsupportedOp(self.op, module, source_line(self.node), reason)

    def result(self, number: int = 0, dtype: DType | None = None) -> Buffer:
        """The tensor for the op's result; `dtype` where it is accumulated in another one than it is returned in."""
        output = self.outputs.get((self.node.name, number))
        if output is not None and dtype in (None, output.dtype):
            self.written.add(output.name)
            return output
        return self.temporary(self.shape(number), dtype or self.dtype(number))

    def accumulator(self) -> DType:
        """The dtype in which sums of the result are formed: f32 for half precision."""
        return "f32" if self.dtype() in ("f16", "bf16") else self.dtype()

    def temporary(self, shape: Sequence[int], dtype: DType) -> Buffer:
        """A new tensor, without its axes of size 1; declared where its dtype is not the default."""
        name = unused_tensor(self.taken)
        self.taken.add(name)
        buffer = Buffer(name, tuple(shape), dtype, self.stacked[0], narrow=True)
        self.temporaries[name] = dtype, (*self.stacked[1], *buffer.stored)
        if dtype != self.default:
            self.top.append(Alloc(name, dtype, "g", self.temporaries[name][1]))
        return buffer

    @contextmanager
    def loop(self, index: Index) -> Iterator[None]:
        """While it is entered, statements go below one serial loop, if the index is a loop variable."""
        outer, self.statements = self.statements, []
        yield
        body, self.statements = tuple(self.statements), outer
        name = index.variable
        self.statements += body if name is None else (Loop("L", name, index.high + 1, 0, body),)

    def assign(
        self, target: Access, op: AssignOp, value: Expr, *points: Iterable[Index], guard: Expr | None = None
    ) -> None:
        """Emits one equation in one nest."""
        statement: Stmt = equation(target, op, value) if op == "=" else Equation(target, op, value)
        self.statements.append(nest(Guard(guard, (statement,)) if guard else statement, *points))

    def fill(self, target: Buffer, element: Callable[[Point], Expr]) -> Value:
        """Emits one nest over all of `target`, each element an expression of its point."""
        (point,) = axes(target.shape)
        self.assign(target.at(point), "=", element(point), point)
        return target.value

    def copied(self, value: Value, target: Buffer) -> Value:
        """Emits a copy, which converts where the dtypes differ."""
        return self.fill(target, value.element)

    def settled(self, buffer: Buffer, number: int = 0) -> Value:
        """The op's result from the buffer that it was accumulated in: itself, or a copy in the result's dtype."""
        if buffer.dtype == self.dtype(number):
            return buffer.value
        return self.copied(buffer.value, self.result(number))


def converted(value: Value, dtype: DType) -> Value:
    """The value as an operand that computes in `dtype`: a literal of it, or a cast where it has another dtype.

    A number that its own dtype rounds is rounded before it is converted.
    """
    if value.dtype == dtype:
        return value
    value = rounded(value)
    if value.constant is not None:
        return constant(value.constant, value.shape, dtype)
    return Value(value.shape, dtype, lambda point: Cast(dtype, value.element(point)))


def rounded(value: Value) -> Value:
    """The value itself, or a cast of its number where its dtype cannot hold that: LEIR's literals have no dtype."""
    number, torch_dtype = value.constant, {own: other for other, own in DTYPES.items()}[value.dtype]
    if number is None or value.dtype not in FLOATS or torch.tensor(number, dtype=torch_dtype).item() == number:
        return value
    return Value(value.shape, value.dtype, lambda _: Cast(value.dtype, literal(number, "f64")))


def scalar(number: bool | int | float, dtype: DType) -> Value:
    """A Python number as a tensor of rank 0."""
    return constant(number, (), dtype)


def source_line(node: torch.fx.Node) -> str:
    """The line of the user's code that called the op, as `file:line: source`; empty where PyTorch kept none."""
    frames = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines()]
    own = ""
    for place, source in _pairs(frames):
        if "/torch/" not in place or not own:
            file, line = place.removeprefix('File "').split('", line ')
            own = f"{file}:{line.split(',')[0]}: {source}"
    return own


def _pairs(lines: list[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        if line.startswith('File "'):
            following = "".join(islice(lines, number + 1, number + 2))
            yield line, "" if following.startswith("File ") else following
