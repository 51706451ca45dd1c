"""A build, whole: from the plan of sources to the files that people read.

    sources -> translate -> verify -> walk -> search -> narrate -> compose -> raw shards -> second pass -> files

Stages are generator functions from items to items: each takes what it is about and passes everything else on, so that
a row, once made, reaches the shard. `STAGES` runs for one source at a time, in a thread; all heavy work is the pool's.
What a stage gives depends on the source and the configuration alone. A build that stops anywhere is begun again by the
same call, and goes on with the shards that are missing.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stepTP.config import Config, ConfigError
from stepTP.draw import uniform
from stepTP.given.files import GivenProgram, as_it_ran, given_programs
from stepTP.grouping import trajectory_row
from stepTP.identity import identity
from stepTP.manifest import Run, open_rank, open_run
from stepTP.records import CONFIGS, ProgramRow, RefusalRow, RejectedRow, Row, Step, StepRow, step_json, to_line
from stepTP.rows import program_row, rejected_program, rejected_source, step_id, step_row, unexplained_row
from stepTP.second_pass import OUTPUTS, counts_of, second_pass
from stepTP.sources import FamilyTooSmall, SourceProgram, families, generate
from stepTP.splits import Part, part_of
from stepTP.verify.devices import cuda_devices
from stepTP.verify.kept import Kept, open_kept
from stepTP.verify.pool import Failure, Pool
from stepTP.walk import EXPAND, VERIFY, Check, Jobs, Reached, VerifiedStep, Walker, cause_of, verdicts, verify_all, walk
from strategies import catalog, index

TRANSLATE = "stepTP.intake.translate"
EXPLAIN = "stepTP.narrate.task.explain"
TASKS = (TRANSLATE, EXPAND, VERIFY, EXPLAIN)

Item = SourceProgram | VerifiedStep | Reached | Row


@dataclass(frozen=True, slots=True)
class Build:
    """What every stage may use."""

    config: Config
    strategies: tuple[str, ...]
    jobs: Jobs
    kept: Kept | None = None

    def part(self, source: SourceProgram, key: str) -> Part:
        """The split of a source, by its program's structure, or by its id where it has no program."""
        return part_of(self.config.splits, self.config.seed, source.family, key)


def translate(build: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A source becomes its program, or a rejection."""
    for item in items:
        if not isinstance(item, SourceProgram):
            yield item
            continue
        payload: dict[str, Any] = {"code": item.torch_code, "file": item.id}
        if isinstance(item, GivenProgram):
            if item.problem is not None:
                yield rejected_source(
                    item, build.part(item, item.id), "translate", item.problem.cause, item.problem.message
                )
                continue
            payload |= {"file": item.file, "fit": item.fit}
        answer = build.jobs.submit(TRANSLATE, payload, near=item.id).result()
        if isinstance(answer, Failure):
            yield rejected_source(item, build.part(item, item.id), "translate", cause_of(answer), answer.message)
        elif answer["status"] != "verified":
            yield rejected_source(item, build.part(item, item.id), "translate", answer["cause"], answer["message"])
        else:
            source = as_it_ran(item, answer) if isinstance(item, GivenProgram) else item
            yield program_row(source, answer, build.part(item, answer["structure"]))


def verify_programs(build: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A program is compiled and run before anything is built on it; one that the checks cannot judge is refused."""
    for item in items:
        if not isinstance(item, ProgramRow):
            yield item
            continue
        start = [Check(item.leir, None, False)]
        (answer,) = verify_all(build.jobs, build.config.verify, build.config.seed, item, start, build.kept)
        if isinstance(answer, Failure):
            yield rejected_program(item, cause_of(answer), answer.message)
        elif not answer["ok"]:
            yield rejected_program(item, answer["cause"], answer["message"])
        else:
            yield item.model_copy(update={"verification": verdicts(answer)})


def walk_from(build: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A program is followed by the steps, rejections and refusals of its walk."""
    for item in items:
        yield item
        if isinstance(item, ProgramRow):
            yield from walk(_walker(build, item))


def _walker(build: Build, program: ProgramRow) -> Walker:
    of = build.config
    return Walker(program, of.seed, of.walk, of.verify, build.strategies, build.jobs, build.kept, of.grid)


def search_from(build: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A share of the programs is searched too, once walked: what the search took follows, and where it led."""
    config = build.config
    programs: list[ProgramRow] = []
    for item in items:
        yield item
        if isinstance(item, ProgramRow) and uniform("search", config.seed, item.id) < config.search.share:
            programs.append(item)
    if programs:
        from stepTP.search.goal import Goal, seek  # only builds that search need it

        goal = Goal(**config.search.model_dump(exclude={"share"}))
        for program in programs:
            yield from seek(_walker(build, program), goal)


def narrate(build: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A verified step becomes a row, with its reasoning."""
    waiting = [(item, _explain(build, item) if isinstance(item, VerifiedStep) else None) for item in items]
    for item, explained in waiting:
        if explained is None:
            yield item
            continue
        assert isinstance(item, VerifiedStep)
        answer = explained.result()
        if isinstance(answer, Failure):
            yield unexplained_row(item, answer)
        else:
            yield step_row(item, answer)


def compose(_: Build, items: Iterable[Item]) -> Iterator[Item]:
    """A trajectory's steps become its row; of rows with one id, which walk and search both made, the first stays."""
    first: set[str] = set()
    made: dict[tuple[str, str], StepRow] = {}  # by the program before and the step
    for item in items:
        if isinstance(item, Reached):
            at = [made.get((before, step_json(step))) for before, step in item.taken]
            found = [row for row in at if row is not None]
            if len(found) == len(at):  # what cannot be explained has no row
                yield trajectory_row(found, item.objective)
            continue
        if isinstance(item, StepRow):
            made[item.leir_before, step_json(Step(strategy=item.strategy, args=item.args))] = item
        if isinstance(item, StepRow | RejectedRow | RefusalRow):
            if item.id in first:
                continue
            first.add(item.id)
        yield item


Stage = Callable[[Build, Iterable[Item]], Iterator[Item]]
STAGES: tuple[Stage, ...] = (translate, verify_programs, walk_from, search_from, narrate, compose)


def rows_of(build: Build, source: SourceProgram) -> list[Row]:
    """All rows of one source, through all stages."""
    items: Iterable[Item] = [source]
    for stage in STAGES:
        items = stage(build, items)
    rows: list[Row] = []
    for row in items:
        assert not isinstance(row, SourceProgram | VerifiedStep | Reached)
        rows.append(row)
    return rows


@dataclass(frozen=True, slots=True)
class Report:
    """What a build did: raw shards made now, of how many, whether the second pass ran, and the rows by config."""

    folder: Path
    shards_made: int
    shards: int
    second_pass: bool
    rows: dict[str, int]
    rejected: dict[str, int]


def build(
    config: Config,
    folder: Path,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    cache: Path | None = None,
) -> Report:
    """Builds what is missing of a run. `progress` hears how many sources are done, of how many.

    `cache`: the folder of verdicts of earlier builds (`stepTP.verify.kept`); without it all are made anew.

    Raises ConfigError, PackageError, RunError, and OSError where the disk does not take the files.
    """
    report_progress = progress or (lambda _done, _of: None)
    names = chosen_strategies(config)
    plan = planned_shards(config)
    for key, targets in (("verify", config.verify.targets), ("measure", config.measure.targets)):
        if "cuda" in targets and not cuda_devices():
            raise ConfigError(f"{key}.targets: no CUDA device here: leave cuda out, or build where there is a GPU")
    with open_run(folder, identity(config)) as run:
        run.plan(len(plan))
        run.gather()
        missing = {name: sources for name, sources in plan.items() if not run.has(name)}
        if missing:
            with open_kept(cache) if cache is not None else nullcontext() as kept:
                _make_shards(run, config, names, missing, workers, report_progress, kept)
        made_from = run.raw_digest()
        outputs = run.manifest.outputs
        stale = not all(run.has(name) and outputs[name].made_from == made_from for name in OUTPUTS)
        if stale:
            second_pass(run, config, list(plan), made_from)
        entries = run.manifest.outputs
        return Report(
            folder,
            len(missing),
            len(plan),
            stale,
            {name: sum(entries[f"{name}.jsonl"].counts.values()) for name in CONFIGS},
            dict(entries["rejected.jsonl"].rejected),
        )


def build_rank(config: Config, folder: Path, rank: int, ranks: int, workers: int = 1) -> None:
    """Makes what is missing of one rank's shards of a run that `open_run` began: every `ranks`-th from `rank` on.

    Raises as `build`.
    """
    names, plan = chosen_strategies(config), planned_shards(config)
    own = list(plan)[rank::ranks]
    with open_rank(folder, identity(config), own) as run:
        missing = {name: plan[name] for name in own if not run.has(name)}
        if missing:
            _make_shards(run, config, names, missing, workers, lambda _done, _of: None, None)


def planned_shards(config: Config) -> dict[str, list[SourceProgram]]:
    """The raw shards of a build by name, each with its sources. Raises ConfigError and PackageError."""
    known = [family.name for family in families()]
    match config.sources.families:
        case "all":
            wanted = known
        case "none":
            wanted = []
        case names:
            wanted = list(names)
    counts = config.sources.counts
    for key, families_named in (("sources.families", wanted), ("sources.counts", counts)):
        for family in families_named:
            if family not in known:
                raise ConfigError(f"{key}: no family {family!r}{_nearest(family, known)}")
    sources: list[SourceProgram] = []
    for family in sorted(set(wanted)):
        try:
            sources += generate([family], config.seed, counts.get(family, config.sources.per_family))
        except FamilyTooSmall as error:
            key = "counts" if family in counts else "per_family"
            raise ConfigError(f"sources.{key}: {error}: ask for fewer") from None
    sources += given_programs(config.sources.folders, config.sources.modules)
    if not sources:
        raise ConfigError("sources: there is none: name families, folders or modules")
    size = config.sources_per_shard
    return {
        f"raw/{number:05}.jsonl": sources[start : start + size]
        for number, start in enumerate(range(0, len(sources), size))
    }


def chosen_strategies(config: Config) -> tuple[str, ...]:
    """The names of the strategies that a build uses, sorted. Raises ConfigError and PackageError.

    Those of other packages are loaded, used or not: reasoning asks all of them what comes next.
    """
    known = catalog.names()
    for name in index.outside():
        catalog.strategy(name)
    wanted = known if config.walk.strategies == "all" else config.walk.strategies
    for key, names in (
        ("walk.strategies", wanted),
        ("walk.always", config.walk.always),
        ("walk.opening", config.walk.opening),
        ("filter.caps", config.filter.caps),
        ("filter.whole", config.filter.whole),
    ):
        for name in names:
            if name not in known:
                raise ConfigError(f"{key}: no strategy {name!r}{_nearest(name, known)}")
    return tuple(sorted(set(wanted)))


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f": did you mean {near[0]!r}?" if near else f": there are {', '.join(known)}"


def _make_shards(
    run: Run,
    config: Config,
    names: tuple[str, ...],
    missing: dict[str, list[SourceProgram]],
    workers: int | None,
    progress: Callable[[int, int], None],
    kept: Kept | None,
) -> None:
    """Builds and writes the shards, several sources at once. The first error ends it, with whole shards only."""
    total, done = sum(len(sources) for sources in missing.values()), 0
    gpus = cuda_devices() if "cuda" in config.verify.targets else ()
    memory = config.verify.memory_mb << 20
    ours = not (config.sources.folders or config.sources.modules)  # what is given can do anything in its worker
    with Pool(workers, config.verify.timeout_s, memory, gpus=gpus, tasks=TASKS, board=ours) as pool:
        build = Build(config, names, pool, kept)
        threads = ThreadPoolExecutor(2 * pool.workers + 1)  # sources in flight: enough that no worker waits
        asked = {
            name: [threads.submit(rows_of, build, source) for source in sources] for name, sources in missing.items()
        }
        try:
            progress(0, total)
            for name in list(asked):
                rows: list[Row] = []
                for future in asked.pop(name):  # rows are kept until they are written, no longer
                    rows += future.result()
                    done += 1
                    progress(done, total)
                ids = tuple(source.id for source in missing[name])
                run.write(name, map(to_line, rows), {"sources": ids, **counts_of(rows)})
        finally:
            threads.shutdown(wait=False, cancel_futures=True)  # threads at work end when the pool is killed


def _explain(build: Build, found: VerifiedStep) -> "Future[Any]":
    taken = found.taken
    payload = {
        "id": step_id(found),
        "before": found.before.leir,
        "step": taken.step.model_dump(),
        "bit_exact": taken.bit_exact,
        "facts": [fact.model_dump() for fact in taken.facts],
        "after": taken.leir,
        "others": [p.step.model_dump() for p in found.around.proposals if p.step != taken.step],
        "refused": [
            {**refusal.step.model_dump(), "fact": refusal.facts[-1].model_dump()} for refusal in found.around.refusals
        ],
        "grid": build.config.grid.chosen(),
        "count_tokens": _counted(build.config, step_id(found)),
    }
    return build.jobs.submit(EXPLAIN, payload, near=found.source.id)


def _counted(config: Config, row: str) -> Literal["none", "short", "all"]:
    """Which tokens of a row are counted: those of lowered programs cost more than all else that is said of a step."""
    if not config.tokens:
        return "none"
    return "all" if uniform("tokens", config.seed, row) < config.lowered_tokens else "short"


def default_folder(config: Config) -> Path:
    """Where a build goes unless it is told otherwise."""
    return Path("runs") / config.name
