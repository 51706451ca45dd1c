"""A reasoning from its sections: one form of each, chosen by the record's hash, within a length."""

import re
from functools import lru_cache

from stepTP.draw import digest
from stepTP.narrate.context import Context
from stepTP.narrate.decision import choice, legality
from stepTP.narrate.outcome import change, effect
from stepTP.narrate.part import Form, Part, capitals
from stepTP.narrate.situation import bottleneck, state

LENGTH = 340  # tokens, about: by the tokenizer the longest texts are a little longer
_SECTIONS = (state, bottleneck, choice, legality, change, effect)
_PIECE = re.compile(r"[A-Za-z]+|\d|[^\sA-Za-z\d]+")


def compose(context: Context, *, at_last: bool = False) -> str:
    """The reasoning of a step: a paragraph for what is and why, one for why it may be, one for what comes of it.

    `at_last`: whether a text that is too long without what can be spared may lose more.
    """
    chosen = [_form(context, section.__name__, section(context)) for section in _SECTIONS]
    sections = _shortened(chosen)
    if at_last:
        sections = _at_last(sections)
    paragraphs = (sections[:3], sections[3:4], sections[4:])
    texts = (" ".join(part.text for section in paragraph for part in section if part.text) for paragraph in paragraphs)
    return "\n\n".join(capitals(" ".join(text.split())) for text in texts if text)


@lru_cache(maxsize=1024)  # a part is measured each time that another gives way
def length(text: str) -> int:
    """About how many tokens a text is in Qwen's vocabulary, without it: the same wherever a build runs."""
    return sum(1 + (len(piece) - 1) // 7 if piece[0].isalpha() else 1 for piece in _PIECE.findall(text)) + text.count(
        "…"
    )


def _form(context: Context, section: str, forms: tuple[Form, ...]) -> list[Part]:
    return list(forms[int.from_bytes(digest(context.key, "form", section)[:4], "big") % len(forms)])


def _shortened(sections: list[list[Part]]) -> list[list[Part]]:
    """The sections within the length: what is spared most easily gives way first, and comes back if there is room."""
    kept = [list(section) for section in sections]
    gone: list[tuple[int, int, Part]] = []
    while _total(kept) > LENGTH:
        spare, _, section, number = max(
            (part.spare, len(part.text), s, n)
            for s, section in enumerate(kept)
            for n, part in enumerate(section)
            if part.text
        )
        if not spare:
            break
        part = kept[section][number]
        gone.append((section, number, part))
        kept[section][number] = Part(part.brief, last=part.last)
    for section, number, part in reversed(gone):
        brief = kept[section][number]
        kept[section][number] = part
        if _total(kept) > LENGTH:
            kept[section][number] = brief
    return kept


def _at_last(sections: list[list[Part]]) -> list[list[Part]]:
    """The sections with what is said at last for one part after the other, the longest first, until they fit."""
    kept = [list(section) for section in sections]
    while _total(kept) > LENGTH:
        found = [
            (len(p.text), s, n) for s, section in enumerate(kept) for n, p in enumerate(section) if p.last is not None
        ]
        if not found:
            break
        _, section, number = max(found)
        kept[section][number] = Part(kept[section][number].last or "")
    return kept


def _total(sections: list[list[Part]]) -> int:
    return sum(length(part.text) for section in sections for part in section)
