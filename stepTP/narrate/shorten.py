"""Long expressions as a sentence can carry them: what stands deep in parentheses is left out, marked by an ellipsis."""

import re

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
    if len(text) <= most:
        return text
    deepest = max(text[:end].count("(") - text[:end].count(")") for end in range(len(text) + 1))
    levels = (_down_to(text, level) for level in range(deepest - 1, -1, -1))
    return next((found for found in levels if len(found) <= most), _down_to(text, 0))


def _down_to(text: str, level: int) -> str:
    """The text without what stands in more than `level` parentheses, short contents aside."""
    result: list[str] = []
    depth = begun = 0
    for place, character in enumerate(text):
        if character == "(":
            depth += 1
            if depth == level + 1:
                begun = place + 1
                result.append(character)
                continue
        if character == ")":
            if depth == level + 1:
                inside = text[begun:place]
                result.append(inside if len(inside) <= _KEPT else "…")
            depth -= 1
        if depth <= level:
            result.append(character)
    return "".join(result)
