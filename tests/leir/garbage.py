"""Programs that no checker should like: random trees, and well-formed programs with a few random changes."""

import random
from collections.abc import Callable
from dataclasses import replace

from leir.edit import expression_at, replace_at, replace_expression_at, walk, walk_places, with_operands
from leir.syntax import (
    DTYPES,
    FUNCTIONS,
    KINDS,
    SCOPES,
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
    Declaration,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Program,
    Real,
    Select,
    Stmt,
    Unary,
    Variable,
    equation,
    operands,
)

TENSORS = ("A", "C", "D", "E", "I", "S", "R", "M", "Q")
VARIABLES = ("i", "j", "k", "tx", "ty", "bx", "by", "z")
ASSIGNMENTS = ("=", "+=", "*=", "max=", "min=")
BINARY = ("+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "&&", "||")


def garbage(seed: int) -> Program:
    """A program that parses, and of which little else is right."""
    draw = random.Random(f"garbage {seed}")

    def declaration(name: str) -> Declaration:
        shape = tuple(draw.choice([1, 4, 8, 100_000]) for _ in range(draw.randrange(3)))
        return Declaration(name, draw.choice(DTYPES) if draw.random() < 0.4 else "f32", shape)

    names = draw.sample(TENSORS, draw.randrange(2, 5))
    return Program(tuple(declaration(name) for name in names[1:]), (declaration(names[0]),), _statements(draw, 4))


def _statements(draw: random.Random, depth: int) -> tuple[Stmt, ...]:
    return tuple(_statement(draw, depth) for _ in range(draw.randrange(1, 4)))


def _statement(draw: random.Random, depth: int) -> Stmt:
    chance = draw.random()
    if depth <= 0 or chance < 0.35:
        return equation(_access(draw, 2), draw.choice(ASSIGNMENTS), _expression(draw, draw.randrange(4)))
    if chance < 0.8:
        extent, first = draw.choice([1, 2, 8, 64, 100, 3000, 2**62]), draw.choice([0, 0, 0, 1, 2**62])
        return Loop(draw.choice(KINDS), draw.choice(VARIABLES), extent, first, _statements(draw, depth - 1))
    if chance < 0.9:
        return Guard(_expression(draw, 2), _statements(draw, depth - 1))
    shape = tuple(draw.choice([1, 8, 33, 70_000]) for _ in range(draw.randrange(3)))
    return Alloc(draw.choice(TENSORS), draw.choice(DTYPES), draw.choice(SCOPES), shape)


def _access(draw: random.Random, depth: int) -> Access:
    indices = (
        _expression(draw, depth - 1) if draw.random() < 0.3 else Variable(draw.choice(VARIABLES))
        for _ in range(draw.randrange(3))
    )
    return Access(draw.choice(TENSORS), tuple(indices))


def _expression(draw: random.Random, depth: int) -> Expr:
    def below() -> Expr:
        return _expression(draw, depth - 1)

    leaves: list[Callable[[], Expr]] = [
        lambda: Integer(draw.choice([0, 1, 2, 7, 10**18])),
        lambda: Real(draw.choice([0.0, 0.5, 1e300, float("inf")])),
        lambda: Variable(draw.choice(VARIABLES)),
        lambda: _access(draw, depth - 1),
    ]
    nodes: list[Callable[[], Expr]] = [
        lambda: Unary(draw.choice(["-", "!"]), below()),
        lambda: Binary(draw.choice(BINARY), below(), below()),
        lambda: Select(below(), below(), below()),
        lambda: Cast(draw.choice(DTYPES), below()),
        lambda: _call(draw.choice(FUNCTIONS), below),
        lambda: _access(draw, depth - 1),
    ]
    return draw.choice(leaves if depth <= 0 or draw.random() < 0.25 else nodes)()


def _call(function: str, argument: Callable[[], Expr]) -> Expr:
    return Call(function, tuple(argument() for _ in range(2 if function in ("max", "min") else 1)))


def mutated(program: Program, seed: int) -> Program:
    """The program after one to three small random changes, anywhere in it."""
    draw = random.Random(f"mutated {seed}")
    for _ in range(draw.randrange(1, 4)):
        program = _changed_statement(program, draw) if draw.random() < 0.5 else _changed_expression(program, draw)
    return program


def _changed_statement(program: Program, draw: random.Random) -> Program:
    path, statement = draw.choice(list(walk(program)))
    match statement:
        case Loop(_, variable, extent, first, body):
            choices: list[tuple[Stmt, ...]] = [
                (replace(statement, kind=draw.choice(KINDS)),),
                (replace(statement, extent=max(1, extent + draw.choice([-1, 1, 1000, 2**40]))),),
                (replace(statement, first=first + 1),),
                (replace(statement, variable=draw.choice(VARIABLES)),),
                (replace(statement, body=body[::-1]),),
                (Loop(draw.choice(KINDS), f"{variable}q", 3, 0, (statement,)),),
                body,
            ]
        case Guard(condition, body):
            choices = [body, (Guard(Unary("!", condition), body),), (statement, *body)]
        case Alloc(shape=shape):
            other = tuple(max(1, size + draw.choice([-1, 1])) for size in shape)
            choices = [
                (replace(statement, shape=other),),
                (replace(statement, scope=draw.choice(SCOPES)),),
                (replace(statement, dtype=draw.choice(DTYPES)),),
                (statement, statement),
            ]
        case Equation(target, _, value):
            choices = [
                (equation(target, draw.choice(ASSIGNMENTS), value),),
                (statement, statement),
                (Guard(Binary("<", target, Integer(1)), (statement,)),),
                (Alloc(target.tensor, "f32", draw.choice(SCOPES), tuple(4 for _ in target.indices)), statement),
            ]
    return replace_at(program, path, *draw.choice(choices))


def _changed_expression(program: Program, draw: random.Random) -> Program:
    places = [place for place, _ in walk_places(program)]
    place = draw.choice(places)
    part = expression_at(program, place)
    match part:
        case Access(tensor, indices):
            new: Expr = draw.choice([Access(tensor, indices[::-1]), Access(tensor, (*indices, Integer(0)))])
        case Binary(_, left, right):
            new = Binary(draw.choice(BINARY), right, left)
        case Integer(value):
            new = Integer(max(0, value + draw.choice([-1, 1, 100])))
        case Variable(name):
            new = draw.choice(
                [Binary("+", part, Integer(1)), Binary("*", part, part), Variable(f"{name}z"), Integer(0)]
            )
        case _:
            new = with_operands(part, operands(part)[::-1]) if operands(part) else Integer(7)
    return replace_expression_at(program, place, new)
