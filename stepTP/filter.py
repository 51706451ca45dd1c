"""The second pass: which verified steps of all shards are kept, and why the others are not.

Each rule is a function from steps to the steps it keeps and the reasons of those it drops. Choices among equals are by
the hash of the row, never by where it stands, so that another order of shards keeps the same rows. Rules see a
`StepKey` of each row, not the row: all of a run's fit in memory.

1. `drop_doubles`: two sources may meet in one program; one row of each step between two states stays.
2. `drop_leaks`: what a stronger split has (test, then validation) leaves the others, up to names and sizes.
3. `drop_near_duplicates`: a few rows of each step on programs that are equal up to names and sizes.
4. `cap_steps_back`: steps that take others back are at most a share of each strategy's.
5. `cap_strategies`: easy strategies are capped, those in `whole` are not: so that none has more than its share of the
   rows, and the rarest has at least its own. Of a strategy with too many rows, families, depths and lengths give one
   row each in turn.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

from stepTP.config import Filter
from stepTP.draw import digest
from stepTP.records import RefusalRow, Split, StepRow

_STRENGTH: dict[Split, int] = {"test": 0, "validation": 1, "train": 2}
_LENGTHS = (400, 800, 1600, 3200)  # characters of a program, for balance


@dataclass(frozen=True, slots=True)
class StepKey:
    """What the rules see of a step row. `program`: the structure of its source's program."""

    id: str
    source: str
    program: str
    split: Split
    family: str
    strategy: str
    level: str
    depth: int
    undoes: int
    length: int  # characters of the program after
    structure: str
    states: tuple[bytes, bytes]  # ids of the states before and after, shortened


@dataclass(frozen=True, slots=True)
class Dropped:
    """A step that is not kept. `cause` is kebab-case."""

    step: StepKey
    cause: str
    message: str


Rule = Callable[[list[StepKey], Filter], tuple[list[StepKey], list[Dropped]]]


def key_of(row: StepRow, program: str) -> StepKey:
    """What the rules see of a row; `program` is the structure of its source's program."""
    before, after = bytes.fromhex(row.state_id_before[:32]), bytes.fromhex(row.state_id_after[:32])
    return StepKey(
        id=row.id,
        source=row.source.id,
        program=program,
        split=row.split,
        family=row.source.family,
        strategy=row.strategy,
        level=row.level,
        depth=row.depth,
        undoes=row.undoes,
        length=len(row.leir_after),
        structure=row.structure,
        states=(before, after),
    )


def drop_doubles(steps: list[StepKey], _: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """One row of each step between two states, of the strongest split."""
    message = "another source reaches the same step between the same states"
    return _at_most(steps, lambda step: step.states, lambda _: 1, "double", message)


def drop_leaks(steps: list[StepKey], _: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """No step, and no source, that a stronger split has up to names and sizes."""
    strongest: dict[str, Split] = {}
    for step in steps:
        for structure in (step.structure, step.program):
            other = strongest.setdefault(structure, step.split)
            if _STRENGTH[step.split] < _STRENGTH[other]:
                strongest[structure] = step.split

    def by(step: StepKey) -> Split:
        return min(strongest[step.structure], strongest[step.program], key=_STRENGTH.__getitem__)

    dropped = [
        Dropped(step, "leak", f"the {by(step)} split has the same, up to names and sizes")
        for step in steps
        if by(step) != step.split
    ]
    return _without(steps, dropped), dropped


def drop_near_duplicates(steps: list[StepKey], settings: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """A few rows of each step on programs that are equal up to names and sizes."""
    most = settings.near_duplicates
    message = f"{most} rows of this step on programs equal up to names and sizes are kept already"
    return _at_most(steps, lambda step: step.structure, lambda _: most, "near-duplicate", message)


def cap_steps_back(steps: list[StepKey], settings: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """Steps back are at most a share of each strategy's rows."""
    share = settings.steps_back
    on = Counter(step.strategy for step in steps if not step.undoes)

    def most(step: StepKey) -> int | None:
        return int(share / (1 - share) * on[step.strategy]) if step.undoes and share < 1 else None

    message = f"steps back are {share:.0%} of the strategy's rows already"
    return _at_most(steps, lambda step: (step.strategy, step.undoes > 0), most, "step-back-cap", message)


def cap_strategies(steps: list[StepKey], settings: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """No more rows of a strategy than its cap; those in `whole`, and those without a cap, are kept whole."""
    share = _cap_of_share(Counter(step.strategy for step in steps), settings)
    common = min((cap for cap in (settings.cap_per_strategy, share) if cap is not None), default=None)

    def cap(step: StepKey) -> int | None:
        return None if step.strategy in settings.whole else settings.caps.get(step.strategy, common)

    message = "the strategy has as many rows as its cap"
    return _at_most(steps, lambda step: step.strategy, cap, "strategy-cap", message, _turns(steps))


RULES: tuple[Rule, ...] = (drop_doubles, drop_leaks, drop_near_duplicates, cap_steps_back, cap_strategies)


def select(steps: Iterable[StepKey], settings: Filter) -> tuple[list[StepKey], list[Dropped]]:
    """All rules in turn. Kept steps stay in their order."""
    kept, dropped = list(steps), list[Dropped]()
    for rule in RULES:
        kept, more = rule(kept, settings)
        dropped += more
    return kept, dropped


def refusal_key(row: RefusalRow) -> tuple[str, str, str, str]:
    """What is asked of a refusal: its id, strategy, fact and family."""
    return (row.id, row.strategy, row.fact, row.family)


def select_refusals(refusals: Iterable[tuple[str, str, str, str]], settings: Filter) -> frozenset[str]:
    """The ids of the refusals that are kept: so many of each fact of each strategy, families in turn."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for name, strategy, fact, family in refusals:
        groups[strategy, fact].append((family, name))
    kept: list[str] = []
    for members in groups.values():
        place = _places(members, lambda member: member[0], lambda member: member[1])
        kept += sorted(place, key=place.__getitem__)[: settings.refusals_per_fact]
    return frozenset(kept)


def entropy(counts: Iterable[int]) -> float:
    """Bits of the distribution that the counts give; 0 for none."""
    positive = [count for count in counts if count]
    total = sum(positive)
    return sum(count / total * math.log2(total / count) for count in positive)


def length_of(step: StepKey) -> str:
    """The length of the program after, in classes that sort as they should."""
    bound = next((bound for bound in _LENGTHS if step.length <= bound), None)
    return f"to {bound:4}" if bound else f"over {_LENGTHS[-1]}"


def _cap_of_share(counts: Counter[str], settings: Filter) -> int | None:
    """The largest cap with which no capped strategy has more than `max_share` of all rows, and the rarest strategy has
    `min_share`; None: no cap is asked for.

    Where there are too few strategies for the first, all have as many rows as the rarest; what no cap gives the rarest
    is not asked for.
    """
    if not counts or (settings.max_share is None and settings.min_share is None):
        return None
    fixed = sum(count for name, count in counts.items() if name in settings.whole)
    capped = [min(n, settings.caps.get(name, n)) for name, n in counts.items() if name not in settings.whole]
    low, high = min(capped, default=0), max(capped, default=0)
    most = 1.0 if settings.max_share is None else settings.max_share

    def total(cap: int) -> int:
        return fixed + sum(min(count, cap) for count in capped)

    rarest = min(low, *(count for name, count in counts.items() if name in settings.whole), high)
    least = settings.min_share or 0.0
    if rarest < least * total(low):
        least = 0.0

    def fits(cap: int) -> bool:
        return cap <= most * total(cap) and rarest >= least * total(cap)

    if fits(high):
        return high
    while low < high - 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _turns(steps: list[StepKey]) -> dict[str, tuple[int, bytes]]:
    """The place of each step among those of its strategy: families, depths and lengths give one in turn."""
    return _places(steps, lambda s: (s.strategy, s.family, s.depth, length_of(s)), lambda s: s.id)


def _places(
    members: Iterable[Hashable], cell: Callable[..., Hashable], name: Callable[..., str]
) -> dict[str, tuple[int, bytes]]:
    """For each member's name its number within its cell, by hash, and the hash."""
    cells: dict[Hashable, list[str]] = defaultdict(list)
    for member in members:
        cells[cell(member)].append(name(member))
    return {
        one: (number, digest("filter", one))
        for names in cells.values()
        for number, one in enumerate(sorted(names, key=lambda n: digest("filter", n)))
    }


def _at_most(
    steps: list[StepKey],
    group: Callable[[StepKey], Hashable],
    limit: Callable[[StepKey], int | None],
    cause: str,
    message: str,
    place: dict[str, tuple[int, bytes]] | None = None,
) -> tuple[list[StepKey], list[Dropped]]:
    """At most `limit` steps of each group: of the strongest split, then by `place`, or else the smallest hashes."""
    groups: dict[Hashable, list[StepKey]] = defaultdict(list)
    for step in steps:
        groups[group(step)].append(step)
    over: list[Dropped] = []
    for members in groups.values():
        allowed = limit(members[0])
        if allowed is None or len(members) <= allowed:
            continue
        if place is not None:
            ordered = sorted(members, key=lambda step: place[step.id])
        else:
            ordered = sorted(members, key=lambda step: (_STRENGTH[step.split], digest("filter", step.id)))
        over += [Dropped(step, cause, message) for step in ordered[allowed:]]
    return _without(steps, over), over


def _without(steps: list[StepKey], dropped: list[Dropped]) -> list[StepKey]:
    gone = {drop.step.id for drop in dropped}
    return [step for step in steps if step.id not in gone]
