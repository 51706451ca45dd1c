"""Rows of older schemas become rows of the present one, a version at a time.

`MIGRATIONS[n]` turns the plain data of any row of schema n, of any shape, into that of schema n + 1. It may not depend
on anything but the row. A version without an entry is one whose rows cannot be read any more.
"""

from collections.abc import Callable
from typing import Any

Migration = Callable[[dict[str, Any]], dict[str, Any]]


class CannotMigrate(ValueError):
    """A row of an older schema has no way to the present one."""


def _from_1(row: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 had no splits: all was for training. Its walks never came to a state again: no step takes one back."""
    part = {"split": "train", "held_out": None}
    match row.get("row"):
        case "step":
            same = _structure_of_step(row["strategy"], row["leir_before"], row["leir_after"])
            return {**row, **part, "undoes": 0, "inverse_of": None, "structure": same}
        case "program":
            return {**row, **part, "structure": _structure(row["leir"])}
        case "refusal":
            return {**row, **part, "level": _level(row["strategy"]), "fact": row["facts"][-1]["name"]}
        case "rejected":
            return {**row, **part}
        case "measurement":
            return row
        case shape:
            raise CannotMigrate(f"a row of schema 1 of no shape that it had ({shape!r})")


MIGRATIONS: dict[int, Migration] = {1: _from_1}


def migrated(row: dict[str, Any], version: int) -> dict[str, Any]:
    """The row in the given schema version. Raises CannotMigrate."""
    while (own := row["schema_version"]) != version:
        if own not in MIGRATIONS:
            raise CannotMigrate(f"a row of schema {own}, which cannot be read as one of schema {version}")
        row = {**MIGRATIONS[own](row), "schema_version": own + 1}
    return row


def _structure(program: str) -> str:
    from leir.parser import parse
    from stepTP.structure import structure

    return structure(parse(program))


def _structure_of_step(strategy: str, before: str, after: str) -> str:
    from leir.parser import parse
    from stepTP.structure import structure_of_step

    return structure_of_step(strategy, parse(before), parse(after))


def _level(strategy: str) -> str:
    from strategies.index import entries

    for entry in entries():
        if entry.name == strategy:
            return entry.level
    raise CannotMigrate(f"a refusal of {strategy}, which is in no catalog here, so that its level is not known")
