"""How a run's steps are spread, before and after the filter, and whether that is as the configuration wants it."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stepTP.config import Filter
from stepTP.filter import Dropped, StepKey, entropy, length_of

VIEWS: dict[str, Callable[[StepKey], str]] = {
    "strategy": lambda step: step.strategy,
    "level": lambda step: step.level,
    "family": lambda step: step.family,
    "depth": lambda step: f"{step.depth:2}",
    "length": length_of,
    "direction": lambda step: "back" if step.undoes else "on",
    "split": lambda step: step.split,
}


def balance(
    before: Sequence[StepKey],
    after: Sequence[StepKey],
    dropped: Iterable[Dropped],
    settings: Filter,
    strategies: Iterable[str] = (),
) -> dict[str, Any]:
    """`{views: {view: {name: {before, after}}}, entropy_bits: {view: {before, after}}, dropped: {cause: rows},
    outside: [what is not as wanted]}`. `strategies`: all that a build uses, as one may have no row."""
    sides = {"before": before, "after": after}
    counts = {view: {side: Counter(map(key, steps)) for side, steps in sides.items()} for view, key in VIEWS.items()}
    return {
        "views": {
            view: {name: {side: found[side][name] for side in sides} for name in sorted(found["before"])}
            for view, found in counts.items()
        },
        "entropy_bits": {
            view: {side: round(entropy(found[side].values()), 4) for side in sides} for view, found in counts.items()
        },
        "dropped": dict(sorted(Counter(drop.cause for drop in dropped).items())),
        "outside": outside(counts["strategy"]["after"], settings, strategies),
    }


def outside(counts: Counter[str], settings: Filter, strategies: Iterable[str]) -> list[str]:
    """One sentence on each strategy whose rows are not as many as wanted."""
    total = counts.total()
    found: list[str] = []
    for name in sorted({*counts, *strategies}):
        count = counts[name]
        share = count / total if total else 0.0
        if settings.min_share is not None and share < settings.min_share:
            found.append(f"{name} has {count} of {total} rows, {share:.2%}: less than {settings.min_share:.2%}")
        if settings.max_share is not None and share > settings.max_share:
            found.append(f"{name} has {count} of {total} rows, {share:.2%}: more than {settings.max_share:.2%}")
        if settings.min_rows is not None and count < settings.min_rows:
            found.append(f"{name} has {count} rows: fewer than {settings.min_rows}")
    return found
