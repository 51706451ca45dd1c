"""Rows of older schemas are read as rows of the present one, step by step, or refused with what is missing."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepTP import migrations
from stepTP.migrations import CannotMigrate, migrated
from stepTP.records import SCHEMA_VERSION, RowError, read_rows, to_line
from tests.stepTP.test_filter import ROWS


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
