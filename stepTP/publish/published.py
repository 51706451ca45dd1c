"""Reading a published folder: its manifest, and its rows as those of a run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from stepTP.manifest import MANIFEST, Entry, Identity, RunError, intact, is_published, load_manifest
from stepTP.migrations import CannotMigrate
from stepTP.records import CONFIGS, MeasurementRow, Row, RowError
from stepTP.tables import read_table


class PublishedFile(BaseModel):
    """A file of the folder. `rows`: of a Parquet file."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sha256: str
    bytes: int
    rows: int | None = None


class PublishedManifest(BaseModel):
    """What a published folder holds, and what it was made of. `devices`: of its measurements."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    published_version: Literal[1] = 1
    name: str
    schema_version: int
    identity: Identity  # of the run
    devices: tuple[str, ...]
    rows: dict[str, dict[str, int]]  # by config and split
    files: dict[str, PublishedFile]


def load_published(folder: Path) -> PublishedManifest:
    """The manifest of a published folder. Raises RunError."""
    try:
        return PublishedManifest.model_validate_json((folder / MANIFEST).read_bytes())
    except ValidationError:
        raise RunError(f"{folder / MANIFEST}: damaged or of another version: download the dataset again") from None


def identity_of(folder: Path) -> Identity:
    """What a run, or the run that a folder was published from, was made with. Raises RunError."""
    return (load_published(folder) if is_published(folder) else load_manifest(folder)).identity


def published_rows(folder: Path, config: str) -> Iterator[Row]:
    """The rows of one config, split after split; none where it has none. Raises RunError, RowError."""
    yield from _rows(folder, config, CONFIGS[config])


def measurements_of(folder: Path) -> list[MeasurementRow]:
    """The table of measurements of a run or a published folder. Raises RunError, RowError."""
    if is_published(folder):
        return list(_rows(folder, "measurements", MeasurementRow))
    return read_table(folder / "measurements.jsonl", MeasurementRow)


def _rows(folder: Path, config: str, shape: Any) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ModuleNotFoundError:
        raise RunError(f"{folder}: reading Parquet needs pyarrow: pip install 'steptp[publish]'") from None
    from stepTP.publish.features import row_of

    for name, file in load_published(folder).files.items():
        if not name.startswith(f"{config}/"):
            continue
        if not intact(folder / name, Entry(sha256=file.sha256, bytes=file.bytes, counts={})):
            raise RunError(f"{folder / name}: missing or damaged: download it again")
        for number, columns in enumerate(parquet.read_table(folder / name).to_pylist()):
            try:
                yield row_of(shape, columns)
            except (ValidationError, CannotMigrate, ValueError) as error:
                reason = str(error).splitlines()[0]
                raise RowError(f"{folder / name}: row {number}: {reason}: download it again") from None
