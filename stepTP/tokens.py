"""Tokens of a text in Qwen's vocabulary, which the package `dashscope` ships as a file. No network, no model.

Optional: the extra `tokens` installs what is needed.
"""

import base64
import importlib.util
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

# The pattern by which Qwen's tokenizer cuts text before it merges bytes (dashscope.tokenizers.qwen_tokenizer).
_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class NoVocabulary(RuntimeError):
    """Tokens cannot be counted here; the message says what to install."""


def count_tokens(text: str) -> int:
    """How many tokens a text is. Raises NoVocabulary."""
    return len(_encoding().encode_ordinary(unicodedata.normalize("NFC", text)))


def vocabulary() -> Path:
    """The file of Qwen's vocabulary. Raises NoVocabulary where it, or tiktoken, is not installed."""
    package = importlib.util.find_spec("dashscope")  # found, not imported: it would open network clients
    if package is None or package.origin is None or importlib.util.find_spec("tiktoken") is None:
        raise NoVocabulary(
            "tokens need the packages dashscope and tiktoken: pip install 'steptp[tokens]', or set `tokens: false`"
        )
    file = Path(package.origin).parent / "resources" / "qwen.tiktoken"
    if not file.is_file():
        raise NoVocabulary(f"{file} is missing: install dashscope 1.20 or newer, or set `tokens: false`")
    return file


@cache
def _encoding() -> Any:
    file = vocabulary()
    import tiktoken

    lines = (line.split() for line in file.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding("Qwen", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})
