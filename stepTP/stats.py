"""What a run holds, counted from its files."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from stepTP.filter import entropy
from stepTP.manifest import RunError, intact, is_published, load_manifest
from stepTP.narrate.variety import variety
from stepTP.publish.published import published_rows
from stepTP.records import CONFIGS, ProgramRow, RefusalRow, RejectedRow, Row, StepRow, read_rows

Shape = TypeVar("Shape", StepRow, ProgramRow, RejectedRow, RefusalRow)


def run_rows(folder: Path, config: str) -> Iterable[Row]:
    """The rows of one config of a finished run, or of a published folder.

    Raises RunError where they are not what was written, or RowError.
    """
    if is_published(folder):
        return published_rows(folder, config)
    name = f"{config}.jsonl"
    entry = load_manifest(folder).outputs.get(name)
    if entry is None:
        raise RunError(f"{folder}: the build is not done: run the same build again")
    if not intact(folder / name, entry):
        raise RunError(f"{folder / name}: missing or damaged: run the same build again")
    return read_rows(folder / name)


def statistics(folder: Path) -> dict[str, Any]:
    """Counts, shares and means over a finished run, as JSON holds them."""
    rows: dict[str, list[Any]] = {config: list(run_rows(folder, config)) for config in CONFIGS}
    steps: list[StepRow] = rows["steps"]
    rejected: list[RejectedRow] = rows["rejected"]
    refusals: list[RefusalRow] = rows["refusals"]
    families: dict[str, set[str]] = defaultdict(set)
    for row in steps:
        families[row.strategy].add(row.source.family)
    by_strategy = _count(steps, lambda row: row.strategy)
    return {
        "rows": {config: len(found) for config, found in rows.items()},
        "sources_with_steps": len({row.source.id for row in steps}),
        "families": len({row.source.family for row in steps}),
        "strategies": {
            name: {"rows": count, "share": round(count / len(steps), 4), "families": len(families[name])}
            for name, count in by_strategy.items()
        },
        "strategy_entropy_bits": round(entropy(by_strategy.values()), 4),
        "levels": _count(steps, lambda row: row.level),
        "source_families": _count(steps, lambda row: row.source.family),
        "depths": _count(steps, lambda row: str(row.depth)),
        "distinct_states": len({i for row in steps for i in (row.state_id_before, row.state_id_after)}),
        "bit_exact": sum(row.bit_exact for row in steps),
        "rejected": _count(rejected, lambda row: f"{row.stage}: {row.cause}"),
        "refusals": _count(refusals, lambda row: f"{row.strategy}: {row.facts[-1].name}"),
        "verification": error_figures(steps),
        "reasoning": variety((row.strategy, row.reasoning) for row in steps),
        "tokens": token_figures(steps),
    }


def _count(rows: Iterable[Shape], key: Callable[[Shape], str]) -> dict[str, int]:
    return dict(sorted(Counter(key(row) for row in rows).items()))


def error_figures(steps: Iterable[StepRow]) -> dict[str, dict[str, float]]:
    """The largest figures of all rows on each target: of its bound used, and of relative errors."""
    result: dict[str, dict[str, float]] = {}
    for row in steps:
        for verdict in row.verification:
            worst = result.setdefault(verdict.target, {"rows": 0, "bound_used": 0.0, "max_rel": 0.0, "max_ulp": 0.0})
            worst["rows"] += 1
            worst["bound_used"] = max(worst["bound_used"], verdict.bound_used)
            worst["max_rel"] = max(worst["max_rel"], verdict.max_rel)
            worst["max_ulp"] = max(worst["max_ulp"], verdict.max_ulp)
    return dict(sorted(result.items()))


def token_figures(steps: Iterable[StepRow]) -> dict[str, float]:
    """Means over the rows, and how much less compact LEIR is than the others (ratio of means)."""
    counted = [row.tokens for row in steps if row.tokens.leir is not None]
    result: dict[str, float] = {}
    for form in ("leir", "tir", "cuda", "reasoning"):
        values = [value for tokens in counted if (value := getattr(tokens, form)) is not None]
        if values:
            result[f"mean_{form}"] = round(sum(values) / len(values), 1)
    for form in ("tir", "cuda"):
        both = [tokens for tokens in counted if getattr(tokens, form) is not None]
        if both:
            other = sum(getattr(tokens, form) for tokens in both)
            result[f"leir_fewer_than_{form}"] = round(1 - sum(t.leir or 0 for t in both) / other, 4)
    return result
