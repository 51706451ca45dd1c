"""What a run shares with a benchmark: programs that are the same text, the same program, or the same in structure.

Three findings, the strongest that holds of a file and a source:

- "text": the file is the source, byte for byte.
- "program": the same Python but for names, comments and sizes (`stepTP.given.normal`).
- "structure": the file's translation has the structure of the source's, or of a state that was made from it
  (`stepTP.structure`): equal up to names and shapes.

A file that does not translate is compared by its text alone, and is listed with the cause. Sizes do not matter to a
structure, so files are made small before they are translated; that too runs them, in workers.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from leir.parser import parse
from stepTP.config import Folder
from stepTP.given.files import GivenProgram, given_programs
from stepTP.given.normal import normal_form
from stepTP.records import ProgramRow, Split, StepRow
from stepTP.structure import structure
from stepTP.verify.pool import Failure, Pool

STRUCTURES = "stepTP.decontaminate.structures"
TRANSLATE = "stepTP.intake.translate"
FIT = 20_000  # iterations that a file is made small for
BATCH = 64  # programs of one job

_Lines = Callable[[int, int], None]


class Overlap(BaseModel):
    """A file of the benchmark and a source of the run that are the same, and in which state. `state_id`: None: its
    program, as it was given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str
    how: str  # "text", "program" or "structure"
    source_id: str
    split: Split
    state_id: str | None


class Contamination(BaseModel):
    """The report on a run and a benchmark. `untranslated`: files by cause, compared by their text alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    against: str
    files: int
    sources: int
    states: int
    overlaps: tuple[Overlap, ...]
    untranslated: dict[str, tuple[str, ...]]

    @property
    def found(self) -> dict[str, int]:
        """How many files have an overlap, by the strongest of it."""
        strongest: dict[str, str] = {}
        for overlap in self.overlaps:
            strongest.setdefault(overlap.file, overlap.how)
        counts = {how: sum(h == how for h in strongest.values()) for how in HOW}
        return {**counts, "none": self.files - len(strongest)}


HOW = ("text", "program", "structure")


@dataclass(frozen=True, slots=True)
class _Known:
    """Where something of the run stands."""

    source_id: str
    split: Split
    state_id: str | None = None


def structures(payload: dict[str, Any]) -> list[str]:
    """The pool task: the structure of each program of `programs`."""
    return [structure(parse(text)) for text in payload["programs"]]


def contamination(
    programs: Sequence[ProgramRow],
    steps: Iterable[StepRow],
    folder: Path,
    workers: int | None = None,
    progress: _Lines | None = None,
) -> Contamination:
    """Compares every file of a folder with every program and state of a run. Raises ConfigError for no such folder."""
    hear = progress or (lambda _done, _of: None)
    files = _files(folder)
    known = _by_text(programs)
    states = _states(steps)
    with Pool(workers, timeout_s=300, tasks=(TRANSLATE, STRUCTURES)) as pool:
        asked = [pool.submit(TRANSLATE, {"code": f.torch_code, "file": f.file, "fit": FIT}) for f in files]
        batches = [states[n : n + BATCH] for n in range(0, len(states), BATCH)]
        made = [pool.submit(STRUCTURES, {"programs": [text for text, _ in batch]}) for batch in batches]
        translated: list[dict[str, Any]] = []
        for number, future in enumerate(asked, 1):
            translated.append(_outcome(future.result()))
            hear(number, len(asked) + len(made))
        by_structure: dict[str, dict[str, _Known]] = defaultdict(dict)
        for program in programs:
            by_structure[program.structure][program.id] = _Known(program.id, program.split)
        for number, (batch, future) in enumerate(zip(batches, made, strict=True), 1):
            answer = future.result()
            if isinstance(answer, Failure):
                raise RuntimeError(f"structures of states: {answer.message}")
            for (_, at), structure in zip(batch, answer, strict=True):
                by_structure[structure].setdefault(at.source_id, at)
            hear(len(asked) + number, len(asked) + len(made))
    overlaps: list[Overlap] = []
    untranslated: dict[str, list[str]] = defaultdict(list)
    for file, outcome in zip(files, translated, strict=True):
        found: dict[str, tuple[str, _Known]] = {}
        for how, place in _found(file, outcome, known, by_structure):
            found.setdefault(place.source_id, (how, place))
        overlaps += [
            Overlap(file=file.file, how=how, source_id=at.source_id, split=at.split, state_id=at.state_id)
            for how, at in sorted(found.values(), key=lambda f: (HOW.index(f[0]), f[1].source_id))
        ]
        if outcome["structure"] is None:
            untranslated[outcome["cause"]].append(file.file)
    return Contamination(
        against=folder.resolve().name,
        files=len(files),
        sources=len(programs),
        states=len(states),
        overlaps=tuple(overlaps),
        untranslated={cause: tuple(names) for cause, names in sorted(untranslated.items())},
    )


def _files(folder: Path) -> list[GivenProgram]:
    """The files of the benchmark; those that are no Python have a problem."""
    given = given_programs([Folder(path=str(folder), license="unknown")], [])
    return [program for program in given if isinstance(program, GivenProgram)]


def _by_text(programs: Sequence[ProgramRow]) -> dict[tuple[str, str], list[_Known]]:
    known: dict[tuple[str, str], list[_Known]] = defaultdict(list)
    for program in programs:
        at = _Known(program.id, program.split)
        known["text", program.source.torch_sha].append(at)
        known["program", normal_form(program.source.torch_code)].append(at)
    return known


def _states(steps: Iterable[StepRow]) -> list[tuple[str, _Known]]:
    """Every state that steps lead to, once for each source, with its text."""
    found: dict[tuple[str, str], tuple[str, _Known]] = {}
    for row in steps:
        at = _Known(row.source.id, row.split, row.state_id_after)
        found.setdefault((row.source.id, row.state_id_after), (row.leir_after, at))
    return list(found.values())


def _outcome(answer: Any) -> dict[str, Any]:
    """The structure of a translation, or the cause of there being none."""
    if isinstance(answer, Failure):
        return {"structure": None, "cause": answer.error or answer.kind}
    return {"structure": answer["structure"], "cause": answer["cause"] or "mismatch"}


def _found(
    file: GivenProgram,
    outcome: dict[str, Any],
    known: dict[tuple[str, str], list[_Known]],
    by_structure: dict[str, dict[str, _Known]],
) -> Iterator[tuple[str, _Known]]:
    """What a file shares, the strongest first."""
    if file.torch_code:
        text = hashlib.sha256(file.torch_code.encode()).hexdigest()
        yield from (("text", at) for at in known.get(("text", text), ()))
        if file.problem is None or file.problem.cause == "double":
            yield from (("program", at) for at in known.get(("program", normal_form(file.torch_code)), ()))
    if outcome["structure"] is not None:
        yield from (("structure", at) for at in by_structure.get(outcome["structure"], {}).values())
