"""How much the reasoning of many rows differs, once names and numbers are masked."""

import re
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import Any

NEAR = 0.9  # of two texts' masked sentences, the share in common from which they are near-duplicates
COMPARED = 300  # texts of a strategy that are compared pair by pair: the first ones

_MASKED = re.compile(r"`[^`]*`|[a-z_]+\((?:[^()]|\([^()]*\))*\)|\S*[\d_^{}%/*]\S*|\b[A-Za-z]\d*\b")
_SENTENCE = re.compile(r"(?<=[.?]) ")


def masked(reasoning: str) -> str:
    """The text with calls, programs, names and numbers replaced by one mark, and lists of marks by one."""
    return re.sub(r"#(?:(?:,| and| or)? #)+", "#", _MASKED.sub("#", " ".join(reasoning.split())))


def variety(texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Of (strategy, reasoning): the masked texts and sentences that differ, and the share of near-duplicates.

    A near-duplicate has an earlier text of its strategy with at least `NEAR` of their masked sentences in common (over
    the union); among the first `COMPARED` of each strategy.
    """
    forms = [(strategy, masked(text)) for strategy, text in texts]
    by_strategy: dict[str, list[frozenset[str]]] = defaultdict(list)
    for strategy, form in forms:
        if len(by_strategy[strategy]) < COMPARED:
            by_strategy[strategy].append(frozenset(_SENTENCE.split(form)))
    near = {
        (strategy, later)
        for strategy, found in by_strategy.items()
        for (_, first), (later, second) in combinations(enumerate(found), 2)
        if len(first & second) >= NEAR * len(first | second)
    }
    compared = sum(map(len, by_strategy.values()))
    return {
        "texts": len(forms),
        "distinct_masked": len({form for _, form in forms}),
        "distinct_masked_sentences": len({sentence for _, form in forms for sentence in _SENTENCE.split(form)}),
        "compared": compared,
        "near_duplicates": len(near),
        "near_duplicate_rate": round(len(near) / compared, 4) if compared else 0.0,
    }
