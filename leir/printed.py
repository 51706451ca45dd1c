"""Lines as the printer writes them to syntax trees, by recursive descent: many times faster than Lark.

What this module reads, `grammar.lark` reads as the same tree. It has no errors of its own: any other text, be it wrong,
spelled otherwise or nested deep, is None, and Lark's to read.
"""

import math
import re
from typing import cast

from leir.edit import walk_expression
from leir.syntax import (
    DEPTH_LIMIT,
    DTYPES,
    FUNCTIONS,
    KINDS,
    RESERVED_WORDS,
    SCOPES,
    Access,
    Alloc,
    AssignOp,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Declaration,
    DType,
    Expr,
    Guard,
    Integer,
    Kind,
    Loop,
    Real,
    Scope,
    Select,
    Stmt,
    Unary,
    Variable,
    equation,
)

LARGEST_INTEGER = 2**63 - 1
_DEEPEST = DEPTH_LIMIT // 4  # levels of statements, and of operands with their parentheses, that recursion is good for
Declarations = tuple[Declaration, ...]

_TOKEN = re.compile(
    r"[A-Z][A-Za-z0-9]*|if_then_else|max=|min=|[a-z][a-z0-9]*|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?"
    r"|\*\*|//|&&|\|\||[-+*/%<>=!]=?|[\[\](){}^_,;]"
)
_ASSIGNMENTS = frozenset(("=", "+=", "*=", "max=", "min="))
_RESERVED, _FUNCTIONS, _DTYPES = frozenset(RESERVED_WORDS), frozenset(FUNCTIONS), frozenset(DTYPES)
_NONE, _DISJUNCTION, _CONJUNCTION, _NEGATION, _COMPARISON, _SUM, _PRODUCT, _SIGNED, _POWER = range(9)
_LEVELS = {
    "||": _DISJUNCTION, "&&": _CONJUNCTION, "<": _COMPARISON, "<=": _COMPARISON, ">": _COMPARISON, ">=": _COMPARISON,
    "==": _COMPARISON, "!=": _COMPARISON, "+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT,
    "%": _PRODUCT, "**": _POWER,
}  # fmt: skip


def printed_signature(line: str) -> tuple[Declarations, Declarations] | None:
    """The inputs and outputs that a line declares."""
    try:
        reader = _Reader(line)
        reader.take("in")
        inputs = reader.declarations()
        reader.take("out")
        outputs = reader.declarations()
        reader.take("")
    except _OtherText:
        return None
    return inputs, outputs


def printed_statements(line: str) -> tuple[Stmt, ...] | None:
    """The statements that a line holds, without annotations on accesses."""
    try:
        return _Reader(line).statements("", 0)
    except _OtherText:
        return None


class _OtherText(Exception):
    """The text is not what the printer writes."""


class _Reader:
    """Reads a line from its first token on; the last one is followed by an empty one."""

    def __init__(self, line: str) -> None:
        self.tokens = cast("list[str]", _TOKEN.findall(line))
        if "".join(self.tokens) != line.replace(" ", ""):
            raise _OtherText
        self.tokens.append("")
        self.at = 0
        self.depth = 0  # of operands in operands, parentheses counted too

    def next(self) -> str:
        token = self.tokens[self.at]
        self.at += bool(token)
        return token

    def take(self, wanted: str) -> None:
        if self.next() != wanted:
            raise _OtherText

    def follows(self, wanted: str) -> bool:
        """Whether a token follows, which is then taken."""
        if self.tokens[self.at] != wanted:
            return False
        self.at += 1
        return True

    def declarations(self) -> Declarations:
        result: list[Declaration] = []
        while not result or self.follows(","):
            tensor, dtype = self.tensor(), "f32"
            if self.follows("^"):
                self.take("{")
                dtype = self.one_of(_DTYPES)
                self.take("}")
            result.append(Declaration(tensor, cast("DType", dtype), self.sizes("_")))
        self.take(";")
        return tuple(result)

    def tensor(self) -> str:
        token = self.next()
        if not "A" <= token[:1] <= "Z" or token in KINDS:
            raise _OtherText
        return token

    def one_of(self, words: frozenset[str] | tuple[str, ...]) -> str:
        token = self.next()
        if token not in words:
            raise _OtherText
        return token

    def sizes(self, mark: str) -> tuple[int, ...]:
        """What follows a mark, from 1 on; nothing without it."""
        if not self.follows(mark):
            return ()
        if not self.follows("{"):
            if len(self.tokens[self.at]) != 1:
                raise _OtherText
            return (self.integer(1),)
        result = [self.integer(1)]
        while self.follows(","):
            result.append(self.integer(1))
        self.take("}")
        return tuple(result)

    def integer(self, least: int = 0) -> int:
        token = self.next()
        if not token.isdigit() or len(token) > 19 or not least <= int(token) <= LARGEST_INTEGER:
            raise _OtherText
        return int(token)

    def variable(self) -> str:
        token = self.next()
        if not "a" <= token[:1] <= "z" or token in _RESERVED or not token.isalnum():
            raise _OtherText
        return token

    def statements(self, end: str, depth: int) -> tuple[Stmt, ...]:
        """One statement or more, and the token that ends them; `depth` is the number of levels around them."""
        if depth > _DEEPEST:
            raise _OtherText
        result = [self.statement(depth)]
        while self.tokens[self.at] != end:
            result.append(self.statement(depth))
        self.next()
        return tuple(result)

    def statement(self, depth: int) -> Stmt:
        if self.tokens[self.at] in KINDS or self.tokens[self.at] == "(":
            return self.nest(depth)
        if self.tokens[self.at + 1 : self.at + 2] == ["^"]:
            return self.alloc()
        start = self.at
        target = self.access(self.tensor())
        op = cast("AssignOp", self.one_of(_ASSIGNMENTS))
        value = self.expression()
        self.require_flat(start, target, value)
        self.take(";")
        return equation(target, op, value)

    def nest(self, depth: int) -> Stmt:
        loops: list[tuple[str, int, str, int]] = []
        while self.tokens[self.at] in KINDS:
            kind = self.next()
            extents, binders = self.sizes("^"), self.binders()
            if len(extents) != len(binders):
                raise _OtherText
            loops += ((kind, extent, *binder) for extent, binder in zip(extents, binders, strict=True))
        condition = None
        if self.follows("("):
            start = self.at
            condition = self.expression()
            self.require_flat(start, condition)
            self.take(")")
        self.take("[")
        body = self.statements("]", depth + len(loops) + (condition is not None))
        self.follows(";")
        if condition is not None:
            body = (Guard(condition, body),)
        for kind, extent, variable, first in reversed(loops):
            body = (Loop(cast("Kind", kind), variable, extent, first, body),)
        return body[0]

    def binders(self) -> list[tuple[str, int]]:
        """Variables and their first values."""
        self.take("_")
        if not self.follows("{"):
            if len(self.tokens[self.at]) != 1:
                raise _OtherText
            return [(self.variable(), 0)]
        result: list[tuple[str, int]] = []
        while not result or self.follows(","):
            result.append((self.variable(), self.integer() if self.follows("=") else 0))
        self.take("}")
        return result

    def alloc(self) -> Alloc:
        tensor = self.tensor()
        self.take("^")
        self.take("{")
        dtype = self.one_of(_DTYPES)
        self.take(",")
        scope = self.one_of(SCOPES)
        self.take("}")
        result = Alloc(tensor, cast("DType", dtype), cast("Scope", scope), self.sizes("_"))
        self.take(";")
        return result

    def access(self, tensor: str) -> Access:
        if not self.follows("_"):
            return Access(tensor, ())
        if self.follows("{"):
            return Access(tensor, self.list("}"))
        token = self.tokens[self.at]
        if len(token) != 1:
            raise _OtherText
        return Access(tensor, (Integer(self.integer()) if token.isdigit() else Variable(self.variable()),))

    def list(self, end: str) -> tuple[Expr, ...]:
        """Expressions and the token that ends them."""
        result = [self.expression()]
        while self.follows(","):
            result.append(self.expression())
        self.take(end)
        return tuple(result)

    def require_flat(self, start: int, *found: Expr) -> None:
        """That expressions of a statement, read from token `start` on, nest no deeper than the language allows."""
        if self.at - start >= DEPTH_LIMIT and max(map(_height, found)) > DEPTH_LIMIT:
            raise _OtherText

    def expression(self, least: int = _NONE) -> Expr:
        """An operand, and the operators after it that bind as tightly as `least`, or tighter."""
        left = self.operand(least)
        while (level := _LEVELS.get(op := self.tokens[self.at], _NONE)) >= least and level:
            self.at += 1
            right = self.expression(_SIGNED if level == _POWER else level + 1)
            left = Binary(cast("BinaryOp", op), left, right)
            if level == _COMPARISON and _LEVELS.get(self.tokens[self.at]) == _COMPARISON:
                raise _OtherText
        return left

    def operand(self, least: int) -> Expr:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _OtherText
        result = self._operand(least)
        self.depth -= 1
        return result

    def _operand(self, least: int) -> Expr:
        token = self.next()
        first = token[:1]
        if "A" <= first <= "Z" and token not in KINDS:
            return self.access(token)
        if "a" <= first <= "z":
            return self.word(token)
        if token.isdigit():
            self.at -= 1
            return Integer(self.integer())
        if first.isdigit():
            value = float(token)
            if math.isinf(value):
                raise _OtherText
            return Real(value)
        if token == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if token == "-":
            return Unary("-", self.expression(_SIGNED))
        if token == "!" and least <= _NEGATION:
            return Unary("!", self.expression(_NEGATION))
        raise _OtherText

    def word(self, word: str) -> Expr:
        """What begins with a lower-case word: a variable, a call, a choice, a cast, or infinity."""
        if word in _FUNCTIONS:
            self.take("(")
            arguments = self.list(")")
            if len(arguments) != (2 if word in ("max", "min") else 1):
                raise _OtherText
            return Call(word, arguments)
        if word == "if_then_else":
            self.take("(")
            parts = self.list(")")
            if len(parts) != 3:
                raise _OtherText
            return Select(*parts)
        if word == "cast":
            self.take("(")
            dtype = self.one_of(_DTYPES)
            self.take(",")
            operand = self.expression()
            self.take(")")
            return Cast(cast("DType", dtype), operand)
        if word == "inf":
            return Real(math.inf)
        self.at -= 1
        return Variable(self.variable())


def _height(expression: Expr) -> int:
    """The levels of an expression, itself counted."""
    return max(len(within) + 1 for within, _ in walk_expression(expression))
