"""What commands print: JSON for machines, plain aligned tables for people."""

import json
import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


class Target(StrEnum):
    llvm = "llvm"
    cuda = "cuda"


class InputError(ValueError):
    """What a person gave cannot be used; the message names the file or option, the place and the remedy."""


class NotText(InputError):
    """A file is not UTF-8: `line` and `column` of the first byte that is not."""

    def __init__(self, name: str, error: UnicodeDecodeError) -> None:
        before = error.object[: error.start].decode("utf-8")
        self.line = before.count("\n") + 1
        self.column = len(before) - (before.rfind("\n") + 1) + 1
        self.reason = f"not UTF-8 text (byte {error.start}): save it as UTF-8"
        super().__init__(f"{name}: {self.reason}")


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
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise InputError(f"{file}: no such file: give the path of one, or - for standard input") from None
    except IsADirectoryError:
        raise InputError(f"{file or repr(file)}: is a folder: name the files in it") from None
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise NotText(name_of(file), error) from None
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{file}: {reason}: give the path of a file that can be read") from None


def require_place(file: Path) -> None:
    """A file can be written there: said before the work, not after it. Raises InputError."""
    if file.is_dir():
        raise InputError(f"{file}: is a folder: name a file in it")
    if file.exists() and not file.is_file():
        raise InputError(f"{file}: is no regular file: name another")
    if not file.parent.is_dir():
        raise InputError(f"{file}: there is no folder {file.parent}: make it first")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise InputError(f"{file}: may not be written: allow it, or name another place")


def name_of(file: str) -> str:
    """How messages call a file."""
    return "<stdin>" if file == "-" else file
