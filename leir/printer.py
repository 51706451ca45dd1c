"""Syntax tree to text, in two spellings of one language.

`compact` costs the fewest tokens and is the form that models see; `full` is near the Step-TP paper: one loop a header,
no accumulation operators, dtype and scope on every access, every brace and every first value.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, assert_never

from leir.edit import perfect_nest, storage
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
    Program,
    Real,
    Scope,
    Select,
    Stmt,
    Unary,
    Variable,
    reads,
)

Spelling = Literal["compact", "full"]

_DISJUNCTION, _CONJUNCTION, _NEGATION, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _POWER, _ATOM = range(9)
_LEVELS = {
    "||": _DISJUNCTION, "&&": _CONJUNCTION, "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON, ">=": _COMPARISON,
    "==": _COMPARISON, "!=": _COMPARISON, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT,
    "%": _PRODUCT, "**": _POWER,
}  # fmt: skip


def to_text(program: Program, spelling: Spelling = "compact") -> str:
    """The program's text, ending in a line break: the signature, then one top-level statement a line."""
    if spelling == "compact":
        lines = [signature_text(program), *map(_compact, program.body)]
        return "\n".join(lines) + "\n"
    printer = _Printer(spelling, storage(program))
    lines = [printer.signature(program), *map(printer.statement, program.body)]
    return "\n".join(lines) + "\n"


def signature_text(program: Program) -> str:
    """The compact text of a program's signature, its first line."""
    return _Printer("compact", {}).signature(program)


def statement_text(statement: Stmt, program: Program | None = None, spelling: Spelling = "compact") -> str:
    """One statement's text, in one line. `full` needs the program, which knows dtypes and scopes."""
    return _Printer(spelling, storage(program) if program else {}).statement(statement)


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def _compact(statement: Stmt) -> str:
    return _Printer("compact", {}).statement(statement)


def equation_text(equation: Stmt) -> str:
    """An equation as it is quoted in a sentence: compact, without the semicolon that ends it."""
    return statement_text(equation).rstrip(";")


@lru_cache(maxsize=8192)  # the same few are named in many a key and many a fact
def expression_text(expression: Expr) -> str:
    """An expression's compact text."""
    return _Printer("compact", {}).expression(expression)


def header_text(levels: Iterable[Loop | Guard]) -> str:
    """The header of a nest with these levels, from the outside in, in compact spelling."""
    return _Printer("compact", {}).header(levels)


class _Printer:
    def __init__(self, spelling: Spelling, types: dict[str, tuple[DType, Scope]]) -> None:
        self.full = spelling == "full"
        self.types = types

    def signature(self, program: Program) -> str:
        inputs = ",".join(self.declaration(d) for d in program.inputs)
        outputs = ",".join(self.declaration(d) for d in program.outputs)
        return f"in {inputs};out {outputs};"

    def declaration(self, declaration: Declaration) -> str:
        dtype = f"^{{{declaration.dtype}}}" if self.full or declaration.dtype != "f32" else ""
        return declaration.tensor + dtype + self.subscripts([str(size) for size in declaration.shape])

    def subscripts(self, indices: list[str]) -> str:
        return self.braced("_", indices) if indices else ""

    def braced(self, mark: str, items: list[str]) -> str:
        bare = len(items) == 1 and len(items[0]) == 1 and (items[0].isdigit() or items[0].islower()) and not self.full
        return mark + (items[0] if bare else "{" + ",".join(items) + "}")

    def statement(self, statement: Stmt) -> str:
        match statement:
            case Loop() | Guard():
                levels = _of_one_header(statement)
                return self.header(levels) + "[" + "".join(self.statement(s) for s in levels[-1].body) + "]"
            case Alloc(tensor, dtype, scope, shape):
                return f"{tensor}^{{{dtype},{scope}}}{self.subscripts([str(size) for size in shape])};"
            case Equation(target, op, value):
                return self.equation(target, op, value)
            case _:
                assert_never(statement)

    def header(self, levels: Iterable[Loop | Guard]) -> str:
        """The levels of one header, in `compact` with neighbouring loops of one kind as a group."""
        groups: list[list[Loop]] = []
        parts: list[str] = []
        for level in levels:
            if isinstance(level, Guard):
                parts += [self.loops(group) for group in groups] + [f"({self.expression(level.condition)})"]
                groups = []
            elif groups and groups[-1][-1].kind == level.kind and not self.full:
                groups[-1].append(level)
            else:
                groups.append([level])
        return "".join(parts + [self.loops(group) for group in groups])

    def loops(self, group: list[Loop]) -> str:
        extents = self.braced("^", [str(loop.extent) for loop in group])
        binders = [loop.variable + (f"={loop.first}" if loop.first or self.full else "") for loop in group]
        return group[0].kind + extents + self.braced("_", binders)

    def equation(self, target: Access, op: str, value: Expr) -> str:
        left = self.expression(target)
        if not self.full or op == "=" or reads(value, target.tensor):  # T=T+e would not read back as T+=e
            return f"{left}{' ' if op[0].isalpha() else ''}{op}{self.expression(value)};"
        match op:
            case "+=" | "*=":
                return f"{left}={self.expression(Binary('+' if op == '+=' else '*', target, value))};"
            case _:
                return f"{left}={self.expression(Call(op[:-1], (target, value)))};"

    def expression(self, expression: Expr, level: int = _DISJUNCTION) -> str:
        """The text, in parentheses where it binds looser than `level`."""
        text, own = self.bare(expression)
        return f"({text})" if own < level else text

    def bare(self, expression: Expr) -> tuple[str, int]:
        match expression:
            case Integer(value):
                return str(value), _ATOM
            case Real(value):
                return ("inf" if math.isinf(value) else repr(value)), _ATOM
            case Variable(name):
                return name, _ATOM
            case Access(tensor, indices):
                annotation = "^{" + ",".join(self.types[tensor]) + "}" if self.full else ""
                return tensor + annotation + self.subscripts([self.expression(index) for index in indices]), _ATOM
            case Unary("-", operand):
                return f"-{self.expression(operand, _SIGNED)}", _SIGNED
            case Unary(_, operand):
                return f"!{self.expression(operand, _NEGATION)}", _NEGATION
            case Binary("**", base, exponent):
                return f"{self.expression(base, _ATOM)}**{self.expression(exponent, _SIGNED)}", _POWER
            case Binary(op, left, right):
                level = _LEVELS[op]
                below = level + 1 if level == _COMPARISON else level
                return f"{self.expression(left, below)}{op}{self.expression(right, level + 1)}", level
            case Call(function, arguments):
                return f"{function}({','.join(self.expression(argument) for argument in arguments)})", _ATOM
            case Select(condition, then, otherwise):
                parts = (self.expression(part) for part in (condition, then, otherwise))
                return f"if_then_else({','.join(parts)})", _ATOM
            case Cast(dtype, operand):
                return f"cast({dtype},{self.expression(operand)})", _ATOM
            case _:
                assert_never(expression)


def _of_one_header(statement: Loop | Guard) -> list[Loop | Guard]:
    """The levels that the text writes as one header: loops, then at most one guard, which ends it."""
    levels: list[Loop | Guard] = []
    for _, level in perfect_nest(statement):
        levels.append(level)
        if isinstance(level, Guard):
            break
    return levels
