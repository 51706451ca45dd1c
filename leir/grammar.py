"""Text to Lark's tree by `grammar.lark` (LALR, contextual lexer), and its errors in our words."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import cast

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken


class ParseError(Exception):
    """The text is not LEIR: `file`, `line` and `column` (from 1), what was `found`, and what was `expected` there."""

    def __init__(
        self, reason: str, text: str, file: str, line: int, column: int, found: str = "", expected: Iterable[str] = ()
    ) -> None:
        self.reason = reason
        self.file = file
        self.line = line
        self.column = column
        self.found = found
        self.expected = tuple(expected)
        self.snippet = snippet(text, line, column)
        super().__init__(f"{file}:{line}:{column}: {reason}")


def snippet(text: str, line: int, column: int, width: int | None = None) -> str:
    """The line of a text, and a caret below the column; `width`: at most so many characters of it around the column."""
    shown = _line(text, line)
    start = max(0, column - 1 - width // 2) if width and len(shown) > width else 0
    part = shown[start:] if width is None else shown[start : start + width]
    indent = "".join("\t" if character == "\t" else " " for character in part[: column - 1 - start])
    return f"{part}\n{indent}^"


@cache
def _lark(positions: bool = True) -> Lark:
    grammar = (Path(__file__).parent / "grammar.lark").read_text(encoding="utf-8")
    return Lark(
        grammar, parser="lalr", lexer="contextual", start=["program", "signature", "statements", "expression"],
        propagate_positions=positions, maybe_placeholders=True,
    )  # fmt: skip


_NAMES = {
    "TENSOR": "a tensor name (upper-case first)", "VAR": "a loop variable", "KIND": "a loop (L, P, V, U or B)",
    "INT": "an integer", "FLOAT": "a number", "INF": "'inf'", "FUNCTION": "a function", "DTYPE": "a dtype",
    "SCOPE": "a scope (g, s or l)", "ONE_LETTER": "one lower-case letter", "ONE_DIGIT": "one digit",
    "$END": "the end of the text",
}  # fmt: skip


def _expected(names: Iterable[str]) -> tuple[str, ...]:
    literals = {terminal.name: terminal.pattern.value for terminal in _lark().terminals}
    shown = (_NAMES.get(name) or f"'{literals.get(name, name)}'" for name in sorted(set(names)))
    return tuple(dict.fromkeys(shown))


def read_tree(text: str, file: str, start: str, *, positions: bool = True) -> Tree[Token]:
    """Lark's tree of a text by the grammar's rule `start`; only tokens know their place without `positions`.

    Raises ParseError.
    """
    try:
        return _lark(positions).parse(text, start=start)  # pyright: ignore[reportUnknownMemberType] (Lark types it partly)
    except UnexpectedInput as error:
        raise _parse_error(error, text, file) from None


def _parse_error(error: UnexpectedInput, text: str, file: str) -> ParseError:
    line, column = error.line, error.column
    match error:
        case UnexpectedEOF():
            ended, names = True, error.expected
        case UnexpectedToken():
            token = cast("Token", error.token)  # pyright: ignore[reportUnknownMemberType] (Lark leaves it untyped)
            ended, names = token.type == "$END", error.accepts or error.expected
        case UnexpectedCharacters():
            ended, names = False, error.allowed or ()
        case _:
            raise AssertionError(f"an error that Lark does not document: {error!r}") from error
    expected = _expected(cast("Iterable[str]", names))
    if ended:
        line = text.rstrip().count("\n") + 1
        column, found = len(_line(text, line)) + 1, "the end of the text"
    else:
        word = _word(text, line, column)
        found = f"'{word}'" if word.isprintable() else f"the character U+{ord(word):04X}"
        if "ONE_LETTER" in names or "ONE_DIGIT" in names:
            reason = f"found {found} without braces: only one lower-case letter or digit goes without, write {{{word}}}"
            return ParseError(reason, text, file, line, column, found, expected)
    choices = ", ".join(expected[:-1]) + " or " + expected[-1] if len(expected) > 1 else "".join(expected)
    return ParseError(f"found {found}, expected {choices}", text, file, line, column, found, expected)


def _line(text: str, line: int) -> str:
    """A line of the text without its end; lines end at line feeds alone, as Lark counts them."""
    return text.split("\n")[line - 1].removesuffix("\r")


def _word(text: str, line: int, column: int) -> str:
    """The word, operator or character at a place that is not the end of the text."""
    rest = text.split("\n")[line - 1][column - 1 :]
    match = re.match(r"[^\W_]+|[<>=!+*]=|//|\*\*|&&|\|\||.", rest)
    return match[0] if match else rest[:1]
