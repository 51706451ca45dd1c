"""Which strategies there are, found without importing one: a list of them shall come at once.

A strategy of this repository is a module `strategies/<level>/<name>.py`; what a list says of it stands in its text, as
the docstring and as class variables. Those of other packages are entry points of the group `steptp.strategies`. Their
names have two words or more: such a name is no word of a sentence, and no loop's.
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path as FilePath
from typing import Any, Literal, get_args

from strategies.packages import by_name

Level = Literal["graph", "operator", "memory", "math"]
BitExact = Literal["always", "never", "depends"]
LEVELS: tuple[Level, ...] = get_args(Level)
ENTRY_POINTS = "steptp.strategies"
WORDS = "[a-z]+(?:_[a-z]+)*"  # the form of the names of strategies and of their arguments, by which text is read
NAME = re.compile("[a-z]+(?:_[a-z]+)+")  # of a strategy that is added
_WORD = re.compile(rf"(?<![A-Za-z0-9_]){WORDS}(?![A-Za-z0-9_])")
_DECLARED = 'bit_exact: ClassVar[BitExact] = "'


@dataclass(frozen=True, slots=True)
class Entry:
    """What a list says of a strategy. Level and bit-exactness are those of its class."""

    name: str
    level: str
    bit_exact: str
    summary: str


@cache
def names() -> tuple[str, ...]:
    """Every strategy's name: level by level, in alphabetical order, then those of other packages.

    Raises PackageError.
    """
    return (*_own(), *outside())


def level_of(name: str) -> Level | None:
    """The level of a strategy of this repository; None for the name of any other."""
    return next((level for level in LEVELS if name in modules(level)), None)


def entries() -> tuple[Entry, ...]:
    """An entry for each name, in the order of `names`. Only strategies of other packages are imported.

    Raises PackageError where one of these cannot be used.
    """
    result: list[Entry] = []
    for name in names():
        if level := level_of(name):
            result.append(_read(FilePath(__file__).parent / level / f"{name}.py", name, level))
        else:
            kind = _class_of(name)
            result.append(Entry(name, kind.level, kind.bit_exact, kind.summary()))
    return tuple(result)


def first_sentence(page: str) -> str:
    """The first sentence of a docstring in one line, without its full stop."""
    return " ".join(re.split(r"\.(?:\s|$)", page.strip(), maxsplit=1)[0].split())


@cache
def inverses(name: str) -> tuple[str, ...]:
    """The strategies that a strategy's page names as its inverses. Only those of other packages are imported."""
    level = level_of(name)
    if level is None:
        page: str = _class_of(name).page()
    else:
        page = (FilePath(__file__).parent / level / f"{name}.py").read_text(encoding="utf-8").split('"""')[1]
    return named_in(page.partition("Inverse:")[2])


def named_in(text: str) -> tuple[str, ...]:
    """The strategies that a text names, each once, in its order."""
    return tuple(word for word in dict.fromkeys(_WORD.findall(text)) if word in names())


def without_names(text: str) -> str:
    """The text with a space for each name of a strategy in it."""
    return _WORD.sub(lambda found: " " if found[0] in names() else found[0], text)


@cache
def modules(level: Level) -> tuple[str, ...]:
    """The names of this repository's strategies of a level, sorted."""
    folder = FilePath(__file__).parent / level
    return tuple(sorted(file.stem for file in folder.glob("*.py") if file.stem != "__init__"))


@cache
def outside() -> dict[str, EntryPoint]:
    """The entry points of other packages, by name, sorted. Raises PackageError."""
    return by_name(entry_points(group=ENTRY_POINTS), "strategy", NAME, _own())


def _class_of(name: str) -> Any:
    from strategies.catalog import strategy  # which imports this module

    return strategy(name)


def _own() -> tuple[str, ...]:
    return tuple(name for level in LEVELS for name in modules(level))


def _read(file: FilePath, name: str, level: Level) -> Entry:
    """The entry of a module from its text, which is much quicker than parsing it; tests hold it to the class."""
    text = file.read_text(encoding="utf-8")
    page, declared = text.split('"""')[1], text.partition(_DECLARED)[2]
    if not declared:
        raise TypeError(f"{file} has no line with {_DECLARED}")
    return Entry(name, level, declared.split('"')[0], first_sentence(page))
