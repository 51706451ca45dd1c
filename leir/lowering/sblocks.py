"""A program as TVMScript with SBlocks, the form of TVM's scheduled TIR: to compare how many tokens each form takes, and
to ask TVM's own scheduler what it holds legal.

Each equation is an SBlock over block variables, one for each loop around it, with the regions that it reads and writes;
an accumulation starts itself in `T.init` where it may. Temporaries are allocated by the root block or where the program
declares them. The nodes are TVM's own and the printer is TVM's; nothing compiles this form.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from dataclasses import dataclass
from typing import assert_never

from tvm import tirx
from tvm.ir import Expr as TirExpr
from tvm.ir import Range, TensorRegion
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx.stmt import BufferRegion

from leir.analysis.access import tensors
from leir.analysis.kernels import axis_of, is_thread
from leir.edit import accesses, variables_of, walk_enclosed
from leir.lowering.expressions import element, guarded, sequence, store
from leir.lowering.fill import initial_values, with_fills
from leir.lowering.loops import for_loop, loop_variable, stored_value
from leir.lowering.names import Names, Storage, buffer_type
from leir.lowering.numbers import integer
from leir.lowering.text import script
from leir.syntax import Access, Alloc, Equation, Expr, Guard, Kind, Loop, Program, Stmt

_KINDS: dict[Kind, tirx.ForKind] = {
    "L": tirx.ForKind.SERIAL, "P": tirx.ForKind.PARALLEL, "V": tirx.ForKind.VECTORIZED, "U": tirx.ForKind.UNROLLED,
}  # fmt: skip
_SCOPES = {"g": "global", "s": "shared", "l": "local"}


def tvmscript_sblocks(program: Program) -> str:
    """The program's TVMScript, for a program that `check` accepts."""
    return script(sblock_function(program))


def sblock_function(program: Program) -> tirx.PrimFunc:
    """The function that `tvmscript_sblocks` prints, which TVM can schedule. Each block has the name of its tensor."""
    known = tensors(program)
    starts = initial_values(program, known)
    filled = with_fills(program, known, "llvm", without=starts)
    buffers: dict[str, tirx.Buffer] = {}
    storage: dict[str, Storage] = {}
    for tensor in known.values():
        if tensor.scope == "g":
            buffer = tirx.decl_buffer(tensor.shape, buffer_type(tensor.dtype, "script"), tensor.name)
            buffers[tensor.name] = buffer
            storage[tensor.name] = Storage(buffer, tensor.dtype, tensor.shape)
    body = _Blocks(starts, _loops_around_declarations(filled)).statements(filled.body, Names("script", storage), ())
    signature = {d.tensor for d in (*program.inputs, *program.outputs)}
    temporaries = [buffer for name, buffer in buffers.items() if name not in signature]
    root = SBlockRealize([], True, SBlock([], [], [], "root", body, alloc_buffers=temporaries))
    parameters = [buffers[d.tensor] for d in (*program.inputs, *program.outputs)]
    function = tirx.PrimFunc(parameters, root).with_attr({"global_symbol": "main", "tirx.noalias": True, "s_tir": True})
    assert isinstance(function, tirx.PrimFunc)
    return function


@dataclass(frozen=True, slots=True)
class _Blocks:
    """`starts`: the tensors that their first accumulation fills, with the values; `outside`: see below."""

    starts: dict[str, Expr]
    outside: dict[str, list[str]]

    def statements(self, body: tuple[Stmt, ...], names: Names, around: tuple[Loop, ...]) -> tirx.Stmt:
        result: list[tirx.Stmt] = []
        for statement in body:
            match statement:
                case Alloc(scope="g"):
                    pass  # a buffer of the root block
                case Alloc(tensor, dtype, scope, shape):
                    buffer = tirx.decl_buffer(shape, buffer_type(dtype, "script"), tensor, scope=_SCOPES[scope])
                    names = names.with_tensor(tensor, Storage(buffer, dtype, shape))
                    result.append(tirx.AllocBuffer(buffer))
                case Guard(test, inner):
                    then = self.statements(inner, names, around)
                    result.append(guarded(test, names, then))
                case Loop():
                    result.append(self.loop(statement, names, around))
                case Equation():
                    result.append(self.block(statement, names, around))
                case _:
                    assert_never(statement)
        return sequence(result)

    def loop(self, loop: Loop, names: Names, around: tuple[Loop, ...]) -> tirx.Stmt:
        variable = loop_variable(loop)
        below = names.with_variable(loop.variable, variable, loop.first, loop.first + loop.extent - 1)
        body = self.statements(loop.body, below, (*around, loop))
        axis = axis_of(loop)
        if not axis:
            return for_loop(loop, variable, _KINDS[loop.kind], body)
        name = f"{'threadIdx' if is_thread(axis) else 'blockIdx'}.{axis[1]}"
        extent = Range(integer(0), integer(loop.extent))
        binding = tirx.IterVar(extent, tirx.Var(name, "int32"), tirx.IterVar.ThreadIndex, name)
        first, count = integer(loop.first), integer(loop.extent)
        return tirx.For(variable, first, count, tirx.ForKind.THREAD_BINDING, body, binding)

    def block(self, statement: Equation, names: Names, around: tuple[Loop, ...]) -> tirx.Stmt:
        """The equation over block variables in place of its loops' variables."""
        in_target = {name for index in statement.target.indices for name in variables_of(index)}
        own, variables, values = names, list[tirx.IterVar](), list[TirExpr]()
        for loop in around:
            variable = tirx.Var(f"v{loop.variable}", "int32")
            outside = loop.variable in self.outside.get(statement.target.tensor, [])
            reduces = statement.op != "=" and loop.variable not in in_target and not outside
            kind = tirx.IterVar.CommReduce if reduces else tirx.IterVar.DataPar
            domain = Range(integer(loop.first), integer(loop.first + loop.extent))
            variables.append(tirx.IterVar(domain, variable, kind, ""))
            values.append(names.variables[loop.variable])
            own = own.with_variable(loop.variable, variable, loop.first, loop.first + loop.extent - 1)
        target, start = statement.target, self.starts.get(statement.target.tensor)
        init = None
        read = [*accesses(statement.value), *(a for index in target.indices for a in accesses(index))]
        if statement.op != "=" and start is not None:
            init = store(target, start, own)
        elif statement.op != "=":
            read.insert(0, target)
        reads = [_region(access, own) for access in dict.fromkeys(read)]
        body = store(target, stored_value(statement), own)
        block = SBlock(variables, reads, [_region(target, own)], target.tensor, body, init)
        return SBlockRealize(values, True, block)


def _loops_around_declarations(program: Program) -> dict[str, list[str]]:
    """For each declared tensor the variables of the loops that begin its lifetimes: it is not reduced over them."""
    return {
        statement.tensor: [node.variable for node in around if isinstance(node, Loop)]
        for _, statement, around in walk_enclosed(program)
        if isinstance(statement, Alloc)
    }


def _region(access: Access, names: Names) -> TensorRegion:
    """One element as TVM's region."""
    buffer = names.tensors[access.tensor].buffer
    return BufferRegion(buffer, [Range.from_min_extent(index, integer(1)) for index in element(access, names)])
