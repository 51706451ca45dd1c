"""Whether a reasoning speaks only of what is there: every tensor, loop and number in it has a place it comes from."""

import re
from collections.abc import Iterable

from leir.names import bound_variables, tensor_names
from leir.parser import parse
from leir.syntax import DTYPES, KINDS, SCOPES
from strategies.index import WORDS, without_names

_NUMBER = re.compile(r"(?<![A-Za-z0-9_.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![A-Za-z0-9_]|\.\d)")
_TENSOR = re.compile(r"(?<![A-Za-z0-9])[A-Z]\d*(?![A-Za-z0-9])")
_LOOP = re.compile(r"(?<![A-Za-z0-9'^{])(?:[a-z]\d*|[bt][xyz](?:[a-z]\d*)?)(?![A-Za-z0-9'_-])")
_WORDS = frozenset({"a", "by", *DTYPES, *SCOPES})  # what looks like a loop


class Ungrounded(ValueError):
    """A reasoning names something that is in neither program and was not computed."""


def ungrounded(text: str, before: str, after: str, computed: Iterable[str]) -> tuple[str, ...]:
    """The names and numbers of a text that occur neither in the programs nor in what was computed, in order.

    `computed`: evidence, arguments, and counts as they are written. Line and statement numbers of the programs count
    as theirs.
    """
    programs = (parse(before), parse(after))
    sources = [before, after, *computed]
    numbers = {number for source in sources for number in _NUMBER.findall(_spaced(source))}
    numbers |= {str(n) for program in programs for n in range(len(program.body) + 2)}
    tensors = set(KINDS) | {name for program in programs for name in tensor_names(program)}
    tensors |= {name for source in computed for name in _TENSOR.findall(source)}
    loops = _WORDS | {name for program in programs for name in bound_variables(program)}
    loops |= {name for source in computed for name in _LOOP.findall(source)}
    plain = _without_names(text)
    found = [number for number in _NUMBER.findall(_spaced(plain)) if number not in numbers]
    found += [name for name in _TENSOR.findall(plain) if name not in tensors]
    found += [name for name in _LOOP.findall(plain) if name not in loops]
    return tuple(dict.fromkeys(found))


def _without_names(text: str) -> str:
    """The text without the names of strategies and of their arguments, which are words."""
    return re.sub(rf"{WORDS}=(?=[(\d\"a-z-])", " ", without_names(text))


def _spaced(text: str) -> str:
    """Numbers of LEIR set apart from the marks around them."""
    return re.sub(r"[_^]", " ", text)
