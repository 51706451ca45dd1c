"""Text to syntax tree, by Lark (LALR, contextual lexer), with the place of every node in the text.

Bad text raises `ParseError`, whose message is one line and whose `snippet` shows the line with a caret. What is wrong
with a program that parses is the checker's to say (`leir.check`).
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from lark import Token, Tree

from leir.edit import storage
from leir.grammar import ParseError, read_tree
from leir.syntax import (
    DEPTH_LIMIT,
    Access,
    Alloc,
    AssignOp,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Declaration,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Kind,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Scope,
    Select,
    Stmt,
    Unary,
    UnaryOp,
    Variable,
    equation,
)

_LARGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Span:
    """Lines and columns count from 1; `end_column` is one past the last character."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed text: the program, and where each of its parts stands in the text."""

    text: str
    file: str
    program: Program
    spans: dict[Place, Span]

    def span(self, place: Place) -> Span:
        """The span of a place, or of the nearest enclosing one that the text shows."""
        while place not in self.spans:
            if place.within:
                place = Place(place.path, place.within[:-1])
            elif place.within is not None:
                place = Place(place.path)
            elif place.path:
                place = Place(place.path[:-1])
            else:
                return Span(1, 1, 1, 1)
        return self.spans[place]


@lru_cache(maxsize=256)
def parse(text: str, file: str = "<text>") -> Program:
    """The program that `text` writes, in either spelling. Raises ParseError. Programs are kept: they never change."""
    return _parse_lines(text) or parse_source(text, file).program


def _parse_lines(text: str) -> Program | None:
    """The program of a text whose first line is its signature and every other one whole statements, as printed.

    The lines are kept, as programs of one walk have most of theirs in common. None for any other text, and where
    something may be wrong: to be read as a whole.
    """
    first, *others = text.rstrip().split("\n")
    signature = _signature_line(first)
    if signature is None or not others:
        return None
    body: list[Stmt] = []
    for line in others:
        statements = _statement_line(line)
        if statements is None:
            return None
        body += statements
    return Program(*signature, tuple(body))


@lru_cache(maxsize=256)
def _signature_line(line: str) -> tuple[tuple[Declaration, ...], tuple[Declaration, ...]] | None:
    try:
        inputs, outputs = _trees(read_tree(line, "<line>", "signature", positions=False))
        builder = _Builder(line, "<line>", spans=False)
        return builder.declarations(inputs), builder.declarations(outputs)
    except ParseError:
        return None


@lru_cache(maxsize=2048)
def _statement_line(line: str) -> tuple[Stmt, ...] | None:
    try:
        tree = read_tree(line, "<line>", "statements", positions=False)
        builder = _Builder(line, "<line>", spans=False)
        statements = builder.statements(_trees(tree), (), 0)
    except ParseError:
        return None
    return None if builder.annotations else statements  # what they must agree with stands elsewhere


def parse_source(text: str, file: str = "<text>") -> Source:
    """The program and the spans of its parts. Raises ParseError."""
    tree = read_tree(text, file, "program")
    builder = _Builder(text, file)
    program = builder.program(tree)
    return Source(text, file, program, builder.spans)


@lru_cache(maxsize=1024)
def parse_expression(text: str, file: str = "<expression>") -> Expr:
    """The expression that `text` writes. Raises ParseError."""
    return _Builder(text, file).expression(read_tree(text, file, "expression"), (), (), 0)


class _Builder:
    """Turns Lark's tree into ours and notes where each node stands, unless without `spans`."""

    def __init__(self, text: str, file: str, *, spans: bool = True) -> None:
        self.text = text
        self.file = file
        self.notes = spans
        self.spans: dict[Place, Span] = {}
        self.annotations: list[tuple[Tree[Token], str, DType, Scope]] = []

    def error(self, reason: str, at: Tree[Token] | Token) -> ParseError:
        if isinstance(at, Token):
            return ParseError(reason, self.text, self.file, at.line or 1, at.column or 1, found=f"'{at}'")
        line, column = _meta(at)[:2] if self.notes else (1, 1)
        return ParseError(reason, self.text, self.file, line, column)

    def note(self, path: Path, node: Tree[Token] | Token, within: Path | None = None) -> None:
        if self.notes:
            self.spans[Place(path, within)] = Span(*_meta(node))

    def program(self, tree: Tree[Token]) -> Program:
        inputs, outputs, *statements = _trees(tree)
        self.note((), tree)
        declared_inputs = self.declarations(inputs)
        declared_outputs = self.declarations(outputs)
        program = Program(declared_inputs, declared_outputs, self.statements(statements, (), 0))
        self.check_annotations(program)
        return program

    def declarations(self, tree: Tree[Token]) -> tuple[Declaration, ...]:
        result: list[Declaration] = []
        for declaration in _trees(tree):
            tensor, dtype, sizes = declaration.children
            shape = self.sizes(sizes) if isinstance(sizes, Tree) else ()
            result.append(Declaration(str(tensor), cast("DType", str(dtype or "f32")), shape))
            if self.notes:
                self.spans[Place(declaration=str(tensor))] = Span(*_meta(declaration))
        return tuple(result)

    def sizes(self, tree: Tree[Token]) -> tuple[int, ...]:
        return tuple(self.positive(token, "a size") for token in _tokens(tree))

    def positive(self, token: Token, what: str) -> int:
        if self.integer(token) < 1:
            raise self.error(f"{what} is at least 1", token)
        return int(token)

    def integer(self, token: Token) -> int:
        if len(token) > 19 or int(token) > _LARGEST_INTEGER:
            raise self.error(f"{token[:20]}{'...' if len(token) > 20 else ''} does not fit i64", token)
        return int(token)

    def statements(self, trees: Iterable[Tree[Token]], parent: Path, depth: int) -> tuple[Stmt, ...]:
        return tuple(self.statement(tree, (*parent, number), depth) for number, tree in enumerate(trees))

    def statement(self, tree: Tree[Token], path: Path, depth: int) -> Stmt:
        if depth >= DEPTH_LIMIT:
            raise self.error(f"statements nest deeper than {DEPTH_LIMIT}", tree)
        match tree.data:
            case "nest":
                header, *body = _trees(tree)
                return self.nest(tree, list(_trees(header)), body, path, depth)
            case "alloc":
                return self.alloc(tree, path)
            case "equation":
                target, operator, value = _trees(tree)
                self.note(path, tree)
                access = self.access(target, path, (0,), 0)
                op = cast("AssignOp", str(operator.children[0]))
                result = equation(access, op, self.expression(value, path, (1,), 0))
                if result.op != op and self.notes:
                    self.move_to_accumulation(path, result, value)
                return result
            case other:
                raise AssertionError(f"no statement of the grammar is called {other}")

    def move_to_accumulation(self, path: Path, result: Equation, value: Tree[Token]) -> None:
        """`T=T+e` was read as `T+=e`: the spans of `e` become those of the equation's value."""
        both = list(_trees(value))
        kept = 1 if self.expression(both[0], path, (1, 0), 0) == result.target else 0
        moved = {
            Place(path, (1, *place.within[2:])): span
            for place, span in self.spans.items()
            if place.path == path and place.within is not None and place.within[:2] == (1, kept)
        }
        for place in [p for p in self.spans if p.path == path and p.within is not None and p.within[:1] == (1,)]:
            del self.spans[place]
        self.spans.update(moved)

    def nest(
        self, tree: Tree[Token], headers: list[Tree[Token]], body: list[Tree[Token]], path: Path, depth: int
    ) -> Stmt:
        """One loop a level, from the grouped headers that are left."""
        levels: list[tuple[str, str, int, int, Tree[Token] | Token] | Tree[Token]] = []
        for header in headers:
            if header.data == "guard":
                levels.append(header)
                continue
            kind, extents, binders = header.children
            sizes = [self.positive(token, "an extent") for token in _tokens(cast("Tree[Token]", extents))]
            names = list(self.binders(cast("Tree[Token]", binders)))
            if len(sizes) != len(names):
                raise self.error(f"{len(sizes)} extents for {len(names)} loop variables", header)
            levels += [(str(kind), name, size, first, at) for size, (name, first, at) in zip(sizes, names, strict=True)]
        return self.level(tree, levels, body, path, depth)

    def level(
        self,
        tree: Tree[Token],
        levels: list[tuple[str, str, int, int, Tree[Token] | Token] | Tree[Token]],
        body: list[Tree[Token]],
        path: Path,
        depth: int,
    ) -> Stmt:
        if depth >= DEPTH_LIMIT:
            raise self.error(f"statements nest deeper than {DEPTH_LIMIT}", tree)
        here, *below = levels
        if isinstance(here, Tree):
            self.note(path, here)
            (condition,) = _trees(here)
            return Guard(self.expression(condition, path, (0,), 0), self.statements(body, path, depth + 1))
        kind, name, extent, first, at = here
        self.note(path, at)
        inner = (
            (self.level(tree, below, body, (*path, 0), depth + 1),) if below else self.statements(body, path, depth + 1)
        )
        return Loop(cast("Kind", kind), name, extent, first, inner)

    def binders(self, tree: Tree[Token]) -> Iterator[tuple[str, int, Tree[Token] | Token]]:
        for child in tree.children:
            if isinstance(child, Token):
                yield str(child), 0, child
            else:
                name, first = child.children
                yield str(name), self.integer(first) if isinstance(first, Token) else 0, child

    def alloc(self, tree: Tree[Token], path: Path) -> Alloc:
        (access,) = _trees(tree)
        tensor, annotation, subscripts = access.children
        if not isinstance(annotation, Tree):
            reason = f"an allocation names dtype and scope, as in {tensor}^{{f32,s}}_{{4}};"
            raise self.error(reason, access)
        dtype, scope = _tokens(annotation)
        sizes = [s.children[0] if isinstance(s, Tree) and s.data == "integer" else s for s in subscripts.children] \
            if isinstance(subscripts, Tree) else []  # fmt: skip
        shape: list[int] = []
        for size in sizes:
            if not isinstance(size, Token) or not size.isdigit():
                raise self.error("the sizes of an allocation are integers", size or access)
            shape.append(self.positive(size, "a size"))
        self.note(path, tree)
        return Alloc(str(tensor), cast("DType", str(dtype)), cast("Scope", str(scope)), tuple(shape))

    def access(self, tree: Tree[Token], path: Path, within: Path, depth: int) -> Access:
        tensor, annotation, subscripts = tree.children
        self.note(path, tree, within)
        if isinstance(annotation, Tree):
            dtype, scope = _tokens(annotation)
            self.annotations.append((annotation, str(tensor), cast("DType", str(dtype)), cast("Scope", str(scope))))
        indices: list[Expr] = []
        if isinstance(subscripts, Tree):
            for number, child in enumerate(subscripts.children):
                indices.append(self.expression(child, path, (*within, number), depth + 1))
        return Access(str(tensor), tuple(indices))

    def expression(self, tree: Tree[Token] | Token, path: Path, within: Path, depth: int) -> Expr:
        if depth >= DEPTH_LIMIT:
            raise self.error(f"the expression nests deeper than {DEPTH_LIMIT}", tree)
        self.note(path, tree, within)
        if isinstance(tree, Token):  # a subscript without braces
            return Integer(int(tree)) if tree.isdigit() else Variable(str(tree))

        def operand(child: Tree[Token] | Token, number: int) -> Expr:
            return self.expression(child, path, (*within, number), depth + 1)

        match tree.data, tree.children:
            case "access", _:
                return self.access(tree, path, within, depth)
            case "integer", [Token() as token]:
                return Integer(self.integer(token))
            case "real", [Token() as token]:
                value = float(token)
                if math.isinf(value):
                    raise self.error(f"{token} overflows f64: write inf", token)
                return Real(value)
            case "infinity", _:
                return Real(math.inf)
            case "variable", [Token() as token]:
                return Variable(str(token))
            case "unary", [Token() as operator, argument]:
                return Unary(cast("UnaryOp", str(operator)), operand(argument, 0))
            case "binary", [left, Token() as operator, right]:
                return Binary(cast("BinaryOp", str(operator)), operand(left, 0), operand(right, 1))
            case "call", [Token() as function, *arguments]:
                wanted = 2 if function in ("max", "min") else 1
                if len(arguments) != wanted:
                    plural = "argument" if wanted == 1 else "arguments"
                    raise self.error(f"{function} takes {wanted} {plural}, found {len(arguments)}", function)
                return Call(str(function), tuple(operand(a, n) for n, a in enumerate(arguments)))
            case "select", [condition, then, otherwise]:
                return Select(operand(condition, 0), operand(then, 1), operand(otherwise, 2))
            case "cast", [Token() as dtype, argument]:
                return Cast(cast("DType", str(dtype)), operand(argument, 0))
            case other, _:
                raise AssertionError(f"no expression of the grammar is called {other}")

    def check_annotations(self, program: Program) -> None:
        """An annotation on an access repeats what the declaration says; one that contradicts it is an error."""
        declared = storage(program)
        default = (program.outputs[0].dtype, "g")
        for at, tensor, dtype, scope in self.annotations:
            dtype_declared, scope_declared = declared.get(tensor, default)
            if (dtype, scope) != (dtype_declared, scope_declared):
                reason = f"{tensor} is {dtype_declared},{scope_declared} here, not {dtype},{scope}"
                if tensor not in declared:
                    reason += f": undeclared tensors are; declare it first with {tensor}^{{{dtype},{scope}}}_{{...}};"
                raise self.error(reason, at)


def _trees(tree: Tree[Token]) -> Iterator[Tree[Token]]:
    return (child for child in tree.children if isinstance(child, Tree))


def _tokens(tree: Tree[Token]) -> Iterator[Token]:
    return (child for child in tree.children if isinstance(child, Token))


def _meta(node: Tree[Token] | Token) -> tuple[int, int, int, int]:
    if isinstance(node, Token):
        return node.line or 1, node.column or 1, node.end_line or 1, node.end_column or 1
    return node.meta.line, node.meta.column, node.meta.end_line, node.meta.end_column
