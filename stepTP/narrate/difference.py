"""What a step changes, line by line: a program's text has its signature and one top-level statement a line."""

import difflib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Change:
    """Consecutive lines `old` that become `new`; either may be empty. `at`: the first old line, counted from 0."""

    at: int
    old: tuple[str, ...]
    new: tuple[str, ...]


def changes(before: str, after: str) -> tuple[Change, ...]:
    """The changed runs of lines, in order."""
    old, new = before.splitlines(), after.splitlines()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return tuple(
        Change(old_from, tuple(old[old_from:old_to]), tuple(new[new_from:new_to]))
        for tag, old_from, old_to, new_from, new_to in matcher.get_opcodes()
        if tag != "equal"
    )


def diff_text(before: str, after: str) -> str:
    """A unified diff without header: kept lines begin with a space, old ones with -, new ones with +."""
    old, new = before.splitlines(), after.splitlines()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=len(old) + len(new)))[3:]
    return "".join(f"{line}\n" for line in lines)
