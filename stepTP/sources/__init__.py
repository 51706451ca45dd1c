"""Families of PyTorch programs: each module here writes ordinary `nn.Module` files over knobs drawn by a seed.

A family is a module of this package with a `FAMILY`; others come from installed packages, through entry points of the
group `steptp.families` that name a `Family`. Programs are text in the form that public benchmarks use: a class
`Model`, `get_inputs()` and `get_init_inputs()`. Nothing here imports torch: writing a program is not running it.
"""

import hashlib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from pydantic import BaseModel, ConfigDict

from stepTP.sources.draw import Draw, Value
from stepTP.sources.normal import normal_form
from strategies.packages import PackageError, by_name, loaded, package_of

ENTRY_POINTS = "steptp.families"
NAME = re.compile("[a-z][a-z0-9]*(?:_[a-z0-9]+)*")
_SHARED = ("draw", "normal", "parts", "text")  # what families are written with
_DRY = 500  # draws in a row that give nothing new, after which a family is called too small
_SHOWN = 400  # draws from which the knobs of a family are listed: some are drawn in few programs


@dataclass(frozen=True, slots=True)
class Family:
    """`write` turns a draw into the text of one program; two draws may give the same text."""

    name: str
    summary: str
    write: Callable[[Draw], str]


class SourceProgram(BaseModel):
    """One PyTorch program as text. `id` is `<family>-<first 12 digits of the text's SHA-256>`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    family: str
    torch_code: str
    torch_sha: str
    dtype: str
    knobs: dict[str, Value]


class FamilyTooSmall(ValueError):
    """A family has fewer programs that differ in more than names and sizes than were asked for."""


def families() -> tuple[Family, ...]:
    """Every family of this package, sorted by name, then those of other packages.

    Raises PackageError where one of these cannot be used.
    """
    own = (importlib.import_module(f"{__name__}.{name}").FAMILY for name in _modules())
    return (*own, *(_loaded(point) for point in outside().values()))


@cache
def outside() -> dict[str, EntryPoint]:
    """The entry points of other packages, by name, sorted. Raises PackageError."""
    return by_name(entry_points(group=ENTRY_POINTS), "family", NAME, _modules())


def generate(family_names: Sequence[str], seed: int, per_family: int) -> list[SourceProgram]:
    """`per_family` programs of each family, no two equal up to names and sizes, in order of family name and draw.

    Raises KeyError for an unknown family and FamilyTooSmall where distinct programs run out.
    """
    if per_family < 1:
        raise ValueError(f"at least one program a family, not {per_family}")
    known = {family.name: family for family in families()}
    unknown = sorted(set(family_names) - set(known))
    if unknown:
        raise KeyError(f"no family {', '.join(unknown)}; there are {', '.join(known)}")
    return [program for name in sorted(set(family_names)) for program in _distinct(known[name], seed, per_family)]


def draws(family_name: str, seed: int, count: int) -> Iterator[SourceProgram]:
    """The first `count` draws of a family; two may be the same program. Raises KeyError for an unknown family."""
    family = next((family for family in families() if family.name == family_name), None)
    if family is None:
        raise KeyError(f"no family {family_name}")
    return (_drawn(family, seed, index) for index in range(count))


def knobs(family: Family) -> dict[str, tuple[Value, ...]]:
    """The knobs that a family draws, each with all its options, in the order in which they first appear."""
    found: dict[str, dict[Value, None]] = {}
    for index in range(_SHOWN):
        draw = Draw(0, family.name, index)
        family.write(draw)
        for knob, options in draw.options.items():
            found.setdefault(knob, {}).update(dict.fromkeys(options))
    return {knob: tuple(options) for knob, options in found.items()}


def _modules() -> list[str]:
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in _SHARED)


def _loaded(point: EntryPoint) -> Family:
    value = loaded(point, "family")
    if not isinstance(value, Family) or value.name != point.name:
        raise PackageError(f"{package_of(point)}: {point.value} must be a Family with name = {point.name!r}")
    return value


def _distinct(family: Family, seed: int, wanted: int) -> list[SourceProgram]:
    programs: dict[str, SourceProgram] = {}
    index = newest = 0
    while len(programs) < wanted and index - newest < _DRY:
        program = _drawn(family, seed, index)
        form = normal_form(program.torch_code)
        index += 1
        if form not in programs:
            programs[form], newest = program, index
    if len(programs) < wanted:
        raise FamilyTooSmall(
            f"{family.name} gave {len(programs)} programs that differ in more than names and sizes; "
            f"{wanted} were asked for"
        )
    return list(programs.values())


def _drawn(family: Family, seed: int, index: int) -> SourceProgram:
    draw = Draw(seed, family.name, index)
    text = _without_unused_import(family.write(draw))
    sha = hashlib.sha256(text.encode()).hexdigest()
    return SourceProgram(
        id=f"{family.name}-{sha[:12]}",
        family=family.name,
        torch_code=text,
        torch_sha=sha,
        dtype=str(draw.knobs.get("dtype", "f32")),
        knobs=dict(draw.knobs),
    )


def _without_unused_import(text: str) -> str:
    """Templates share their header; a program that calls nothing of `F` does not import it."""
    header = "import torch.nn.functional as F\n"
    return text if re.search(r"(?<!\w)F\.", text) else text.replace(header, "")
