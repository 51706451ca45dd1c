"""Rows of older schemas are read as rows of the present one, step by step, or refused with what is missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from leir.parser import parse
from stepTP import migrations
from stepTP.migrations import CannotMigrate, migrated
from stepTP.records import SCHEMA_VERSION, ProgramRow, RefusalRow, RowError, StepRow, read_rows, to_line
from stepTP.structure import structure, structure_of_step
from tests.stepTP.test_filter import ROWS

OLD = Path(__file__).parent / "old_rows" / "schema1.jsonl"


def without_split(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "split"}


def test_migrations_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = {n: lambda row, n=n: {**row, "trace": [*row.get("trace", []), n]} for n in (1, 2)}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert migrated({"schema_version": 1}, 3) == {"schema_version": 3, "trace": [1, 2]}
    assert migrated({"schema_version": 3}, 3) == {"schema_version": 3}
    with pytest.raises(CannotMigrate, match="a row of schema 3, which cannot be read as one of schema 4"):
        migrated({"schema_version": 1}, 4)


def test_an_old_row_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS", {0: lambda row: {**row, "split": "test"}, 1: lambda row: row})
    old = {**without_split(json.loads(to_line(ROWS[0]))), "schema_version": 0}
    (tmp_path / "rows.jsonl").write_text(to_line(ROWS[1]) + json.dumps(old) + "\n")
    assert list(read_rows(tmp_path / "rows.jsonl")) == [ROWS[1], ROWS[0].model_copy(update={"split": "test"})]


def test_rows_that_schema_1_wrote_are_read() -> None:
    """The file was written by a build of that time."""
    old = [json.loads(line) for line in OLD.read_text().splitlines()]
    assert [(row["row"], row["schema_version"]) for row in old] == [
        ("step", 1), ("step", 1), ("program", 1), ("rejected", 1), ("refusal", 1)
    ]  # fmt: skip
    rows = list(read_rows(OLD))
    for before, row in zip(old, rows, strict=True):
        now = row.model_dump(mode="json")
        assert (now["schema_version"], now["split"], now["held_out"]) == (SCHEMA_VERSION, "train", None)
        assert {name: now[name] for name in before if name != "schema_version"} == {
            name: value for name, value in before.items() if name != "schema_version"
        }
    first, _, program, _, refusal = rows
    assert isinstance(first, StepRow)
    assert isinstance(program, ProgramRow)
    assert isinstance(refusal, RefusalRow)
    assert (first.undoes, first.inverse_of) == (0, None)
    assert first.structure == structure_of_step(first.strategy, parse(first.leir_before), parse(first.leir_after))
    assert program.structure == structure(parse(program.leir))
    assert (refusal.level, refusal.fact) == ("graph", refusal.facts[-1].name)
    assert not refusal.facts[-1].holds


@pytest.mark.parametrize(
    ("change", "message"),
    [({"strategy": "gone"}, "a refusal of gone, which is in no catalog"), ({"row": "other"}, "no shape that it had")],
)
def test_old_rows_that_cannot_be_read_say_why(change: dict[str, Any], message: str) -> None:
    old = json.loads(OLD.read_text().splitlines()[-1])
    with pytest.raises(CannotMigrate, match=message):
        migrated({**old, **change}, SCHEMA_VERSION)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": -1}, r":2: a row of schema -1, which cannot be read as one of schema 2"),
        ({"schema_version": SCHEMA_VERSION + 1}, r":2: step.schema_version: .* \(no row of schema 2"),
        ({"depth": "deep"}, r":2: step.depth: "),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    row = {**json.loads(to_line(ROWS[0])), **change}
    (tmp_path / "rows.jsonl").write_text(to_line(ROWS[1]) + json.dumps(row) + "\n")
    with pytest.raises(RowError, match=message):
        list(read_rows(tmp_path / "rows.jsonl"))
