"""Counting by running: every iteration of a nest in plain Python, where no condition or subscript reads a tensor."""

from leir.edit import statement_at
from leir.syntax import (  # fmt: skip
    Access,
    Alloc,
    Binary,
    Call,
    Cast,
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
)
from tests.leir.enumeration import Reads, evaluate

Touched = dict[str, tuple[int, int]]  # accesses and elements of each tensor


def walked(program: Program, number: int) -> tuple[int, Touched, Touched]:
    """Equations that run in a top-level statement, and what they read and write. Tensors that a subscript or condition
    depending on data touches are left out; such a condition counts as true."""
    counter = _Counter()
    counter.run(statement_at(program, (number,)), {})
    return (
        counter.runs,
        {t: (n, len(counter.read[t])) for t, n in counter.reads.items() if t not in counter.unknown},
        {t: (n, len(counter.written[t])) for t, n in counter.writes.items() if t not in counter.unknown},
    )


class _Counter:
    def __init__(self) -> None:
        self.runs = 0
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.read: dict[str, set[tuple[int, ...]]] = {}
        self.written: dict[str, set[tuple[int, ...]]] = {}
        self.unknown: set[str] = set()

    def run(self, statement: Stmt, at: dict[str, int]) -> None:
        match statement:
            case Loop(_, variable, extent, first, body):
                for value in range(first, first + extent):
                    for inner in body:
                        self.run(inner, {**at, variable: value})
            case Guard(condition, body):
                self.visit(condition, at)
                try:
                    holds = bool(evaluate(condition, at))
                except Reads:
                    holds = True
                for inner in body if holds else ():
                    self.run(inner, at)
            case Equation(target, _, value):
                self.runs += 1
                self.note(target, at, self.writes, self.written)
                for index in target.indices:
                    self.visit(index, at)
                self.visit(value, at)
            case Alloc():
                pass

    def note(
        self, access: Access, at: dict[str, int], counts: dict[str, int], elements: dict[str, set[tuple[int, ...]]]
    ) -> None:
        counts[access.tensor] = counts.get(access.tensor, 0) + 1
        touched = elements.setdefault(access.tensor, set())
        try:
            touched.add(tuple(int(evaluate(index, at)) for index in access.indices))
        except Reads:
            self.unknown.add(access.tensor)

    def visit(self, part: Expr, at: dict[str, int]) -> None:
        match part:
            case Select(condition, then, otherwise):
                self.visit(condition, at)
                try:
                    self.visit(then if evaluate(condition, at) else otherwise, at)
                except Reads:
                    self.visit(then, at)
                    self.visit(otherwise, at)
            case Binary("&&" | "||" as op, left, right):
                self.visit(left, at)
                try:
                    decided = bool(evaluate(left, at)) == (op == "||")
                except Reads:
                    decided = False
                if not decided:
                    self.visit(right, at)
            case Access(_, indices):
                self.note(part, at, self.reads, self.read)
                for index in indices:
                    self.visit(index, at)
            case Unary(_, operand) | Cast(_, operand):
                self.visit(operand, at)
            case Binary(_, left, right):
                self.visit(left, at)
                self.visit(right, at)
            case Call(_, arguments):
                for argument in arguments:
                    self.visit(argument, at)
            case Integer() | Real() | Variable():
                pass
