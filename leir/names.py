"""Names: which a program uses, which are free, which are left, renaming, and substitution without capture."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count

from leir.edit import (
    accesses,
    body_of,
    enclosing,
    expressions,
    has_statement,
    map_expression,
    map_statement,
    statement_at,
    variables_of,
    walk,
)
from leir.syntax import (
    AXES,
    RESERVED_WORDS,
    Access,
    Alloc,
    Declaration,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Program,
    Stmt,
    Variable,
    equation,
)


def tensor_names(program: Program) -> set[str]:
    """Every tensor of the signature, of an allocation or of an access."""
    declared = {d.tensor for d in (*program.inputs, *program.outputs)}
    allocated = {s.tensor for _, s in walk(program) if isinstance(s, Alloc)}
    return declared | allocated | {a.tensor for a in accesses(program)}


def bound_variables(node: Program | Stmt) -> set[str]:
    """The variables that loops at or below a node bind."""
    own = {node.variable} if isinstance(node, Loop) else set[str]()
    return own.union(*(bound_variables(statement) for statement in body_of(node)))


def free_variables(statement: Stmt) -> tuple[str, ...]:
    """The variables used at or below a statement that loops around it must bind, sorted."""

    def visit(node: Stmt) -> set[str]:
        used = set[str]().union(*(variables_of(e) for e in expressions(node)), *(visit(s) for s in body_of(node)))
        return used - {node.variable} if isinstance(node, Loop) else used

    return tuple(sorted(visit(statement)))


def rename_tensors(program: Program, names: dict[str, str]) -> Program:
    """The program with tensors renamed everywhere, signature included, all at once."""

    def declared(declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(d, tensor=names.get(d.tensor, d.tensor)) for d in declarations)

    body = tuple(rename_tensors_in(statement, names) for statement in program.body)
    return Program(declared(program.inputs), declared(program.outputs), body)


def rename_tensors_in(statement: Stmt, names: dict[str, str]) -> Stmt:
    """The statement with tensors renamed, in all below it too, all at once."""

    def renamed(expression: Expr) -> Expr:
        if isinstance(expression, Access):
            return Access(names.get(expression.tensor, expression.tensor), expression.indices)
        return expression

    def visit(statement: Stmt) -> Stmt:
        match statement:
            case Alloc(tensor):
                return replace(statement, tensor=names.get(tensor, tensor))
            case Loop(body=body) | Guard(body=body):
                renamed_body = tuple(visit(s) for s in body)
                if isinstance(statement, Guard):
                    return Guard(map_expression(statement.condition, renamed), renamed_body)
                return replace(statement, body=renamed_body)
            case Equation():
                return map_statement(statement, renamed)

    return visit(statement)


def substitute_in(expression: Expr, values: dict[str, Expr]) -> Expr:
    """The expression with loop variables replaced by expressions, all at once."""
    return map_expression(expression, lambda e: values.get(e.name, e) if isinstance(e, Variable) else e)


def substitute(statement: Stmt, values: dict[str, Expr]) -> Stmt:
    """The statement with free loop variables replaced, all at once, without capture.

    A loop below that binds a variable of `values` hides it; one that binds a variable which occurs in a replacement is
    renamed.
    """
    if not values:
        return statement
    match statement:
        case Equation(target, op, value):
            new_target = substitute_in(target, values)
            assert isinstance(new_target, Access)
            return equation(new_target, op, substitute_in(value, values))
        case Guard(condition, body):
            return Guard(substitute_in(condition, values), tuple(substitute(s, values) for s in body))
        case Loop(_, variable, _, _, body):
            inner = {name: value for name, value in values.items() if name != variable}
            captured = set[str]().union(*(variables_of(value) for value in inner.values())) if inner else set[str]()
            if variable in captured:
                taken = captured | bound_variables(statement) | set(values) | set(free_variables(statement))
                fresh = unused_variable(taken, axis=variable[:2] if statement.kind == "B" else "")
                inner[variable] = Variable(fresh)
                statement = replace(statement, variable=fresh)
            return replace(statement, body=tuple(substitute(s, inner) for s in body))
        case Alloc():
            return statement


def substitute_each(body: tuple[Stmt, ...], values: dict[str, Expr]) -> tuple[Stmt, ...]:
    """`substitute` in every statement of a list."""
    return tuple(substitute(statement, values) for statement in body)


def tensor_sequence() -> Iterator[str]:
    """A, C, D, ..., Z without the loop kinds, then A1, C1, ..."""
    letters = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in "LPVUB"]
    yield from letters
    for number in count(1):
        yield from (f"{letter}{number}" for letter in letters)


def variable_sequence(axis: str = "") -> Iterator[str]:
    """i, j, k, ..., z, a, ..., h, then i1, j1, ...; for a GPU axis: tx, txa, ..., txz, txa1, ..."""
    if axis:
        yield axis
        yield from (f"{axis}{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
        yield from (f"{axis}{letter}{number}" for number in count(1) for letter in "abcdefghijklmnopqrstuvwxyz")
        return
    letters = "ijklmnopqrstuvwxyzabcdefgh"
    yield from letters
    for number in count(1):
        yield from (f"{letter}{number}" for letter in letters)


def unused_tensor(taken: Program | Iterable[str]) -> str:
    """The next tensor name that a program, or a collection of names, does not use."""
    names = tensor_names(taken) if isinstance(taken, Program) else set(taken)
    return next(name for name in tensor_sequence() if name not in names)


def unused_variable(taken: Iterable[str], axis: str = "") -> str:
    """The next loop variable that is not taken; for a `B` loop, name its axis."""
    names = {*taken, *RESERVED_WORDS} if axis else {*taken, *RESERVED_WORDS, *AXES}
    return next(name for name in variable_sequence(axis) if name not in names)


def variables_around(program: Program, path: Path) -> set[str]:
    """The loop variables bound around, at or below the statement at `path`: what a new name there must avoid."""
    around = {node.variable for _, node in enclosing(program, path) if isinstance(node, Loop)}
    return around | (bound_variables(statement_at(program, path)) if has_statement(program, path) else set())
