"""What a section of a reasoning is made of: forms, each a list of parts that can be cut without breaking a sentence."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.draw import digest
from stepTP.narrate.context import Context
from strategies.base import counted, listed

_FIRST = re.compile(  # the word that a sentence begins with; the name of a loop or a strategy is none
    r"(?:^|(?<=[.?] ))(?:[a-z]{3,}|a|an|no|as|so|at|in|of|on|to|if|is|it)(?= )"
)


@dataclass(frozen=True, slots=True)
class Part:
    """A sentence or two. `spare`: 0 where the text cannot do without; the largest goes first. `brief`: what is said
    instead of a part that goes. `last`: what is said where even that is too long; None: the same."""

    text: str
    spare: int = 0
    brief: str = ""
    last: str | None = None


Form = tuple[Part, ...]


def pick(context: Context, what: str, forms: Sequence[str]) -> str:
    """One of the forms, by the record's hash."""
    return forms[digest(context.key, what)[0] % len(forms)] if forms else ""


def capitals(text: str) -> str:
    """The text with a capital where a sentence begins with a word; the name of a loop keeps its case."""
    return _FIRST.sub(lambda found: found[0].capitalize(), text)


def names_text(tensors: Sequence[str]) -> str:
    """Up to five names; of more, four and how many others there are."""
    shown = list(tensors[:4])
    return listed(tensors if len(tensors) <= 5 else [*shown, counted(len(tensors) - 4, "more tensor")])
