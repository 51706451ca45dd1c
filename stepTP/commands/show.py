"""What commands print: JSON for machines, plain aligned tables for people."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


class InputError(ValueError):
    """What a person gave cannot be used; the message names the file or option, the place and the remedy."""


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(header))]
    for line in (list(header), *cells):
        shown = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True))
        print("  ".join(shown).rstrip())


def read_text(file: str) -> str:
    """The text of a file, or of standard input for `-`. Raises InputError."""
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file: give the path of one, or - for standard input") from None
    except IsADirectoryError:
        raise InputError(f"{file}: is a folder: name the files in it") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None


def name_of(file: str) -> str:
    """How messages call a file."""
    return "<stdin>" if file == "-" else file
