"""From the raw shards to the files that people read: twice over all rows, in order, with little of them in memory.

The first reading takes a key of each row, and the filter chooses. The second writes what is kept, makes rows of several
steps where the steps are one source's, and writes why the others are not kept.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepTP.balance import balance
from stepTP.config import Config, Filter
from stepTP.filter import Dropped, StepKey, key_of, refusal_key, select, select_refusals
from stepTP.grouping import choices, rates_of, trajectories
from stepTP.manifest import Run, RunError, Writing, intact, load_manifest
from stepTP.records import (
    CONFIGS,
    ProgramRow,
    RefusalRow,
    RejectedRow,
    Row,
    StepRow,
    TrajectoryRow,
    json_schemas,
    of_shape,
    read_rows,
    to_line,
)
from stepTP.rows import dropped_row
from strategies import catalog

OUTPUTS = (*(f"{name}.jsonl" for name in CONFIGS), "balance.json", "schema.json")
_STILL_TEACH = "strategy-cap"  # a strategy has enough rows; beside others, a step of it still says something


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the filter said. `usable`: ids of the steps that rows of several steps may be made of."""

    dropped: dict[str, Dropped]
    usable: frozenset[str]
    refusals: frozenset[str]
    rates: dict[str, float]
    table: dict[str, Any]


def second_pass(run: Run, config: Config, shards: Sequence[str], made_from: str) -> None:
    """Writes every output of a run whose raw shards are all there. Raises RunError, OSError."""
    files = [run.folder / name for name in shards]
    chosen = _choose(config, files)
    with ExitStack() as stack:
        outputs = {name: _Output(stack.enter_context(run.writing(f"{name}.jsonl"))) for name in CONFIGS}
        for file in files:
            for row in _rows(list(read_rows(file)), chosen):
                outputs[_CONFIG_OF[type(row)]].add(row)
        for output in outputs.values():
            output.finish(made_from)
    tables = {"balance.json": chosen.table, "schema.json": json_schemas()}
    for name, table in tables.items():
        text = json.dumps(table, indent=1, sort_keys=True) + "\n"
        run.write(name, [text], {"made_from": made_from, "counts": {}})


_CONFIG_OF: dict[type, str] = {shape: name for name, shape in CONFIGS.items()}


def _choose(config: Config, files: Iterable[Path]) -> Chosen:
    keys: list[StepKey] = []
    refusals: list[tuple[str, str, str, str]] = []
    for file in files:
        rows = list(read_rows(file))
        programs = {row.id: row.structure for row in rows if isinstance(row, ProgramRow)}
        keys += [key_of(row, programs[row.source.id]) for row in rows if isinstance(row, StepRow)]
        refusals += [refusal_key(row) for row in rows if isinstance(row, RefusalRow)]
    kept, dropped = select(keys, config.filter)
    gone = {drop.step.id for drop in dropped if drop.cause != _STILL_TEACH}
    negatives = select_refusals(refusals, config.filter)
    used = catalog.names() if config.walk.strategies == "all" else config.walk.strategies
    table = balance(keys, kept, dropped, config.filter, used)
    table["refusals"] = {"before": len(refusals), "after": len(negatives)}
    return Chosen(
        {drop.step.id: drop for drop in dropped},
        frozenset(key.id for key in keys if key.id not in gone),
        negatives,
        rates_of(key.strategy for key in keys),
        table,
    )


def _rows(rows: list[Row], chosen: Chosen) -> Iterator[Row]:
    """What the files get of the rows of one shard, which holds its sources whole."""
    for row in rows:
        if isinstance(row, StepRow) and row.id in chosen.dropped:
            yield dropped_row(row, chosen.dropped[row.id])
        elif isinstance(row, TrajectoryRow):
            if all(step.step in chosen.usable for step in row.steps):
                yield row
        elif not isinstance(row, RefusalRow) or row.id in chosen.refusals:
            yield row
    steps = [row for row in rows if isinstance(row, StepRow) and row.id in chosen.usable]
    yield from choices(steps, [row for row in rows if isinstance(row, RefusalRow)], chosen.rates)
    searched = {row.id for row in rows if isinstance(row, TrajectoryRow)}  # whose steps make a trajectory by themselves
    yield from (row for row in trajectories(steps, chosen.rates) if row.id not in searched)


def unfiltered(folder: Path) -> Iterator[StepRow]:
    """A finished run's steps as they were before the filter, but for doubles, and for what a stronger split has.

    Raises RunError where the raw shards are not there, as in a published folder.
    """
    files = [folder / name for name, entry in load_manifest(folder).shards.items() if intact(folder / name, entry)]
    if not files:
        raise RunError(f"{folder}: its raw shards are not there: give the folder of a build")
    rows = [row for file in files for row in read_rows(file)]
    programs = {row.id: row.structure for row in rows if isinstance(row, ProgramRow)}
    steps = [row for row in rows if isinstance(row, StepRow)]
    keys = [key_of(row, programs[row.source.id]) for row in steps]
    kept, _ = select(keys, Filter(near_duplicates=len(keys) or 1, steps_back=1.0))
    ids = frozenset(key.id for key in kept)
    yield from (row for row in steps if row.id in ids)


@dataclass(slots=True)
class _Output:
    """A file of rows, with its counts."""

    file: Writing
    counts: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        self.file.add(to_line(row))
        self.counts[_CONFIG_OF[type(row)]] += 1
        if isinstance(row, RejectedRow):
            self.rejected[f"{row.stage}: {row.cause}"] += 1
        if isinstance(row, RefusalRow):
            self.refused[f"{row.strategy}: {row.fact}"] += 1

    def finish(self, made_from: str) -> None:
        counted = ("counts", "rejected", "refused")
        tables = {name: dict(sorted(getattr(self, name).items())) for name in counted}
        self.file.finish({"made_from": made_from, **tables})


def counts_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows by config, rejected rows by stage and cause, refusals by strategy and fact, as a manifest has them."""
    counts = {name: n for name in CONFIGS if (n := sum(1 for _ in of_shape(rows, name)))}
    rejected = Counter(f"{row.stage}: {row.cause}" for row in rows if isinstance(row, RejectedRow))
    refused = Counter(f"{row.strategy}: {row.fact}" for row in rows if isinstance(row, RefusalRow))
    return {"counts": counts, "rejected": dict(sorted(rejected.items())), "refused": dict(sorted(refused.items()))}
