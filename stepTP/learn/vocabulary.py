"""A small vocabulary for programs and steps: whole lexemes that training data has, bytes for all else.

Names and numbers are one token each, so that a name can be exchanged for another and copied at once. The strategies,
their arguments and the lines of the state before have tokens of their own (`stepTP.learn.examples` says how an answer
is written with them). No merges are learnt: a regular expression cuts text, and nothing has to be downloaded.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from leir.names import tensor_sequence, variable_sequence
from stepTP.records import Step

# English words take the space before them; the names of a program never do. Two letters may be two: `L^4_iU^8_j`.
_LEXEME = re.compile(
    r"log1p| ?[a-z]{2,}(?![A-Za-z0-9])|\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+"
    r"|[A-Za-z]{3,}\d*|[a-z]{2}\d+|[A-Za-z]\d*|[^A-Za-z0-9\s]+| +|\s|.",
    re.DOTALL,
)
FRAME = ("<pad>", "<begin>", "<answer>", "<think>", "<leir>", "<end>")
PAD, BEGIN, ANSWER, THINK, LEIR, END = range(len(FRAME))
LINES = 64  # lines of a state that have a token
LEAST = 3  # times that a lexeme stands in different lines to get a token
MOST = 6000  # lexemes
_TENSORS, _LOOPS = 42, 26  # names that may be exchanged; a loop of two letters would need braces in `D_i`
_DTYPES = ("f16", "bf16", "f32", "f64", "i8", "i32", "i64", "bool")


def lexemes(text: str) -> list[str]:
    """The text cut in lexemes: joined they are the text."""
    return _LEXEME.findall(text)


class Vocabulary:
    """Tokens by number: the frame of an answer, lines, bytes, strategies, arguments, lexemes."""

    def __init__(self, arguments: Mapping[str, Sequence[str]], words: Sequence[str]) -> None:
        self.arguments = {name: tuple(arguments[name]) for name in sorted(arguments)}
        keys = sorted({key for names in self.arguments.values() for key in names})
        self.words = tuple(words)
        self.first_line = len(FRAME)
        self.first_byte = self.first_line + LINES
        self.strategy_ids = {name: self.first_byte + 256 + n for n, name in enumerate(self.arguments)}
        self.key_ids = {key: self.first_byte + 256 + len(self.strategy_ids) + n for n, key in enumerate(keys)}
        self.first_word = self.first_byte + 256 + len(self.strategy_ids) + len(self.key_ids)
        self.word_ids = {word: self.first_word + n for n, word in enumerate(self.words)}
        self.size = self.first_word + len(self.words)
        self._known_lines: dict[str, tuple[int, ...]] = {}

    @classmethod
    def of(cls, texts: Iterable[str], steps: Iterable[Step]) -> "Vocabulary":
        """The vocabulary of training data, by its distinct lines; the same for the same data in any order."""
        counts: Counter[str] = Counter(("\n",) * LEAST)
        for line in dict.fromkeys(line for text in texts for line in text.split("\n")):
            counts.update(lexemes(line))
        known: dict[str, tuple[str, ...]] = {}
        for step in steps:
            keys = tuple(step.args)
            if known.setdefault(step.strategy, keys) != keys:
                raise ValueError(
                    f"{step.strategy} has arguments {keys} in one row and {known[step.strategy]} in another"
                )
        frequent = sorted((w for w, n in counts.items() if n >= LEAST), key=lambda w: (-counts[w], w))[:MOST]
        names = [*islice(tensor_sequence(), _TENSORS), *islice(variable_sequence(), _LOOPS)]
        return cls(known, list(dict.fromkeys([*names, *frequent])))

    def encode(self, text: str) -> list[int]:
        """The tokens of a text."""
        ids: list[int] = []
        for lexeme in lexemes(text):
            if (found := self.word_ids.get(lexeme)) is not None:
                ids.append(found)
            else:
                ids += (self.first_byte + byte for byte in lexeme.encode("utf-8", "surrogatepass"))
        return ids

    def encode_line(self, line: str) -> tuple[int, ...]:
        """The tokens of a line and its break: programs of a run share most of their lines."""
        if (found := self._known_lines.get(line)) is None:
            found = self._known_lines[line] = tuple(self.encode(line + "\n"))
        return found

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens; those that are no text are left out."""
        data = bytearray()
        for token in ids:
            if token >= self.first_word:
                data += self.words[token - self.first_word].encode("utf-8", "surrogatepass")
            elif self.first_byte <= token < self.first_byte + 256:
                data.append(token - self.first_byte)
        return data.decode("utf-8", "replace")

    def is_text(self, token: int) -> bool:
        """Whether a token stands for text."""
        return token >= self.first_word or self.first_byte <= token < self.first_byte + 256

    @cached_property
    def tensor_pool(self) -> np.ndarray[Any, Any]:
        """The tokens of tensor names that may be exchanged, in the order in which new ones are taken."""
        return np.array([self.word_ids[name] for name in islice(tensor_sequence(), _TENSORS)])

    @cached_property
    def loop_pool(self) -> np.ndarray[Any, Any]:
        """The same of loop variables."""
        return np.array([self.word_ids[name] for name in islice(variable_sequence(), _LOOPS)])

    @cached_property
    def _quotes(self) -> np.ndarray[Any, Any]:
        """Which tokens end in a quotation mark: what follows is a word, and no loop variable."""
        return np.array([False] * self.first_word + [word.endswith('"') for word in self.words])

    def names_in(self, ids: np.ndarray[Any, Any], loops: bool = True) -> np.ndarray[Any, Any]:
        """Where tokens are names that may be exchanged: tensors and, if wanted, loop variables."""
        found = np.isin(ids, self.tensor_pool)
        if loops:
            variable = np.isin(ids, self.loop_pool)
            before = np.roll(ids, 1)
            variable &= ~self._quotes[before]
            dtypes = [self.word_ids[name] for name in _DTYPES if name in self.word_ids]
            comma = self.word_ids.get(",", -1)
            variable &= ~((before == comma) & np.isin(np.roll(ids, 2), dtypes))  # a scope, as in ^{f32,l}
            found |= variable
        return found

    def to_json(self) -> dict[str, Any]:
        return {"arguments": {name: list(keys) for name, keys in self.arguments.items()}, "words": list(self.words)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Vocabulary":
        return cls(data["arguments"], data["words"])
