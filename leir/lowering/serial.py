"""Statements for the CPU: loops in order, of which the outermost `P` loops are parallel."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from dataclasses import replace
from typing import assert_never

from tvm import tirx
from tvm.ir import Expr as TirExpr

from leir.lowering import bf16
from leir.lowering.expressions import guarded, sequence, store
from leir.lowering.loops import for_loop, loop_variable, stored_value
from leir.lowering.names import Names, Storage, buffer_type
from leir.lowering.numbers import constant, integer
from leir.lowering.parameters import poison_value
from leir.syntax import Alloc, DType, Equation, Guard, Loop, Scope, Stmt

_SCOPES: dict[Scope, str] = {"g": "global", "s": "shared", "l": "local"}


def serial_body(body: tuple[Stmt, ...], names: Names, *, poison: bool, parallel: bool = True) -> tirx.Stmt:
    """The statements in order. `poison`: each lifetime of an `s` or `l` tensor starts as `poison_value`.

    `parallel`: whether `P` loops may be; TVM's runtime refuses nested ones.
    """
    result: list[tirx.Stmt] = []
    for statement in body:
        match statement:
            case Alloc(scope="g"):
                pass  # a parameter
            case Alloc(tensor, dtype, scope, shape):
                buffer = tirx.decl_buffer(shape, buffer_type(dtype, "llvm"), tensor, scope=_SCOPES[scope])
                names = names.with_tensor(tensor, Storage(buffer, dtype, shape))
                result.append(tirx.AllocBuffer(buffer))
                if poison:
                    result.append(_poisoned(buffer, dtype, shape))
            case Guard(test, inner):
                then = serial_body(inner, names, poison=poison, parallel=parallel)
                result.append(guarded(test, names, then))
            case Loop(kind, name, extent, first, inner):
                starts_parallel = kind == "P" and parallel
                value: TirExpr
                value = variable = loop_variable(statement)
                if starts_parallel and first:  # TVM launches parallel loops from zero only
                    value = tirx.Add(variable, integer(first, str(variable.ty.dtype)))
                    statement = replace(statement, first=0)
                below = names.with_variable(name, value, first, first + extent - 1)
                inside = serial_body(inner, below, poison=poison, parallel=parallel and not starts_parallel)
                tir_kind = tirx.ForKind.PARALLEL if starts_parallel else tirx.ForKind.SERIAL
                result.append(for_loop(statement, variable, tir_kind, inside))
            case Equation(target):
                result.append(store(target, stored_value(statement), names))
            case _:
                assert_never(statement)
    return sequence(result)


def _poisoned(buffer: tirx.Buffer, dtype: DType, shape: tuple[int, ...]) -> tirx.Stmt:
    loops = [Loop("L", f"p{number}", size, 0, ()) for number, size in enumerate(shape)]
    variables = [loop_variable(loop) for loop in loops]
    value = poison_value(dtype)
    poison = bf16.bits(float(value)) if dtype == "bf16" else constant(value, dtype)
    body: tirx.Stmt = tirx.BufferStore(buffer, poison, list(variables))
    for loop, variable in zip(reversed(loops), reversed(variables), strict=True):
        body = for_loop(loop, variable, tirx.ForKind.SERIAL, body)
    return body
