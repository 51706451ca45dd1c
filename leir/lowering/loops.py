"""Pieces of TIR that both targets share."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportAttributeAccessIssue=false

from typing import assert_never

from tvm import tirx

from leir.lowering.numbers import integer
from leir.syntax import Binary, Call, Equation, Expr, Loop

_INT32_END = 2**31 - 1


def loop_variable(loop: Loop) -> tirx.Var:
    """A new variable for a loop: TVM wants one object for each loop of a function."""
    return tirx.Var(loop.variable, "int32" if loop.first + loop.extent <= _INT32_END else "int64")


def for_loop(loop: Loop, variable: tirx.Var, kind: tirx.ForKind, body: tirx.Stmt) -> tirx.For:
    dtype = str(variable.ty.dtype)
    return tirx.For(variable, integer(loop.first, dtype), integer(loop.extent, dtype), kind, body)


def stored_value(statement: Equation) -> Expr:
    """What an equation stores: for an accumulation the target combined with the value."""
    match statement.op:
        case "=":
            return statement.value
        case "+=":
            return Binary("+", statement.target, statement.value)
        case "*=":
            return Binary("*", statement.target, statement.value)
        case "max=":
            return Call("max", (statement.target, statement.value))
        case "min=":
            return Call("min", (statement.target, statement.value))
        case _:
            assert_never(statement.op)
