"""The published folder, as the hub holds it.

    README.md                        the card, with the configs and features in its header
    manifest.json                    what it was made of and with, and every file with its SHA-256
    schema.json                      the JSON schema of each row
    steps/train-00000-of-00001.parquet, ...     a folder a config, a file (or more) a split

`datasets.load_dataset(FOLDER, CONFIG)` reads it, and so do the commands that take a run (`stepTP.publish.published`).
"""

import hashlib
import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ConfigDict

from stepTP.manifest import MANIFEST, Identity, is_published, load_manifest, write_whole
from stepTP.measurements import TABLE, read_measurements
from stepTP.publish.features import columns_of, features_of
from stepTP.publish.published import PublishedFile, PublishedManifest
from stepTP.records import CONFIGS, SCHEMA_VERSION, TABLES, MeasurementRow, RephrasingRow, Split, StepRow, json_schemas
from stepTP.stats import run_rows
from stepTP.tables import read_table

if TYPE_CHECKING:
    from datasets import Features

CARD = "README.md"
SCHEMA = "schema.json"
SPLITS: tuple[Split, ...] = get_args(Split)
_FILE_BYTES = 256 << 20  # of a Parquet file, before it is compressed, about
_GROUP_ROWS = 512  # of a row group: what a viewer reads at once


class PublishError(ValueError):
    """A dataset cannot be published as asked; the message says what to do."""


class Latency(BaseModel):
    """How long the program after a step takes on one machine, from the table of measurements. Times in microseconds.

    `bin` is of the speedup against the program before; None where that was not measured or is within noise.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    machine: str
    device: str
    target: str
    median_us: float
    spread_us: float
    speedup_vs_parent: float | None
    bin: str | None
    speedup_vs_source: float | None
    speedup_vs_eager: float | None


class PublishedStep(StepRow):
    """A step with the latencies of the program after it."""

    latency: tuple[Latency, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One split of one config, as written. `bytes`: in memory; `files`: on disk."""

    config: str
    split: Split
    rows: int
    bytes: int
    files: dict[str, PublishedFile]


@dataclass(frozen=True, slots=True)
class Published:
    """What was written, in the order of configs and splits."""

    folder: Path
    manifest: PublishedManifest
    tables: tuple[Table, ...]
    features: "dict[str, Features]"


def require_extra(package: str) -> None:
    """Raises PublishError where a package of the extra `publish` is not installed."""
    if importlib.util.find_spec(package) is None:
        raise PublishError(f"{package} is not installed: pip install 'steptp[publish]'")


def publish(run: Path, folder: Path, name: str) -> Published:
    """Writes a finished run as a dataset. The folder is new, empty, or one that was published before.

    Raises PublishError, and what reading a run raises.
    """
    for package in ("datasets", "pyarrow"):
        require_extra(package)
    from stepTP.publish.card import card

    identity = load_manifest(run).identity
    if next(iter(run_rows(run, "steps")), None) is None:
        raise PublishError(f"{run}: holds no steps: see why in its rejected.jsonl, and build more")
    _require_own(folder)
    measured = read_measurements(run / TABLE)
    shapes: dict[str, type[BaseModel]] = {**CONFIGS, "steps": PublishedStep, **TABLES}
    features = {config: features_of(shape) for config, shape in shapes.items()}
    tables: list[Table] = []
    for config in shapes:
        for split, rows in _by_split(_rows(run, config, measured)).items():
            tables.append(_write(folder, config, split, rows, features[config]))
    schemas = json_schemas() | {"steps": PublishedStep.model_json_schema()}
    write_whole(folder / SCHEMA, (json.dumps(schemas, indent=1, sort_keys=True) + "\n").encode())
    devices = tuple(sorted({row.machine.device for row in measured}))
    manifest = _manifest(folder, name, identity, devices, tables)
    published = Published(folder, manifest, tuple(tables), features)
    write_whole(folder / CARD, card(run, published, measured).encode())
    manifest = manifest.model_copy(update={"files": manifest.files | {CARD: _described(folder / CARD)}})
    write_whole(folder / MANIFEST, (manifest.model_dump_json(indent=1) + "\n").encode())
    _remove_others(folder, manifest)
    return Published(folder, manifest, tuple(tables), features)


def _rows(run: Path, config: str, measured: list[MeasurementRow]) -> Iterator[tuple[Split, BaseModel]]:
    match config:
        case "measurements":
            parts = _splits(run, "programs") if measured else {}
            for row in measured:
                if row.source_id in parts:
                    yield parts[row.source_id], row
        case "rephrasings":
            rephrased = read_table(run / "rephrasings.jsonl", RephrasingRow)
            parts = _splits(run, "steps") if rephrased else {}
            for row in rephrased:
                if row.status == "ok" and row.step in parts:
                    yield parts[row.step], row
        case "steps":
            latencies = _latencies(measured)
            for row in run_rows(run, config):
                assert isinstance(row, StepRow)
                found = latencies.get((row.source.id, row.state_id_after), [])
                seen = tuple(_beside(parent, latency, row.state_id_before) for parent, latency in found)
                yield row.split, PublishedStep(**dict(row), latency=seen)
        case _:
            for row in run_rows(run, config):
                yield row.split, row


def _splits(run: Path, config: str) -> dict[str, Split]:
    return {row.id: row.split for row in run_rows(run, config)}


def _beside(parent: str | None, latency: Latency, before: str) -> Latency:
    """The latency as a step from `before` sees it: without comparison where another program was the parent."""
    return latency if parent == before else latency.model_copy(update={"speedup_vs_parent": None, "bin": None})


def _latencies(measured: Iterable[MeasurementRow]) -> dict[tuple[str, str], list[tuple[str | None, Latency]]]:
    """Parents and latencies of programs at the sizes of the run, by source and state."""
    found: dict[tuple[str, str], list[tuple[str | None, Latency]]] = defaultdict(list)
    for row in measured:
        if row.subject != "program" or row.status != "ok" or row.sizes or row.timing is None:
            continue
        parent = row.speedup_vs_parent
        latency = Latency(
            machine=row.machine.id,
            device=row.machine.device,
            target=row.target,
            median_us=row.timing.median_us,
            spread_us=row.timing.spread_us,
            speedup_vs_parent=parent.ratio if parent else None,
            bin=parent.bin if parent and not parent.within_noise else None,
            speedup_vs_source=row.speedup_vs_source.ratio if row.speedup_vs_source else None,
            speedup_vs_eager=row.speedup_vs_eager.ratio if row.speedup_vs_eager else None,
        )
        found[row.source_id, row.state_id].append((row.parent_state_id, latency))
    return found


def _by_split(rows: Iterable[tuple[Split, BaseModel]]) -> dict[Split, list[BaseModel]]:
    found: dict[Split, list[BaseModel]] = defaultdict(list)
    for split, row in rows:
        found[split].append(row)
    return {split: found[split] for split in SPLITS if found[split]}


def _write(folder: Path, config: str, split: Split, rows: list[BaseModel], features: "Features") -> Table:
    """Writes the rows of a split into Parquet files of about equal numbers of rows."""
    import pyarrow

    table = pyarrow.Table.from_pylist([columns_of(row) for row in rows], schema=features.arrow_schema)
    parts = 1 + table.nbytes // _FILE_BYTES
    per_file = -(-len(rows) // parts)
    files: dict[str, PublishedFile] = {}
    for number in range(parts):
        name = f"{config}/{split}-{number:05}-of-{parts:05}.parquet"
        piece = table.slice(number * per_file, per_file)
        (folder / config).mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, _parquet(piece))
        files[name] = _described(folder / name, piece.num_rows)
    return Table(config, split, len(rows), table.nbytes, files)


def _parquet(table: Any) -> bytes:
    """The table as a Parquet file, with an index of its pages, and cut where its content says so: the hub stores what
    an earlier version had once."""
    import pyarrow
    from pyarrow import parquet

    sink = pyarrow.BufferOutputStream()
    parquet.write_table(
        table,
        sink,
        row_group_size=_GROUP_ROWS,
        compression="zstd",
        write_page_index=True,
        use_content_defined_chunking=True,
    )
    return sink.getvalue().to_pybytes()


def _manifest(
    folder: Path, name: str, identity: Identity, devices: tuple[str, ...], tables: list[Table]
) -> PublishedManifest:
    rows: dict[str, dict[str, int]] = defaultdict(dict)
    files: dict[str, PublishedFile] = {SCHEMA: _described(folder / SCHEMA)}
    for table in tables:
        rows[table.config][table.split] = table.rows
        files |= table.files
    return PublishedManifest(
        name=name, schema_version=SCHEMA_VERSION, identity=identity, devices=devices, rows=dict(rows), files=files
    )


def _described(file: Path, rows: int | None = None) -> PublishedFile:
    data = file.read_bytes()
    return PublishedFile(sha256=hashlib.sha256(data).hexdigest(), bytes=len(data), rows=rows)


def _require_own(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise PublishError(f"{folder}: is a file: name a folder")
    if folder.is_dir() and not is_published(folder) and not _is_begun(folder):
        raise PublishError(f"{folder}: holds files that are no published dataset: name an empty or a new folder")
    folder.mkdir(parents=True, exist_ok=True)


def _is_begun(folder: Path) -> bool:
    """Whether all that is there, if anything, is of a publication that was stopped; its card comes after the schema."""
    own = {*CONFIGS, *TABLES, SCHEMA} | ({CARD} if (folder / SCHEMA).is_file() else set())
    return all(file.name.removesuffix(".tmp") in own for file in folder.iterdir())


def _remove_others(folder: Path, manifest: PublishedManifest) -> None:
    """Parquet files of an earlier version go."""
    for file in sorted(folder.glob("*/*.parquet")):
        if file.relative_to(folder).as_posix() not in manifest.files:
            file.unlink()
    for config in (*CONFIGS, *TABLES):
        if (folder / config).is_dir() and not any((folder / config).iterdir()):
            (folder / config).rmdir()
