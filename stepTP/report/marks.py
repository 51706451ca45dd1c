"""Two programs side by side: laid out in lines, lines set against each other, and the changed parts marked."""

import difflib
import re
from collections import Counter
from dataclasses import dataclass

_TOKEN = re.compile(r"[A-Za-z_]+|\d+(?:\.\d+)?|\s+|.", re.DOTALL)
_ALIKE = 0.6  # the share of common tokens from which two lines are the same one, changed
_ISLAND = 2  # equal tokens between two changes that are marked with them: single ones make a line hard to read

Segment = tuple[str, bool]  # text, and whether it is changed


@dataclass(frozen=True, slots=True)
class Pair:
    """A line of each side; None where a side has none. Lines that differ have their changed parts marked."""

    before: tuple[Segment, ...] | None
    after: tuple[Segment, ...] | None

    @property
    def changed(self) -> bool:
        return self.before != self.after


def laid_out(leir: str) -> list[str]:
    """A program's text in lines for reading: a nest of several statements has one a line, indented."""
    return [line for statement in leir.splitlines() for line in _statement_lines(statement)]


def side_by_side(before: str, after: str) -> tuple[Pair, ...]:
    """The lines of two programs, those that correspond in one pair."""
    old, new = laid_out(before), laid_out(after)
    pairs: list[Pair] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += [Pair(((line, False),), ((line, False),)) for line in old[a:b]]
        else:
            pairs += [_pair(x, y) for x, y in _aligned(old[a:b], new[c:d])]
    return tuple(pairs)


def _statement_lines(statement: str) -> list[str]:
    """A top-level statement in lines: brackets are those of nests alone, and `;` ends every statement."""
    if "[" not in statement:
        return [statement]
    lines, start, depth = [], 0, 0
    for place, letter in enumerate(statement):
        if letter == "[":
            if _is_short(statement, place):
                continue
            lines.append("  " * depth + statement[start : place + 1])
            start, depth = place + 1, depth + 1
        elif letter == ";" and depth and not _in_short(statement, place):
            lines.append("  " * depth + statement[start : place + 1])
            start = place + 1
        elif letter == "]":
            if _closes_short(statement, place):
                lines.append("  " * depth + statement[start : place + 1])
            else:
                depth -= 1
                lines.append("  " * depth + statement[start : place + 1])
            start = place + 1
    rest = statement[start:]
    return [line for line in [*lines, rest] if line.strip()]


def _is_short(text: str, opening: int) -> bool:
    """Whether the bracket holds one statement without brackets of its own: such a nest stays in one line."""
    end = re.compile(r"[\[\]]").search(text, opening + 1)
    return end is not None and end[0] == "]" and text.count(";", opening, end.start()) == 1


def _in_short(text: str, place: int) -> bool:
    opening = max(text.rfind("[", 0, place), text.rfind("]", 0, place))
    return opening >= 0 and text[opening] == "[" and _is_short(text, opening)


def _closes_short(text: str, closing: int) -> bool:
    opening = max(text.rfind("[", 0, closing), text.rfind("]", 0, closing))
    return opening >= 0 and text[opening] == "[" and _is_short(text, opening)


def _aligned(old: list[str], new: list[str]) -> list[tuple[str | None, str | None]]:
    """The changed lines of both sides in order, set against each other where they are alike: most likeness in all."""
    alike = [[_likeness(x, y) for y in new] for x in old]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + alike[i][j])
    pairs: list[tuple[str | None, str | None]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        if alike[i][j] and best[i][j] == best[i + 1][j + 1] + alike[i][j]:
            pairs.append((old[i], new[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((old[i], None))
            i += 1
        else:
            pairs.append((None, new[j]))
            j += 1
    return pairs + [(line, None) for line in old[i:]] + [(None, line) for line in new[j:]]


def _likeness(one: str, other: str) -> float:
    """The share of tokens that two lines have in common; 0 below `_ALIKE`."""
    left, right = Counter(_TOKEN.findall(one.strip())), Counter(_TOKEN.findall(other.strip()))
    share = 2 * (left & right).total() / (left.total() + right.total())
    return share if share >= _ALIKE else 0.0


def _pair(before: str | None, after: str | None) -> Pair:
    if before is None or after is None:
        return Pair(*(None if line is None else ((line, True),) for line in (before, after)))
    old, new = _TOKEN.findall(before), _TOKEN.findall(after)
    left: list[Segment] = []
    right: list[Segment] = []
    codes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for number, (tag, a, b, c, d) in enumerate(codes):
        island = 0 < number < len(codes) - 1 and b - a <= _ISLAND and not any(t.isspace() for t in old[a:b])
        changed = tag != "equal" or island
        left.append(("".join(old[a:b]), changed))
        right.append(("".join(new[c:d]), changed))
    return Pair(_joined(left), _joined(right))


def _joined(segments: list[Segment]) -> tuple[Segment, ...]:
    """Neighbours of one kind as one, without empty ones."""
    joined: list[Segment] = []
    for text, changed in segments:
        if joined and joined[-1][1] == changed:
            joined[-1] = joined[-1][0] + text, changed
        elif text:
            joined.append((text, changed))
    return tuple(joined)
