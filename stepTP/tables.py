"""Tables beside a run's files: rows that no two runs make alike, appended one by one as they come.

A row is found by its `id`; of two with one id the later stands. A process that is killed leaves at most half a line at
the end, which the next one cuts off.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from stepTP.migrations import CannotMigrate
from stepTP.records import MeasurementRow, RephrasingRow, RowError, row_of_line, to_line

TableRow = TypeVar("TableRow", MeasurementRow, RephrasingRow)


def read_table(file: Path, shape: type[TableRow]) -> list[TableRow]:
    """The rows of a table, of those with one id the last; none where there is no table. Raises RowError.

    Half a line at the end is that of a process that was killed, or is writing, and is left out.
    """
    if not file.is_file():
        return []
    *lines, _ = file.read_bytes().split(b"\n")
    rows: dict[str, TableRow] = {}
    adapter = TypeAdapter(shape)
    for number, line in enumerate(lines, 1):
        try:
            row = row_of_line(line, adapter)
        except CannotMigrate as error:
            raise RowError(f"{file}:{number}: {error}: remove the line, or make it again") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            column = ".".join(map(str, first["loc"])) or "the line"
            raise RowError(f"{file}:{number}: {column}: {first['msg']}: remove the line, or make it again") from None
        rows[row.id] = row
    return list(rows.values())


@contextmanager
def appending(file: Path) -> Iterator[Callable[[BaseModel], None]]:
    """What appends a row and syncs it; half a line at the end is cut off first."""
    with file.open("ab") as table:
        whole = file.read_bytes().rfind(b"\n") + 1
        table.truncate(whole)

        def append(row: BaseModel) -> None:
            table.write(to_line(row).encode())
            table.flush()
            os.fsync(table.fileno())

        yield append
