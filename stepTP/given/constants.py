"""The constants that a Python file assigns at its top level: finding them, and writing others in their place.

A file is changed as text, so that what was run is a file that anybody can run again. Nothing here runs it.
"""

import ast
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


class ConstantError(ValueError):
    """A constant cannot be given that value; the message names it and says what can."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """One name's value at the top level of a file."""

    name: str
    expression: ast.expr

    @property
    def value(self) -> Any:
        """The literal; None where the value is computed, or is None."""
        try:
            return ast.literal_eval(self.expression)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None


def assignments(code: str) -> tuple[Assignment, ...]:
    """What the file assigns to names at its top level, in order. Raises SyntaxError and ValueError for no Python."""
    return tuple(found for statement in ast.parse(code).body for found in _assigned(statement))


def constants(code: str) -> dict[str, Any]:
    """The literals by name; of a name that is assigned twice, the last. Raises as `assignments` does."""
    return {found.name: found.value for found in assignments(code) if found.value is not None}


def with_constants(code: str, values: Mapping[str, Any]) -> str:
    """The file with these values where it assigns the names. Raises ConstantError, and what `assignments` raises."""
    if not values:
        return code
    known = assignments(code)
    names = dict.fromkeys(found.name for found in known)
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            remedy = f"did you mean {near[0]}?" if near else f"it assigns {', '.join(names) or 'none'}"
            raise ConstantError(f"the file assigns no {name} at its top level: {remedy}")
    changed = [(found, repr(_typed(found, values[found.name]))) for found in known if found.name in values]
    lines = code.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    text = code.encode()
    for found, written in sorted(changed, key=lambda pair: -_place(starts, pair[0].expression)[0]):
        begin, end = _place(starts, found.expression)
        text = text[:begin] + written.encode() + text[end:]
    return text.decode()


def parse_value(text: str) -> Any:
    """A value as people write it: a Python literal, `true` or `false`, or else the text itself."""
    match text:
        case "true":
            return True
        case "false":
            return False
        case _:
            pass
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text


def _assigned(statement: ast.stmt) -> Iterator[Assignment]:
    match statement:
        case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, ast.expr() as value):
            yield Assignment(name, value)
        case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)) if len(targets) == len(values):
            for target, value in zip(targets, values, strict=True):
                if isinstance(target, ast.Name):
                    yield Assignment(target.id, value)
        case _:
            pass


def _place(starts: list[int], expression: ast.expr) -> tuple[int, int]:
    """Where an expression begins and ends, in bytes."""
    assert expression.end_lineno is not None and expression.end_col_offset is not None
    return (
        starts[expression.lineno - 1] + expression.col_offset,
        starts[expression.end_lineno - 1] + expression.end_col_offset,
    )


def _typed(old: Assignment, new: Any) -> Any:
    """The new value as the kind of value that the file has there. Raises ConstantError for another kind."""
    match old.value, new:
        case None, _:
            return new
        case bool(), bool():
            return new
        case bool(), _:
            wanted = "true or false"
        case int(), int() if not isinstance(new, bool):
            return new
        case int(), _:
            wanted = "an integer"
        case float(), int() | float() if not isinstance(new, bool):
            return float(new)
        case float(), _:
            wanted = "a number"
        case tuple(), list() | tuple():
            return tuple(new)
        case list(), list() | tuple():
            return list(new)
        case ((tuple() | list()), _):
            wanted = "a tuple, like (2, 3)"
        case str(), str():
            return new
        case _:
            wanted = f"a value like {old.value!r}"
    raise ConstantError(f"{old.name} is {old.value!r} in the file, and {new!r} cannot stand there: give {wanted}")
