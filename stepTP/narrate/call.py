"""A step as reasoning writes it, `loop_split(path=(0,1), factor=8)`, and back.

Paths and other lists stand in parentheses, text in double quotes, and the words true, false and none as they are.
"""

import json
import re
from typing import Any

from stepTP.records import Step
from strategies.index import WORDS

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?\d+\.\d+(?:e[+-]?\d+)?|-?\d+|' + WORDS + r"|[(),=])")
_WORDS = {"true": True, "false": False, "none": None}


class NotACall(ValueError):
    """The text is not a step in this form."""


def call_text(step: Step) -> str:
    """The step as a call, its arguments by name."""
    return f"{step.strategy}({', '.join(f'{name}={_value_text(value)}' for name, value in step.args.items())})"


def parse_call(text: str) -> Step:
    """The step that `call_text` wrote. Raises NotACall."""
    tokens = _tokens(text)
    name = tokens.pop(0) if tokens else ""
    if not name.isidentifier() or not tokens or tokens.pop(0) != "(":
        raise NotACall(f"no call: {text}")
    args: dict[str, Any] = {}
    while tokens and tokens[0] != ")":
        if args and tokens.pop(0) != ",":
            raise NotACall(f"a comma is missing: {text}")
        if len(tokens) < 3 or tokens[1] != "=":
            raise NotACall(f"arguments are NAME=VALUE: {text}")
        key = tokens.pop(0)
        tokens.pop(0)
        args[key] = _value(tokens, text)
    if tokens != [")"]:
        raise NotACall(f"the call does not end in one parenthesis: {text}")
    return Step(strategy=name, args=args)


def _value_text(value: Any) -> str:
    match value:
        case list() | tuple():
            return f"({','.join(_value_text(part) for part in value)})"
        case dict():
            raise NotACall(f"an argument that holds names has no form in reasoning: {value}")
        case None:
            return "none"
        case _:
            return json.dumps(value)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        found = _TOKEN.match(text, place)
        if found is None:
            raise NotACall(f"cannot be read from column {place + 1}: {text}")
        tokens.append(found[1])
        place = found.end()
    return tokens


def _value(tokens: list[str], text: str) -> Any:
    """The value at the front of the tokens, which it takes."""
    if not tokens:
        raise NotACall(f"a value is missing: {text}")
    token = tokens.pop(0)
    if token == "(":
        parts: list[Any] = []
        while tokens and tokens[0] != ")":
            if parts and tokens.pop(0) != ",":
                raise NotACall(f"a comma is missing: {text}")
            parts.append(_value(tokens, text))
        if not tokens:
            raise NotACall(f"a parenthesis is open: {text}")
        tokens.pop(0)
        return parts
    if token in _WORDS:
        return _WORDS[token]
    if token[0] in '-0123456789"':
        return json.loads(token)
    raise NotACall(f"{token} is no value: {text}")
