"""Long expressions as a sentence can carry them: what stands in parentheses is left out, marked by an ellipsis."""

import re
from collections import Counter
from collections.abc import Iterator

SHOWN = 80  # characters of an expression that a sentence still carries
SHORTER = 56  # where the text is too long otherwise
_KEPT = 12  # characters in parentheses that are never worth an ellipsis
_LONG = re.compile(rf"\S{{{SHORTER + 1},}}")  # LEIR has no spaces in an expression


def shortened(text: str, most: int = SHOWN) -> str:
    """The text with every expression of more than `most` characters shortened as little as that needs."""
    return _LONG.sub(lambda found: _expression(found[0], most), text)


def shortened_apart(texts: dict[str, str], shown: int = SHOWN) -> dict[str, str]:
    """The texts shortened; those that would look the same, though they differ, are given more room."""
    result: dict[str, str] = {}
    for most in (shown, 2 * shown, 4 * shown):
        short = {name: shortened(text, most) for name, text in texts.items()}
        meant: dict[str, set[str]] = {}
        for name, text in short.items():
            meant.setdefault(text, set()).add(texts[name])
        result = {name: text for name, text in short.items() if len(meant[text]) == 1} | result
    return {name: result[name] if name in result else shortened(text, shown) for name, text in texts.items()}


def _expression(text: str, most: int) -> str:
    """What stands in parentheses more than once gives way first, by what that saves; then the longest innermost."""
    while len(text) > most:
        groups = Counter(_in_parentheses(text))
        found = [content for content in groups if len(content) > _KEPT]
        again = [content for content in found if groups[content] > 1]
        inner = [content for content in found if not any(f"({other})" in content for other in found)]
        if not found:
            return text
        saved = {content: len(content) * groups[content] for content in found}
        text = text.replace(f"({max(again or inner, key=lambda content: saved[content])})", "(…)")
    return text


def _in_parentheses(text: str) -> Iterator[str]:
    """The content of every pair of parentheses, as often as it stands there."""
    begun: list[int] = []
    for place, character in enumerate(text):
        if character == "(":
            begun.append(place + 1)
        elif character == ")" and begun:
            yield text[begun.pop() : place]
