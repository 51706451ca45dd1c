"""Random syntax trees that the language can write, well formed or not: for the printer's laws and the checker."""

import hashlib
import math
import random
from typing import get_args

from leir.syntax import (
    DTYPES,
    KINDS,
    SCOPES,
    UNARY_FUNCTIONS,
    Access,
    Alloc,
    AssignOp,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Declaration,
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
)

_TENSORS = ("A", "C", "D", "T", "Z", "A1", "Lx", "P2", "Big9")
_VARIABLES = ("i", "j", "k", "l", "s", "g", "e", "n1", "expo", "in2", "max2", "f", "i3", "i322", "tx", "bxa", "ty0")
_NUMBERS = (0.0, 0.5, 1.0, 1e-05, 2e5, 1e22, 1e16, 123456.789, 5e-324, 1.7976931348623157e308, 0.1, math.inf)


def random_tree(seed: int | str) -> Program:
    """A program that prints and parses; most are not well formed."""
    rng = random.Random(hashlib.sha256(repr(("tree", seed)).encode()).digest())
    tree = _Tree(rng)
    names = rng.sample(_TENSORS, 4)
    declarations = [Declaration(name, rng.choice(DTYPES), tree.shape()) for name in names]
    cut = rng.randint(1, 3)
    tree.signature = names
    body = tuple(tree.statement(3) for _ in range(rng.randint(1, 4)))
    return Program(tuple(declarations[:cut]), tuple(declarations[cut:]), body)


class _Tree:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.signature: list[str] = []
        self.allocated: set[str] = set()

    def shape(self) -> tuple[int, ...]:
        return tuple(self.rng.choice((1, 2, 7, 16, 2**31)) for _ in range(self.rng.choice((0, 1, 1, 2, 3))))

    def name(self) -> str:
        return self.rng.choice(_TENSORS)

    def statement(self, depth: int) -> Stmt:
        form = self.rng.random()
        if depth and form < 0.4:
            kind = self.rng.choice(KINDS)
            first = self.rng.choice((0, 0, 0, 1, 12))
            return Loop(kind, self.rng.choice(_VARIABLES), self.rng.choice((1, 2, 9, 10, 512)), first, self.body(depth))
        if depth and form < 0.55:
            return Guard(self.expression(2), self.body(depth))
        if form < 0.62:
            name = self.name() + str(len(self.allocated) + 20)
            self.allocated.add(name)
            return Alloc(name, self.rng.choice(DTYPES), self.rng.choice(SCOPES), self.shape())
        op = self.rng.choice(get_args(AssignOp))
        target, value = self.access(1), self.expression(4)
        if self.rng.random() < 0.2:  # what a parser must read as an accumulation, or must not
            own = Binary("+", target, value)
            value = self.rng.choice(
                (own, Binary("*", value, target), Call("max", (target, value)), Call("min", (value, target)),
                 Binary("-", target, value), Binary("+", own, value))
            )  # fmt: skip
        return equation(target, op, value)

    def body(self, depth: int) -> tuple[Stmt, ...]:
        return tuple(self.statement(depth - 1) for _ in range(self.rng.choice((1, 1, 1, 2, 3))))

    def access(self, depth: int) -> Access:
        return Access(self.name(), tuple(self.expression(depth) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))))

    def expression(self, depth: int) -> Expr:
        if depth == 0 or self.rng.random() < 0.15:
            return self.rng.choice(
                (Integer(self.rng.choice((0, 1, 9, 10, 2**63 - 1))), Real(self.rng.choice(_NUMBERS)),
                 Variable(self.rng.choice(_VARIABLES)), Access(self.name()))
            )  # fmt: skip
        below = depth - 1
        match self.rng.randrange(9):
            case 0:
                return self.access(below)
            case 1:
                return Unary(self.rng.choice(("-", "!")), self.expression(below))
            case 2:
                return Call(self.rng.choice(UNARY_FUNCTIONS), (self.expression(below),))
            case 3:
                return Call(self.rng.choice(("max", "min")), (self.expression(below), self.expression(below)))
            case 4:
                return Select(self.expression(below), self.expression(below), self.expression(below))
            case 5:
                return Cast(self.rng.choice(DTYPES), self.expression(below))
            case _:
                return Binary(self.rng.choice(get_args(BinaryOp)), self.expression(below), self.expression(below))
