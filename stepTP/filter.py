"""The second pass: which verified steps of all shards are kept, and why the others are not.

Each rule is a function from rows to the rows it keeps and the reasons of those it drops. Choices among equals are by
the hash of the row, never by where it stands, so that another order of shards keeps the same rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stepTP.config import Filter
from stepTP.draw import digest
from stepTP.records import StepRow


@dataclass(frozen=True, slots=True)
class Dropped:
    """A step that is not kept. `cause` is kebab-case."""

    row: StepRow
    cause: str
    message: str


Rule = Callable[[list[StepRow], Filter], tuple[list[StepRow], list[Dropped]]]


def drop_doubles(rows: list[StepRow], _: Filter) -> tuple[list[StepRow], list[Dropped]]:
    """One row of each step between two states: two sources may meet in one program."""
    return _at_most(
        rows,
        lambda row: (row.state_id_before, row.state_id_after),
        lambda _: 1,
        "double",
        "another source reaches the same step between the same states",
    )


def drop_near_duplicates(rows: list[StepRow], settings: Filter) -> tuple[list[StepRow], list[Dropped]]:
    """A few rows of each step on programs that are equal up to names and sizes."""
    return _at_most(
        rows,
        lambda row: (row.structure,),
        lambda _: settings.near_duplicates,
        "near-duplicate",
        f"{settings.near_duplicates} rows of this step on programs equal up to names and sizes are kept already",
    )


def cap_strategies(rows: list[StepRow], settings: Filter) -> tuple[list[StepRow], list[Dropped]]:
    """No more rows of a strategy than its cap; a strategy without one is kept whole."""

    def cap(row: StepRow) -> int | None:
        return settings.caps.get(row.strategy, settings.cap_per_strategy)

    return _at_most(rows, lambda row: (row.strategy,), cap, "strategy-cap", "the strategy has as many rows as its cap")


RULES: tuple[Rule, ...] = (drop_doubles, drop_near_duplicates, cap_strategies)


def select(rows: Iterable[StepRow], settings: Filter) -> tuple[list[StepRow], list[Dropped]]:
    """All rules in turn. Kept rows stay in their order."""
    kept, dropped = list(rows), list[Dropped]()
    for rule in RULES:
        kept, more = rule(kept, settings)
        dropped += more
    return kept, dropped


def balance(before: Iterable[StepRow], after: Iterable[StepRow]) -> dict[str, dict[str, dict[str, int]]]:
    """How many rows of each strategy, level, family and depth there were, and are."""
    views: dict[str, Callable[[StepRow], str]] = {
        "strategy": lambda row: row.strategy,
        "level": lambda row: row.level,
        "family": lambda row: row.source.family,
        "depth": lambda row: str(row.depth),
    }
    sides = {"before": list(before), "after": list(after)}
    result: dict[str, dict[str, dict[str, int]]] = {}
    for view, key in views.items():
        counts = {side: Counter(key(row) for row in rows) for side, rows in sides.items()}
        result[view] = {name: {side: counts[side][name] for side in sides} for name in sorted(counts["before"])}
    return result


def entropy(counts: Iterable[int]) -> float:
    """Bits of the distribution that the counts give; 0 for none."""
    positive = [count for count in counts if count]
    total = sum(positive)
    return sum(count / total * math.log2(total / count) for count in positive)


def _at_most(
    rows: list[StepRow],
    group: Callable[[StepRow], tuple[str, ...]],
    limit: Callable[[StepRow], int | None],
    cause: str,
    message: str,
) -> tuple[list[StepRow], list[Dropped]]:
    """At most `limit` rows of each group: those with the smallest hashes."""
    groups: dict[tuple[str, ...], list[StepRow]] = defaultdict(list)
    for row in rows:
        groups[group(row)].append(row)
    over: set[str] = set()
    for members in groups.values():
        allowed = limit(members[0])
        ordered = sorted(members, key=lambda row: digest("filter", row.id))
        over |= {row.id for row in ordered[allowed:]} if allowed is not None else set()
    kept = [row for row in rows if row.id not in over]
    return kept, [Dropped(row, cause, message) for row in rows if row.id in over]
