"""Canonical names and the identity of a state.

Two programs that differ only in the names of loop variables and temporaries are one state. Loop kinds, statement order,
scopes, inputs and outputs are part of the program and stay.
"""

import hashlib
import re
from dataclasses import replace
from functools import lru_cache
from itertools import count

from leir.names import substitute_in
from leir.printer import signature_text, statement_text
from leir.remembered import remembered
from leir.syntax import AXES, KINDS, Access, Alloc, Equation, Expr, Guard, Loop, Program, Stmt, Variable, equation

_CAPITALISED = re.compile("[A-Z][A-Za-z0-9]*")  # a tensor, or the kind of a loop: nothing else of a text has capitals


def canonical(program: Program) -> Program:
    """The program with loop variables named by the number of loops around them (`i0`, `i1`, ...; a `B` loop keeps its
    axis: `tx0`) and temporaries named T0, T1, ... by first appearance, past the names of the signature."""
    from leir.parser import parse  # the grammar's library is slow to import: listing strategies does without

    return parse(canonical_text(program))


def state_id(program: Program) -> str:
    """SHA-256 of the canonical compact text, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_text(program).encode()).hexdigest()


@remembered
@lru_cache(maxsize=1024)
def canonical_text(program: Program) -> str:
    """The compact text of the program with canonical names."""
    signature = {declaration.tensor for declaration in (*program.inputs, *program.outputs)}
    fresh = (name for number in count() if (name := f"T{number}") not in signature)
    names = {name: name for name in (*signature, *KINDS)}

    def named(found: re.Match[str]) -> str:
        name = found[0]
        if name not in names:
            names[name] = next(fresh)
        return names[name]

    body = "\n".join(map(_with_canonical_loops, program.body))
    return f"{signature_text(program)}\n{_CAPITALISED.sub(named, body)}\n"


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _with_canonical_loops(outermost: Stmt) -> str:
    """The text of an outermost statement with loop variables named by the loops around them."""
    return statement_text(_with_loops_named(outermost, {}, 0))


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
