"""Reading and rewriting syntax trees: paths, walks, replacement.

A path is the child numbers from the program's body down to a statement; `()` is the body itself. Paths refer to one
program and do not survive a step. Nothing here knows about meaning: a rewrite that must keep it argues elsewhere.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from operator import is_
from typing import TypeVar, assert_never

from leir.remembered import remembered
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
    Declaration,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Scope,
    Select,
    Stmt,
    Unary,
    Variable,
    equation,
    operands,
)

Parent = TypeVar("Parent", bound=Program | Loop | Guard)


def body_of(node: Program | Stmt) -> tuple[Stmt, ...]:
    """The statements below a node; none below an equation or an allocation."""
    return node.body if isinstance(node, Loop | Guard | Program) else ()


def with_body(node: Parent, body: tuple[Stmt, ...]) -> Parent:
    """The node with another body, which may not be empty."""
    if not body:
        raise ValueError("a list of statements may not become empty: remove what holds it")
    return replace(node, body=body)


def statement_at(program: Program, path: Path) -> Stmt:
    """The statement at a path. Raises LookupError where there is none."""
    node: Program | Stmt = program
    for number in path:
        below = body_of(node)
        if not 0 <= number < len(below):
            raise LookupError(f"no statement at {path}")
        node = below[number]
    if isinstance(node, Program):
        raise LookupError("the empty path is the program's body, not a statement")
    return node


def statements_at(program: Program, path: Path) -> tuple[Stmt, ...]:
    """The statements directly below a path; below `()`, the program's own."""
    return body_of(statement_at(program, path)) if path else program.body


def computes_beside(program: Program, path: Path) -> bool:
    """Whether the list that holds the statement at `path` has an equation beside it, at any depth."""
    others = (other for number, other in enumerate(statements_at(program, path[:-1])) if number != path[-1])
    return any(isinstance(node, Equation) for other in others for _, node in walk_with(other))


def has_statement(program: Program, path: Path) -> bool:
    """Whether the program has a statement at the path."""
    try:
        statement_at(program, path)
    except LookupError:
        return False
    return True


def replace_at(program: Program, path: Path, *new: Stmt) -> Program:
    """The program with the statement at `path` replaced by `new`: none, one or several statements."""
    statement_at(program, path)
    return _splice(program, path, new, 1)


def insert_at(program: Program, path: Path, *new: Stmt) -> Program:
    """The program with `new` before the statement at `path`; the last number may be one past the list's end."""
    if not 0 <= path[-1] <= len(statements_at(program, path[:-1])):
        raise LookupError(f"no place at {path}")
    return _splice(program, path, new, 0)


def without(program: Program, removed: Collection[Path], put: Mapping[Path, tuple[Stmt, ...]]) -> Program:
    """The program without the statements at some paths, and with others in place of those at the paths of `put`.

    Loops and guards in which nothing but declarations is left go too.
    """

    def kept(body: tuple[Stmt, ...], path: Path) -> tuple[Stmt, ...]:
        result: list[Stmt] = []
        for number, statement in enumerate(body):
            here = (*path, number)
            if here in put:
                result += put[here]
            elif here not in removed and isinstance(statement, Loop | Guard):
                below = kept(statement.body, here)
                holds = any(not isinstance(s, Alloc) for s in below)
                result += [statement if below == statement.body else replace(statement, body=below)] if holds else []
            elif here not in removed:
                result.append(statement)
        return tuple(result)

    return replace(program, body=kept(program.body, ()))


def _splice(program: Program, path: Path, new: tuple[Stmt, ...], removed: int) -> Program:
    def rebuild(body: tuple[Stmt, ...], rest: Path) -> tuple[Stmt, ...]:
        here = rest[0]
        if len(rest) == 1:
            return (*body[:here], *new, *body[here + removed :])
        child = body[here]
        assert isinstance(child, Loop | Guard)
        return (*body[:here], with_body(child, rebuild(child.body, rest[1:])), *body[here + 1 :])

    return with_body(program, rebuild(program.body, path))


def walk(node: Program | Stmt, path: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    """Every statement below `node` with its path, in the order of the text. `path` is the path of `node`."""
    if isinstance(node, Program) and not path:
        return iter(_walked(node))
    return _walk(node, path)


@remembered
def _walked(program: Program) -> tuple[tuple[Path, Stmt], ...]:
    return tuple(_walk(program, ()))


def _walk(node: Program | Stmt, path: Path) -> Iterator[tuple[Path, Stmt]]:
    waiting = [((*path, number), statement) for number, statement in enumerate(body_of(node))]
    waiting.reverse()
    while waiting:
        here, statement = waiting.pop()
        yield here, statement
        if isinstance(statement, Loop | Guard):
            below = statement.body
            waiting += [((*here, number), below[number]) for number in range(len(below) - 1, -1, -1)]


def walk_with(statement: Stmt) -> Iterator[tuple[Path, Stmt]]:
    """The statement itself, at `()`, and every statement below it."""
    yield (), statement
    yield from walk(statement)


def walk_enclosed(
    node: Program | Stmt, path: Path = (), around: tuple[Loop | Guard, ...] = ()
) -> Iterator[tuple[Path, Stmt, tuple[Loop | Guard, ...]]]:
    """Every statement below `node` with its path and the loops and guards around it, outside first.

    `path` and `around` are those of what stands below `node`; the node itself is not part of `around`.
    """
    for number, statement in enumerate(body_of(node)):
        yield from walk_with_enclosed(statement, (*path, number), around)


def walk_with_enclosed(
    statement: Stmt, path: Path = (), around: tuple[Loop | Guard, ...] = ()
) -> Iterator[tuple[Path, Stmt, tuple[Loop | Guard, ...]]]:
    """The same of the statement itself, at `path` inside `around`, and of every statement below it."""
    waiting: list[tuple[Path, Stmt, tuple[Loop | Guard, ...]]] = [(path, statement, around)]
    while waiting:
        here, node, outside = found = waiting.pop()
        yield found
        if isinstance(node, Loop | Guard):
            below, inside = node.body, (*outside, node)
            waiting += [((*here, number), below[number], inside) for number in range(len(below) - 1, -1, -1)]


def enclosing(program: Program, path: Path) -> tuple[tuple[Path, Loop | Guard], ...]:
    """The loops and guards around the statement at `path`, from the outside in, with their paths."""
    result: list[tuple[Path, Loop | Guard]] = []
    below = program.body
    for length in range(1, len(path)):
        number = path[length - 1]
        if not 0 <= number < len(below):
            raise LookupError(f"no statement at {path[:length]}")
        node = below[number]
        assert isinstance(node, Loop | Guard)
        result.append((path[:length], node))
        below = node.body
    return tuple(result)


def perfect_nest(statement: Stmt, path: Path = ()) -> tuple[tuple[Path, Loop | Guard], ...]:
    """The loops and guards from a statement down, as far as each list holds nothing but the next, with their paths.

    `path` is the path of `statement`; the last level's body is the first list with more, or with something else, in it.
    """
    levels: list[tuple[Path, Loop | Guard]] = []
    node: Stmt | None = statement
    while isinstance(node, Loop | Guard):
        levels.append((path, node))
        node, path = (node.body[0], (*path, 0)) if len(node.body) == 1 else (None, path)
    return tuple(levels)


def sole_equation(statement: Stmt, path: Path = ()) -> tuple[Path, Equation] | None:
    """The equation of a perfect nest that holds nothing else, with its path; None for anything else."""
    levels = perfect_nest(statement, path)
    match levels[-1][1].body if levels else ():
        case (Equation() as found,):
            return (*levels[-1][0], 0), found
        case _:
            return None


def nested(levels: Iterable[Loop | Guard], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The nest with these levels, from the outside in, around a list of statements; the list itself for no levels."""
    for level in reversed(tuple(levels)):
        body = (replace(level, body=body),)
    return body


def loops_around(program: Program, path: Path) -> tuple[Loop, ...]:
    """The loops around the statement at `path`, from the outside in."""
    return tuple(node for _, node in enclosing(program, path) if isinstance(node, Loop))


def iterations_around(program: Program, path: Path) -> int:
    """How often the loops around the statement at `path` reach it, guards left out of account."""
    return math.prod(loop.extent for loop in loops_around(program, path))


def equation_paths(program: Program) -> tuple[Path, ...]:
    """The paths of all equations, in the order of the text."""
    return tuple(path for path, statement in walk(program) if isinstance(statement, Equation))


def expressions(statement: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, as places number them: target and value, or the condition."""
    match statement:
        case Equation(target, _, value):
            return (target, value)
        case Guard(condition=condition):
            return (condition,)
        case Loop() | Alloc():
            return ()


def walk_expression(expression: Expr, within: Path = ()) -> Iterator[tuple[Path, Expr]]:
    """The expression and all below it, with child numbers, outside first."""
    waiting = [(within, expression)]
    while waiting:
        here, part = found = waiting.pop()
        yield found
        below = operands(part)
        if below:
            waiting += [((*here, number), below[number]) for number in range(len(below) - 1, -1, -1)]


def may_be_skipped(expression: Expr, within: Path) -> bool:
    """Whether the part that child numbers lead to may be left out where an expression is computed."""
    for number in within:
        match expression:
            case Select() if number > 0:
                return True
            case Binary("&&" | "||") if number == 1:
                return True
            case _:
                expression = operands(expression)[number]
    return False


def subexpressions(expression: Expr) -> tuple[Expr, ...]:
    """The expression and all below it, subscripts left out."""
    if isinstance(expression, Access):
        return (expression,)
    return (expression, *(part for operand in operands(expression) for part in subexpressions(operand)))


def walk_places(program: Program) -> Iterator[tuple[Place, Expr]]:
    """Every subexpression of the program with its place, in the order of the text."""
    for path, statement in walk(program):
        for number, expression in enumerate(expressions(statement)):
            for within, subexpression in walk_expression(expression, (number,)):
                yield Place(path, within), subexpression


def accesses(node: Program | Stmt | Expr) -> Iterator[Access]:
    """Every access in an expression or in a statement and below, subscripts included; targets too."""
    waiting: list[Program | Stmt | Expr] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Access):
            yield part
            waiting += part.indices[::-1]
        elif isinstance(part, Equation):
            waiting += (part.value, part.target)
        elif isinstance(part, Loop | Program):
            waiting += part.body[::-1]
        elif isinstance(part, Guard):
            waiting += (*part.body[::-1], part.condition)
        elif not isinstance(part, Alloc):
            waiting += operands(part)[::-1]


def expression_at(program: Program, place: Place) -> Expr:
    """The subexpression at a place. Raises LookupError where there is none."""
    if place.within is None or not place.within:
        raise LookupError(f"{place} is not the place of an expression")
    return expressions_to(program, place)[-1]


def expressions_to(program: Program, place: Place) -> list[Expr]:
    """The expressions from one of a statement's own down to that at a place. Raises LookupError where there is none."""
    below: tuple[Expr, ...] = expressions(statement_at(program, place.path))
    found: list[Expr] = []
    for number in place.within or ():
        if not 0 <= number < len(below):
            raise LookupError(f"no expression at {place.path} {place.within}")
        found.append(below[number])
        below = operands(below[number])
    return found


def replace_expression_at(program: Program, place: Place, new: Expr) -> Program:
    """The program with the subexpression at a place replaced."""
    expression_at(program, place)
    assert place.within is not None
    statement = statement_at(program, place.path)
    first, rest = place.within[0], place.within[1:]

    def rebuild(node: Expr, within: Path) -> Expr:
        if not within:
            return new
        below = list(operands(node))
        below[within[0]] = rebuild(below[within[0]], within[1:])
        return with_operands(node, tuple(below))

    match statement:
        case Equation(target, op, value) if first == 0:
            target = rebuild(target, rest)
            if not isinstance(target, Access):
                raise ValueError("the target of an equation is an access")
            return replace_at(program, place.path, equation(target, op, value))
        case Equation(target, op, value):
            return replace_at(program, place.path, equation(target, op, rebuild(value, rest)))
        case Guard(condition, body):
            return replace_at(program, place.path, Guard(rebuild(condition, rest), body))
        case Loop() | Alloc():
            raise AssertionError("expression_at found an expression in a statement that has none")


def with_operands(expression: Expr, new: tuple[Expr, ...]) -> Expr:
    """The expression with other children, in the order of `operands`."""
    match expression, new:
        case ((Integer() | Real() | Variable()), ()):
            return expression
        case Access(tensor), _:
            return Access(tensor, new)
        case Unary(op), (operand,):
            return Unary(op, operand)
        case Cast(dtype), (operand,):
            return Cast(dtype, operand)
        case Binary(op), (left, right):
            return Binary(op, left, right)
        case Call(function), _:
            return Call(function, new)
        case Select(), (condition, then, otherwise):
            return Select(condition, then, otherwise)
        case _:
            raise ValueError(f"{len(new)} children for {expression}")


def map_expression(expression: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """`change` applied to every subexpression, children first."""
    before = operands(expression)
    if not before:
        return change(expression)
    below = tuple([map_expression(operand, change) for operand in before])
    if all(map(is_, before, below)):
        return change(expression)
    return change(with_operands(expression, below))


def map_statement(statement: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """`change` applied to every subexpression in a statement and below, children first; targets stay accesses."""
    match statement:
        case Equation(target, op, value):
            new_target = map_expression(target, change)
            if not isinstance(new_target, Access):
                raise ValueError("the target of an equation is an access")
            return equation(new_target, op, map_expression(value, change))
        case Guard(condition, body):
            return Guard(map_expression(condition, change), tuple(map_statement(s, change) for s in body))
        case Loop(body=body):
            return replace(statement, body=tuple(map_statement(s, change) for s in body))
        case Alloc():
            return statement
        case _:
            assert_never(statement)


def with_dtypes(program: Program, dtypes: Mapping[DType, DType]) -> Program:
    """The program with every dtype replaced as the mapping says: in the signature, in allocations and in casts."""

    def recast(expression: Expr) -> Expr:
        if isinstance(expression, Cast):
            return Cast(dtypes.get(expression.dtype, expression.dtype), expression.operand)
        return expression

    def visit(statement: Stmt) -> Stmt:
        match statement:
            case Alloc(dtype=dtype):
                return replace(statement, dtype=dtypes.get(dtype, dtype))
            case Loop(body=body):
                return replace(statement, body=tuple(visit(s) for s in body))
            case Guard(condition, body):
                return Guard(map_expression(condition, recast), tuple(visit(s) for s in body))
            case Equation():
                return map_statement(statement, recast)

    def declared(declarations: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(d, dtype=dtypes.get(d.dtype, d.dtype)) for d in declarations)

    return Program(declared(program.inputs), declared(program.outputs), tuple(visit(s) for s in program.body))


def variables_of(expression: Expr) -> set[str]:
    """The loop variables that occur in an expression."""
    found: set[str] = set()
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Variable):
            found.add(part.name)
        else:
            waiting += operands(part)
    return found


def tensors_read(statement: Stmt) -> tuple[str, ...]:
    """The tensors that a statement reads, in order of appearance; accumulators are written, not read."""
    found: dict[str, None] = {}
    for _, node in walk_with(statement):
        match node:
            case Equation(target, _, value):
                names = [a.tensor for index in target.indices for a in accesses(index)] + [
                    a.tensor for a in accesses(value)
                ]
            case Guard(condition):
                names = [a.tensor for a in accesses(condition)]
            case _:
                names = []
        found.update(dict.fromkeys(names))
    return tuple(found)


def tensors_written(statement: Stmt) -> tuple[str, ...]:
    """The tensors that a statement writes, in order of appearance."""
    targets = (node.target.tensor for _, node in walk_with(statement) if isinstance(node, Equation))
    return tuple(dict.fromkeys(targets))


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def tensors_in(statement: Stmt) -> tuple[str, ...]:
    """The tensors of a statement and of all below it, by first appearance of an access."""
    return tuple(dict.fromkeys([access.tensor for access in accesses(statement)]))


@lru_cache(maxsize=4096)
def allocations_in(statement: Stmt) -> tuple[tuple[Path, Alloc], ...]:
    """The allocations of a statement and of all below it, with their paths from there."""
    return tuple((path, node) for path, node in walk_with(statement) if isinstance(node, Alloc))


def storage(program: Program) -> dict[str, tuple[DType, Scope]]:
    """dtype and scope of every tensor of the program, the undeclared temporaries' defaults included."""
    return dict(_storage(program))


@remembered
def _storage(program: Program) -> dict[str, tuple[DType, Scope]]:
    result: dict[str, tuple[DType, Scope]] = {}
    for declaration in (*program.inputs, *program.outputs):
        result.setdefault(declaration.tensor, (declaration.dtype, "g"))
    for outermost in program.body:
        for _, alloc in allocations_in(outermost):
            result.setdefault(alloc.tensor, (alloc.dtype, alloc.scope))
    for outermost in program.body:
        for tensor in tensors_in(outermost):
            result.setdefault(tensor, (program.outputs[0].dtype, "g"))
    return result


def dtypes(program: Program) -> dict[str, DType]:
    """The dtype of every tensor of the program."""
    return dict(_dtypes(program))


@remembered
def _dtypes(program: Program) -> dict[str, DType]:
    return {name: kind[0] for name, kind in _storage(program).items()}
