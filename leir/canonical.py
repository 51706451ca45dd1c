"""Canonical names and the identity of a state.

Two programs that differ only in the names of loop variables and temporaries are one state. Loop kinds, statement order,
scopes, inputs and outputs are part of the program and stay.
"""

import hashlib
from dataclasses import replace
from functools import lru_cache
from itertools import count

from leir.edit import accesses, walk_with
from leir.names import rename_tensors_in, substitute_in
from leir.printer import to_text
from leir.remembered import remembered
from leir.syntax import AXES, Access, Alloc, Equation, Expr, Guard, Loop, Program, Stmt, Variable, equation


def canonical(program: Program) -> Program:
    """The program with loop variables named by the number of loops around them (`i0`, `i1`, ...; a `B` loop keeps its
    axis: `tx0`) and temporaries named T0, T1, ... by first appearance, past the names of the signature."""
    signature = {d.tensor for d in (*program.inputs, *program.outputs)}
    fresh = (name for number in count() if (name := f"T{number}") not in signature)
    names: dict[str, str] = {}
    body: list[Stmt] = []
    for statement in program.body:
        tensors = [tensor for tensor in _in_order_of_appearance(statement) if tensor not in signature]
        for tensor in tensors:
            if tensor not in names:
                names[tensor] = next(fresh)
        body.append(_named(statement, tuple((tensor, names[tensor]) for tensor in tensors)))
    return replace(program, body=tuple(body))


def state_id(program: Program) -> str:
    """SHA-256 of the canonical compact text, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_text(program).encode()).hexdigest()


@remembered
@lru_cache(maxsize=1024)
def canonical_text(program: Program) -> str:
    """The compact text of the program with canonical names."""
    return to_text(canonical(program))


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _in_order_of_appearance(outermost: Stmt) -> tuple[str, ...]:
    found: list[str] = []
    for _, statement in walk_with(outermost):
        match statement:
            case Alloc(tensor):
                found.append(tensor)
            case Equation():
                found += (access.tensor for access in accesses(statement))
            case Guard(condition):
                found += (access.tensor for access in accesses(condition))
            case Loop():
                pass
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=4096)
def _named(outermost: Stmt, names: tuple[tuple[str, str], ...]) -> Stmt:
    """An outermost statement with these names of tensors, and with loop variables named by the loops around them."""
    return _with_loops_named(rename_tensors_in(outermost, dict(names)), {}, 0)


def _with_loops_named(statement: Stmt, names: dict[str, Expr], depth: int) -> Stmt:
    match statement:
        case Loop(kind, variable, _, _, body):
            axis = variable[:2] if kind == "B" and variable[:2] in AXES else "i"
            name = f"{axis}{depth}"
            inner = {**names, variable: Variable(name)}
            return replace(statement, variable=name, body=tuple(_with_loops_named(s, inner, depth + 1) for s in body))
        case Guard(condition, body):
            renamed = tuple(_with_loops_named(s, names, depth) for s in body)
            return Guard(substitute_in(condition, names), renamed)
        case Equation(target, op, value):
            new_target = substitute_in(target, names)
            assert isinstance(new_target, Access)
            return equation(new_target, op, substitute_in(value, names))
        case Alloc():
            return statement
