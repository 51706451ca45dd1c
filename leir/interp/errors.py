"""What the interpreter says when a program's meaning is undefined, and where."""

from collections.abc import Sequence
from dataclasses import dataclass

from leir.syntax import Path


class InterpreterError(Exception):
    """The program has no meaning on these inputs.

    `path` is the statement, None where the inputs or the program as a whole are at fault; `iteration` holds the values
    of the loop variables around it, from the outside in.
    """

    def __init__(self, reason: str, path: Path | None = None, iteration: dict[str, int] | None = None) -> None:
        self.reason = reason
        self.path = path
        self.iteration = dict(iteration or {})
        where = "" if path is None else f"statement {path}"
        if self.iteration:
            where += " at " + ", ".join(f"{name}={value}" for name, value in self.iteration.items())
        super().__init__(f"{where}: {reason}" if where else reason)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in generated code that can fail: its statement, and the loop variables around it."""

    path: Path
    variables: tuple[str, ...]

    def error(self, reason: str, values: Sequence[int]) -> InterpreterError:
        """The error at this place, for these values of the loop variables."""
        iteration = {name: int(value) for name, value in zip(self.variables, values, strict=True)}
        return InterpreterError(reason, self.path, iteration)
