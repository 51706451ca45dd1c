"""What a report shows, counted from the rows of a run: plain data, in the order in which it is drawn."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepTP.draw import digest
from stepTP.filter import entropy
from stepTP.manifest import Identity, is_published
from stepTP.publish.published import identity_of, measurements_of
from stepTP.records import MeasurementRow, RefusalRow, RejectedRow, StepRow
from stepTP.stats import run_rows
from stepTP.verify.measure.speedup import BINS

Tally = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows of the raw shards over the time between the first and the last of them."""

    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is counted."""

    name: str
    identity: Identity
    rows: dict[str, int]  # by config
    strategies: list[tuple[str, str, int, int]]  # name, level, rows, families; level by level, most rows first
    levels: Tally
    families: Tally
    grid: dict[tuple[str, str], int]  # rows by strategy and family
    depths: Tally
    splits: Tally
    entropy: float
    tokens: dict[str, list[int]]  # by spelling
    errors: list[tuple[float, float, str]]  # largest error, its tolerance, target: where both are above 0
    exact: int  # verdicts without any error
    bounds: list[float]  # the largest share of a bound that each verdict used
    refusals: list[tuple[str, int, int]]  # fact, refusals, strategies
    rejected: Tally
    speedups: dict[str, Tally]  # bins against the parent, by where it was measured
    slowest: list[tuple[str, str, float, float | None]]  # id and strategy of a step, microseconds after it, speedup
    rarest: list[tuple[str, str, str, int]]  # id, strategy and family of a step, rows of its strategy
    rate: Rate | None


def figures_of(folder: Path) -> Figures:
    """The figures of a finished run, or of a published folder. Raises what reading one raises."""
    steps = [row for row in run_rows(folder, "steps") if isinstance(row, StepRow)]
    rejected = [row for row in run_rows(folder, "rejected") if isinstance(row, RejectedRow)]
    refusals = [row for row in run_rows(folder, "refusals") if isinstance(row, RefusalRow)]
    measured = measurements_of(folder)
    identity = identity_of(folder)
    counts = {name: sum(1 for _ in run_rows(folder, name)) for name in ("choices", "trajectories", "programs")}
    by_strategy = Counter(row.strategy for row in steps)
    grid = Counter((row.strategy, row.source.family) for row in steps)
    verdicts = [verdict for row in steps for verdict in row.verification]
    return Figures(
        name=str(identity.config.get("name", folder.name)),
        identity=identity,
        rows={"steps": len(steps), **counts, "rejected": len(rejected), "refusals": len(refusals)},
        strategies=_strategies(steps, by_strategy),
        levels=_most(row.level for row in steps),
        families=_most(row.source.family for row in steps),
        grid=dict(grid),
        depths=sorted(_most(str(row.depth) for row in steps), key=lambda item: int(item[0])),
        splits=_most(row.split for row in steps),
        entropy=entropy(by_strategy.values()),
        tokens={
            form: [n for row in steps if (n := getattr(row.tokens, form)) is not None]
            for form in ("leir", "tir", "cuda", "reasoning")
        },
        errors=[(v.max_abs, v.tolerance, v.target) for v in verdicts if v.max_abs > 0 and v.tolerance > 0],
        exact=sum(v.max_abs == 0 for v in verdicts),
        bounds=[v.bound_used for v in verdicts],
        refusals=_refusals(refusals),
        rejected=_most(f"{row.stage}: {row.cause}" for row in rejected),
        speedups=_speedups(measured),
        slowest=_slowest(steps, measured),
        rarest=_rarest(steps, by_strategy),
        rate=None if is_published(folder) else _rate(folder, sum(counts.values()) + len(steps) + len(rejected)),
    )


def chosen_rows(steps: Sequence[StepRow], figures: Figures, most: int) -> list[StepRow]:
    """Rows to browse: those that tables name, then of every strategy in turn, by hash; in the order of the run."""
    named = {name for name, *_ in (*figures.slowest, *figures.rarest)}
    waiting: dict[str, list[StepRow]] = defaultdict(list)
    for row in sorted(steps, key=lambda row: (row.id not in named, digest("report", row.id))):
        waiting[row.strategy].append(row)
    turns = sorted(
        (
            (row.id not in named, turn, strategy, row.id)
            for strategy, rows in waiting.items()
            for turn, row in enumerate(rows)
        )
    )
    kept = {name for _, _, _, name in turns[:most]}
    return [row for row in steps if row.id in kept]


def _most(names: Iterable[str]) -> Tally:
    """How often each name is there: the most first, equals by name."""
    return sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))


def _strategies(steps: Sequence[StepRow], by_strategy: Counter[str]) -> list[tuple[str, str, int, int]]:
    levels = {row.strategy: row.level for row in steps}
    families: dict[str, set[str]] = defaultdict(set)
    for row in steps:
        families[row.strategy].add(row.source.family)
    order = ("graph", "operator", "memory", "math")
    found = [(name, levels[name], count, len(families[name])) for name, count in by_strategy.items()]
    return sorted(found, key=lambda s: (order.index(s[1]) if s[1] in order else len(order), -s[2], s[0]))


def _refusals(refusals: Sequence[RefusalRow]) -> list[tuple[str, int, int]]:
    strategies: dict[str, set[str]] = defaultdict(set)
    for row in refusals:
        strategies[row.fact].add(row.strategy)
    return [(fact, count, len(strategies[fact])) for fact, count in _most(row.fact for row in refusals)]


def _speedups(measured: Sequence[MeasurementRow]) -> dict[str, Tally]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in measured:
        if row.subject == "program" and row.speedup_vs_parent is not None:
            sizes = "".join(f", {name}={value}" for name, value in row.sizes.items())
            noise = row.speedup_vs_parent.within_noise
            found[f"{row.target} on {row.machine.device}{sizes}"][
                "within noise" if noise else row.speedup_vs_parent.bin
            ] += 1
    names = [found.name for found in BINS] + ["within noise"]
    return {where: [(name, tally[name]) for name in names] for where, tally in sorted(found.items())}


def _slowest(
    steps: Sequence[StepRow], measured: Sequence[MeasurementRow], most: int = 12
) -> list[tuple[str, str, float, float | None]]:
    latency = {
        (row.source_id, row.state_id): row
        for row in measured
        if row.subject == "program" and row.status == "ok" and row.timing is not None and not row.sizes
    }
    found: list[tuple[str, str, float, float | None]] = []
    for row in steps:
        timed = latency.get((row.source.id, row.state_id_after))
        if timed is not None and timed.timing is not None:
            parent = timed.speedup_vs_parent if timed.parent_state_id == row.state_id_before else None
            found.append((row.id, row.strategy, timed.timing.median_us, parent.ratio if parent else None))
    return sorted(found, key=lambda item: (-item[2], item[0]))[:most]


def _rarest(steps: Sequence[StepRow], by_strategy: Counter[str], most: int = 12) -> list[tuple[str, str, str, int]]:
    """One row of each of the rarest strategies, the one that its hash chooses."""
    first: dict[str, StepRow] = {}
    for row in sorted(steps, key=lambda row: digest("rarest", row.id)):
        first.setdefault(row.strategy, row)
    rows = sorted(first.values(), key=lambda row: (by_strategy[row.strategy], row.strategy))[:most]
    return [(row.id, row.strategy, row.source.family, by_strategy[row.strategy]) for row in rows]


def _rate(folder: Path, rows: int) -> Rate | None:
    """By the times at which the first and the last raw shard were written; None where there are not two."""
    times = sorted(file.stat().st_mtime for file in (folder / "raw").glob("*.jsonl"))
    if len(times) < 2 or times[-1] - times[0] < 1:
        return None
    return Rate(rows * (len(times) - 1) // len(times), times[-1] - times[0])
