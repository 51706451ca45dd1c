"""What a checker says about a program, and the target limits that it checks against."""

from dataclasses import dataclass

from leir.syntax import Place


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable kebab-case code of `CODES`, a message that names loop, tensor and values, and the place."""

    code: str
    message: str
    place: Place


@dataclass(frozen=True, slots=True)
class Located:
    """A diagnostic of a text. Lines and columns count from 1; `end_column` is one past the last character."""

    diagnostic: Diagnostic
    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.diagnostic.code}: {self.diagnostic.message}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a GPU target offers. Sizes are in bytes; `local_bytes` is per thread, `shared_bytes` per block."""

    threads_per_block: int = 1024
    threads_x: int = 1024
    threads_y: int = 1024
    threads_z: int = 64
    grid_x: int = 2**31 - 1
    grid_y: int = 65_535
    grid_z: int = 65_535
    shared_bytes: int = 48 * 1024
    local_bytes: int = 64 * 1024

    def axis(self, axis: str) -> int:
        """The largest extent of `bx`, `by`, `bz`, `tx`, `ty` or `tz`."""
        sizes = {
            "bx": self.grid_x, "by": self.grid_y, "bz": self.grid_z,
            "tx": self.threads_x, "ty": self.threads_y, "tz": self.threads_z,
        }  # fmt: skip
        return sizes[axis]


class IllFormed(Exception):
    """The program breaks rules of the language: `diagnostics` has all of them, and the message the first."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        self.diagnostics = diagnostics
        first = diagnostics[0]
        more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
        super().__init__(f"{first.code}: {first.message}{more}")
