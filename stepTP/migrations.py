"""Rows of older schemas become rows of the present one, a version at a time.

`MIGRATIONS[n]` turns the plain data of any row of schema n, of any shape, into that of schema n + 1. It may not depend
on anything but the row. A version without an entry is one whose rows cannot be read any more.
"""

from collections.abc import Callable
from typing import Any

Migration = Callable[[dict[str, Any]], dict[str, Any]]

MIGRATIONS: dict[int, Migration] = {}


class CannotMigrate(ValueError):
    """A row of an older schema has no way to the present one."""


def migrated(row: dict[str, Any], version: int) -> dict[str, Any]:
    """The row in the given schema version. Raises CannotMigrate."""
    while (own := row["schema_version"]) != version:
        if own not in MIGRATIONS:
            raise CannotMigrate(f"a row of schema {own}, which cannot be read as one of schema {version}")
        row = {**MIGRATIONS[own](row), "schema_version": own + 1}
    return row
