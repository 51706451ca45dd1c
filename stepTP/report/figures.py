"""What a report shows, counted from the rows of a run: plain data, in the order in which it is drawn."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepTP.draw import digest
from stepTP.filter import entropy
from stepTP.manifest import Identity, is_published, load_manifest
from stepTP.publish.published import identity_of, measurements_of
from stepTP.records import MeasurementRow, RefusalRow, RejectedRow, StepRow
from stepTP.stats import error_figures, run_rows, token_figures
from stepTP.verify.measure.speedup import BINS

LEVELS = ("graph", "operator", "memory", "math")

Tally = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Slow:
    """A program that was timed, by a step that leads to it. `speedup`: over the program before that step."""

    row: str
    strategy: str
    where: str
    median_us: float
    speedup: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is counted."""

    name: str
    identity: Identity
    rows: dict[str, int]  # by config
    strategies: list[tuple[str, str, int, int]]  # name, level, rows, families; level by level, most rows first
    levels: Tally  # in the order of LEVELS
    families: Tally
    grid: dict[tuple[str, str], int]  # rows by strategy and family
    depths: Tally
    splits: Tally
    entropy: float
    tokens: dict[str, list[int]]  # by spelling
    token_figures: dict[str, float]  # means, and the share that LEIR saves
    errors: list[tuple[float, float, str]]  # largest error, its tolerance, target: where both are above 0
    exact: int  # verdicts without any error
    bounds: list[float]  # the largest share of a bound that each verdict used
    worst: dict[str, dict[str, float]]  # the largest figures of all verdicts, by target
    refusals: list[tuple[str, int, int]]  # fact, refusals, strategies
    rejected: Tally
    speedups: dict[str, list[tuple[str, str, int]]]  # where, then bins against the parent, their ranges and programs
    slowest: list[Slow]
    rarest: list[tuple[str, str, str, int]]  # id, strategy and family of a step, rows of its strategy
    rate: float | None  # verified steps a second


def step_rows(folder: Path) -> list[StepRow]:
    """The step rows of a finished run, or of a published folder. Raises what reading one raises."""
    return [row for row in run_rows(folder, "steps") if isinstance(row, StepRow)]


def figures_of(folder: Path, steps: Sequence[StepRow]) -> Figures:
    """The figures of a finished run, or of a published folder, of which `steps` are the step rows.

    Raises what reading one raises.
    """
    rejected = [row for row in run_rows(folder, "rejected") if isinstance(row, RejectedRow)]
    refusals = [row for row in run_rows(folder, "refusals") if isinstance(row, RefusalRow)]
    measured = measurements_of(folder)
    identity = identity_of(folder)
    counts = {name: sum(1 for _ in run_rows(folder, name)) for name in ("choices", "trajectories", "programs")}
    by_strategy = Counter(row.strategy for row in steps)
    grid = Counter((row.strategy, row.source.family) for row in steps)
    verdicts = [verdict for row in steps for verdict in row.verification]
    return Figures(
        name=str(identity.config.get("name", folder.resolve().name)),
        identity=identity,
        rows={"steps": len(steps), **counts, "rejected": len(rejected), "refusals": len(refusals)},
        strategies=_strategies(steps, by_strategy),
        levels=sorted(Counter(row.level for row in steps).items(), key=lambda item: _rank(item[0])),
        families=_most(row.source.family for row in steps),
        grid=dict(grid),
        depths=sorted(_most(str(row.depth) for row in steps), key=lambda item: int(item[0])),
        splits=_most(row.split for row in steps),
        entropy=entropy(by_strategy.values()),
        tokens={
            form: [n for row in steps if (n := getattr(row.tokens, form)) is not None]
            for form in ("leir", "tir", "cuda", "reasoning")
        },
        token_figures=token_figures(steps),
        errors=[(v.max_abs, v.tolerance, v.target) for v in verdicts if v.max_abs > 0 and v.tolerance > 0],
        exact=sum(v.max_abs == 0 for v in verdicts),
        bounds=[v.bound_used for v in verdicts],
        worst=error_figures(steps),
        refusals=_refusals(refusals),
        rejected=_most(f"{row.stage}: {row.cause}" for row in rejected),
        speedups=_speedups(measured),
        slowest=_slowest(steps, measured),
        rarest=_rarest(steps, by_strategy),
        rate=None if is_published(folder) else _rate(folder),
    )


def chosen_rows(steps: Sequence[StepRow], figures: Figures, most: int) -> list[StepRow]:
    """Rows to browse: those that tables name, then of every strategy in turn, by hash; in the order of the run."""
    named = {*(slow.row for slow in figures.slowest), *(name for name, *_ in figures.rarest)}
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
    found = [(name, levels[name], count, len(families[name])) for name, count in by_strategy.items()]
    return sorted(found, key=lambda s: (_rank(s[1]), -s[2], s[0]))


def _rank(level: str) -> tuple[int, str]:
    """The place of a level among others; one that is not known comes after those that are."""
    return (LEVELS.index(level) if level in LEVELS else len(LEVELS), level)


def _refusals(refusals: Sequence[RefusalRow]) -> list[tuple[str, int, int]]:
    strategies: dict[str, set[str]] = defaultdict(set)
    for row in refusals:
        strategies[row.fact].add(row.strategy)
    return [(fact, count, len(strategies[fact])) for fact, count in _most(row.fact for row in refusals)]


def _speedups(measured: Sequence[MeasurementRow]) -> dict[str, list[tuple[str, str, int]]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in measured:
        if row.subject == "program" and row.speedup_vs_parent is not None:
            sizes = "".join(f", {name}={value}" for name, value in row.sizes.items())
            noise = row.speedup_vs_parent.within_noise
            found[f"{row.target} on {row.machine.device}{sizes}"][
                "within noise" if noise else row.speedup_vs_parent.bin
            ] += 1
    names = [(found.name, found.range) for found in BINS] + [("within noise", "")]
    return {where: [(name, span, tally[name]) for name, span in names] for where, tally in sorted(found.items())}


def _slowest(steps: Sequence[StepRow], measured: Sequence[MeasurementRow], most: int = 12) -> list[Slow]:
    """The programs with the highest medians, each once a machine and target, at the sizes of the run."""
    timings: dict[tuple[str, str], list[MeasurementRow]] = defaultdict(list)
    for timed in measured:
        if timed.subject == "program" and timed.status == "ok" and not timed.sizes:
            timings[timed.source_id, timed.state_id].append(timed)
    found: dict[tuple[str, str, str], Slow] = {}
    for row in steps:
        for timed in timings[row.source.id, row.state_id_after]:
            if timed.timing is None:
                continue
            where = f"{timed.target} on {timed.machine.device}"
            parent = timed.speedup_vs_parent if timed.parent_state_id == row.state_id_before else None
            slow = Slow(row.id, row.strategy, where, timed.timing.median_us, parent.ratio if parent else None)
            known = found.setdefault((row.source.id, row.state_id_after, where), slow)
            if known.speedup is None and parent is not None:
                found[row.source.id, row.state_id_after, where] = slow
    return sorted(found.values(), key=lambda slow: (-slow.median_us, slow.row, slow.where))[:most]


def _rarest(steps: Sequence[StepRow], by_strategy: Counter[str], most: int = 12) -> list[tuple[str, str, str, int]]:
    """One row of each of the rarest strategies, the one that its hash chooses."""
    first: dict[str, StepRow] = {}
    for row in sorted(steps, key=lambda row: digest("rarest", row.id)):
        first.setdefault(row.strategy, row)
    rows = sorted(first.values(), key=lambda row: (by_strategy[row.strategy], row.strategy))[:most]
    return [(row.id, row.strategy, row.source.family, by_strategy[row.strategy]) for row in rows]


def _rate(folder: Path) -> float | None:
    """Verified steps of the raw shards after the first, over the seconds from when that was written to the last.

    None where there are not two shards, or less than a second between them. Time in which a build stood still counts.
    """
    shards = load_manifest(folder).shards
    written = sorted(((folder / name).stat().st_mtime, name) for name in shards if (folder / name).exists())
    if len(written) < 2 or written[-1][0] - written[0][0] < 1:
        return None
    steps = sum(shards[name].counts.get("steps", 0) for _, name in written[1:])
    return steps / (written[-1][0] - written[0][0])
