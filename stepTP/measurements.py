"""The table of measurements: which programs are timed, in what order, against what, and where the rows are kept.

    RUN/measurements.jsonl      one `MeasurementRow` a line, appended and synced as it comes

A row is found by its id: source, subject, state, target, machine and sizes.

One program is timed at a time, in a worker process that may die; the table's device is this process' alone. Two phases
take turns. While nothing is timed, one worker a core prepares programs (`stepTP.verify.measure.prepared`); while they
are timed, no other process works. What could not be prepared, whoever times makes itself.

    prepare a chunk of sources  ->  time it, a program at a time  ->  prepare the next chunk  ...
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from stepTP.config import Verify
from stepTP.identity import tool_versions
from stepTP.manifest import is_published, locked
from stepTP.publish.published import identity_of
from stepTP.records import (
    Comparison,
    Machine,
    MeasurementRow,
    ProgramRow,
    Step,
    StepRow,
    Timing,
    row_id,
)
from stepTP.stats import run_rows
from stepTP.tables import appending, read_table
from stepTP.verify.devices import cuda_devices, device_alone
from stepTP.verify.measure.speedup import BINS, compare_timings
from stepTP.verify.measure.timing import TimingPlan
from stepTP.verify.pool import Failure, Pool, available_memory
from stepTP.walk import Jobs

TABLE = "measurements.jsonl"
RESIZE = "stepTP.sizes.at_sizes"
DESCRIBE = "stepTP.verify.measure.task.describe_machine"
PREPARE_SOURCE = "stepTP.verify.measure.prepared.prepare_source"
PREPARE_PROGRAM = "stepTP.verify.measure.prepared.prepare_program"
TIME = {"program": "stepTP.verify.measure.task.time_program", "eager": "stepTP.verify.measure.task.time_eager"}

COMPILED = "stepTP.verify.measure.task.time_compiled"
REST = "stepTP.verify.worker.rest"

FEWEST_PREPARED = 8  # programs: for fewer, processes that prepare cost more than they save
_CHUNK_PROGRAMS = 16  # a worker, and ...
_CHUNK_SOURCES = 32  # ... in all: what is prepared lies in this process' memory until it is timed
_MEMORY_BYTES = 4 << 30  # of a worker, at least

Subject = Literal["program", "eager"]
Phase = Literal["compiling", "timing"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where programs come from. `torch_code`: empty where only the plain program is known."""

    id: str
    family: str
    torch_code: str
    leir: str
    state_id: str


@dataclass(frozen=True, slots=True)
class State:
    """A program to time. `parent`: the state that `path[-1]`, the last of the steps to it, was taken at.

    `problem`: why there is none, where it should be timed at sizes at which its steps do not apply.
    """

    leir: str
    state_id: str
    parent: str | None = None
    path: tuple[Step, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """How to time. `draws` and `seed`: of the verification of the timed code. `sizes`: constants of the source."""

    target: Literal["llvm", "cuda"]
    plan: TimingPlan = field(default_factory=TimingPlan)
    draws: int = 1
    seed: int = 0
    sizes: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was made of a source and of its programs, by their text; nothing of what failed."""

    facts: dict[str, Any] | None = None
    builds: Mapping[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


def describe(jobs: Jobs, request: Request) -> Machine:
    """The machine as it runs programs of the target. Raises MeasureError."""
    answer = jobs.submit(DESCRIBE, {"target": request.target, "processors": _processors()}).result()
    if isinstance(answer, Failure):
        raise MeasureError(f"{request.target}: {answer.message}")
    return Machine(**answer)


def measure_states(
    jobs: Jobs,
    source: Source,
    states: Sequence[State],
    request: Request,
    known: Mapping[str, MeasurementRow] | None = None,
    machine: Machine | None = None,
    prepared: Prepared | None = None,
) -> Iterator[MeasurementRow]:
    """A row for the source run eagerly, one for its plain program, and one for each other state, in that order.

    Rows that are `known`, by id, are taken from there. A state's parent is compared with where it stands before it.
    """
    machine = machine or describe(jobs, request)
    timings: dict[tuple[Subject, str], Timing | None] = {}
    for subject, state in _wanted(source, states):
        row = _row(source, subject, state, request, machine)
        row = (known or {}).get(row.id) or _timed(jobs, source, state, request, row, prepared or Prepared())
        own = timings[subject, state.state_id] = row.timing if row.status == "ok" else None
        is_plain = state.state_id == source.state_id
        others = {
            "speedup_vs_parent": timings.get(("program", state.parent or "")),
            "speedup_vs_source": None if is_plain else timings.get(("program", source.state_id)),
            "speedup_vs_eager": timings.get(("eager", source.state_id)) if subject == "program" else None,
        }
        yield row.model_copy(update={name: _compared(other, own) for name, other in others.items()})


def _wanted(source: Source, states: Sequence[State]) -> list[tuple[Subject, State]]:
    """The subjects of a source in the order in which they are timed."""
    plain = next((s for s in states if s.state_id == source.state_id), State(source.leir, source.state_id))
    wanted: list[tuple[Subject, State]] = [("eager", plain)] if source.torch_code else []
    wanted.append(("program", plain))
    wanted.extend(("program", state) for state in states if state.state_id != source.state_id)
    return wanted


class MeasureError(RuntimeError):
    """Nothing can be measured; the message says why."""


def _compared(before: Timing | None, after: Timing | None) -> Comparison | None:
    return compare_timings(before, after) if before and after else None


def _row(source: Source, subject: Subject, state: State, request: Request, machine: Machine) -> MeasurementRow:
    """The row of a subject before it is timed."""
    sizes = dict(sorted(request.sizes.items()))
    return MeasurementRow(
        id=row_id("measurement", source.id, subject, state.state_id, request.target, machine.id, repr(sizes)),
        source_id=source.id,
        family=source.family,
        subject=subject,
        state_id=state.state_id,
        parent_state_id=state.parent,
        strategy=state.path[-1].strategy if state.path else None,
        depth=len(state.path),
        target=request.target,
        sizes=sizes,
        measured_state_id=None,
        binding="none",
        status="failed",
        message="",
        timing=None,
        roofline=None,
        speedup_vs_parent=None,
        speedup_vs_source=None,
        speedup_vs_eager=None,
        verification=(),
        machine=machine,
        clocks={},
        tool_versions=tool_versions(),
    )


def _timed(
    jobs: Jobs, source: Source, state: State, request: Request, row: MeasurementRow, prepared: Prepared
) -> MeasurementRow:
    if state.problem:
        return row.model_copy(update={"message": state.problem})
    build = prepared.builds.get(state.leir) if row.subject == "program" else None
    payload = _payload(source, state.leir, request) | {"source_facts": prepared.facts, "build": build}
    answer = jobs.submit(TIME[row.subject], payload, near=source.id).result()
    if isinstance(answer, Failure):
        return row.model_copy(update={"message": answer.message})
    return MeasurementRow.model_validate(row.model_dump() | answer)


def prepare(
    jobs: Jobs, groups: Sequence[tuple[Source, Sequence[State]]], request: Request, machine: Machine
) -> dict[str, Prepared]:
    """Makes what timing needs of the sources and of the states that are given with them, all at once; by source."""
    asked: dict[str, tuple[Future[Any], dict[str, Future[Any]]]] = {}
    for source, states in groups:
        facts = jobs.submit(PREPARE_SOURCE, _payload(source, source.leir, request), near=source.id)
        builds: dict[str, Future[Any]] = {}
        for state in states:
            if not state.problem and state.leir not in builds:
                payload = _payload(source, state.leir, request) | {"compute_capability": machine.compute_capability}
                builds[state.leir] = jobs.submit(PREPARE_PROGRAM, payload, near=source.id)
        asked[source.id] = facts, builds
    return {
        name: Prepared(_made(facts), {leir: made for leir, build in builds.items() if (made := _made(build))})
        for name, (facts, builds) in asked.items()
    }


def _made(future: "Future[Any]") -> dict[str, Any] | None:
    """What a task made; None where it failed: whoever times tries, and reports it."""
    answer = future.result()
    return None if isinstance(answer, Failure) else answer


def measure_compiled(jobs: Jobs, source: Source, request: Request) -> float | None:
    """Seconds of a source's module after torch.compile; None where it has none, or that does not compile it."""
    if not source.torch_code:
        return None
    answer = jobs.submit(COMPILED, _payload(source, source.leir, request), near=source.id).result()
    return None if isinstance(answer, Failure) else answer["timing"]["median_us"] / 1e6


def _payload(source: Source, leir: str, request: Request) -> dict[str, Any]:
    return {
        "source": {"id": source.id, "torch_code": source.torch_code},
        "leir_source": source.leir,
        "leir": leir,
        "target": request.target,
        "draws": request.draws,
        "seed": request.seed,
        "plan": asdict(request.plan),
        "processors": _processors(),
    }


def _processors() -> list[int]:
    """The processors that a program may use while it is timed: all of this process', not the one of its worker."""
    return sorted(os.sched_getaffinity(0))


def states_of(programs: Iterable[ProgramRow], steps: Iterable[StepRow]) -> list[tuple[Source, list[State]]]:
    """The sources of a run with all states of their steps, each once, parents before children."""
    result: dict[str, tuple[Source, dict[str, State]]] = {}
    for row in programs:
        source = Source(row.id, row.source.family, row.source.torch_code, row.leir, row.state_id)
        result[row.id] = (source, {row.state_id: State(row.leir, row.state_id)})
    for row in steps:
        found = result[row.source.id][1]
        before = State(row.leir_before, row.state_id_before, path=row.path)
        found.setdefault(row.state_id_before, before)
        step = Step(strategy=row.strategy, args=row.args)
        found[row.state_id_after] = State(row.leir_after, row.state_id_after, row.state_id_before, (*row.path, step))
    return [(source, sorted(states.values(), key=lambda s: len(s.path))) for source, states in result.values()]


def limited(groups: list[tuple[Source, list[State]]], limit: int | None) -> list[tuple[Source, list[State]]]:
    """The first `limit` states, one of each source in turn; a state's parents are always among them."""
    if limit is None:
        return groups
    turns = sorted((place, number) for number, (_, states) in enumerate(groups) for place in range(len(states)))
    taken = [0] * len(groups)
    for _, number in turns[:limit]:
        taken[number] += 1
    return [(source, states[:n]) for (source, states), n in zip(groups, taken, strict=True) if n]


def measure_run(
    folder: Path,
    request: Request,
    *,
    limit: int | None = None,
    again: bool = False,
    timeout_s: float = 300.0,
    workers: int | None = None,
    progress: Callable[[int, int, Phase], None] | None = None,
    table: Path | None = None,
) -> list[MeasurementRow]:
    """Times what the run's table lacks (`again`: everything), and returns the rows of what was asked for.

    `workers` prepare programs while nothing is timed: one a core, as far as memory goes, by default. `table`: another
    file than the run's own; of a published folder, which has none to write, it must be given. `progress` hears how many
    subjects are done, of how many, and what is done now. Raises RunError where another process works in the folder,
    DeviceBusy, MeasureError, and what reading a run raises.
    """
    identity_of(folder)
    if table is None and is_published(folder):
        raise MeasureError(f"{folder}: is a published dataset: name a file for the table with --table")
    file = table or folder / TABLE
    rows: list[MeasurementRow] = []
    with ExitStack() as stack:
        stack.enter_context(locked(file.parent))
        stack.enter_context(device_alone(request.target))
        programs = [row for row in run_rows(folder, "programs") if isinstance(row, ProgramRow)]
        steps = [row for row in run_rows(folder, "steps") if isinstance(row, StepRow)]
        append = stack.enter_context(appending(file))
        known = {} if again else {row.id: row for row in read_measurements(file)}
        groups = limited(states_of(programs, steps), limit)
        total = sum(len(_wanted(*group)) for group in groups)

        if not groups:
            return rows

        def tell(phase: Phase) -> None:
            if progress:
                progress(len(rows), total, phase)

        preparers = begun = None
        if sum(len(states) for _, states in groups) >= FEWEST_PREPARED:
            tell("compiling")
            preparers = stack.enter_context(_preparing(workers, timeout_s))
            begun = preparers.submit(REST, {"seconds": 0.0})  # it imports what it needs while the other pool does
        timer = stack.enter_context(_one_worker(request, timeout_s))
        machine = describe(timer, request)
        if begun is not None:
            begun.result()
        for chunk in _chunks(groups, preparers.workers if preparers else 1):
            tell("compiling" if preparers else "timing")
            if request.sizes:
                chunk = resized(preparers or timer, chunk, request.sizes)
            prepared: dict[str, Prepared] = {}
            if preparers is not None:
                lacking = [found for group in chunk if (found := _lacking(*group, request, machine, known))]
                prepared = prepare(preparers, lacking, request, machine)
            tell("timing")
            for source, states in chunk:
                made = prepared.pop(source.id, None)
                for row in measure_states(timer, source, states, request, known, machine, made):
                    if known.get(row.id) != row:
                        append(row)
                    rows.append(row)
                    tell("timing")
    return rows


def _lacking(
    source: Source, states: Sequence[State], request: Request, machine: Machine, known: Mapping[str, MeasurementRow]
) -> tuple[Source, list[State]] | None:
    """The states that are to be timed as programs; None where there is nothing to time of the source."""
    wanted = [w for w in _wanted(source, states) if _row(source, *w, request, machine).id not in known]
    return (source, [state for subject, state in wanted if subject == "program"]) if wanted else None


def _chunks(groups: Sequence[tuple[Source, list[State]]], workers: int) -> Iterator[list[tuple[Source, list[State]]]]:
    """The sources in order, as many at a time as keep the workers busy for some seconds."""
    chunk: list[tuple[Source, list[State]]] = []
    for group in groups:
        chunk.append(group)
        if len(chunk) == _CHUNK_SOURCES or sum(len(states) for _, states in chunk) >= _CHUNK_PROGRAMS * workers:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def measure_alone(source: Source, request: Request, timeout_s: float = 300.0) -> list[MeasurementRow]:
    """Times a source's plain program and its module, into no table. Raises as `measure_run` does."""
    with device_alone(request.target), _one_worker(request, timeout_s) as pool:
        return list(measure_states(pool, source, (), request))


def _one_worker(request: Request, timeout_s: float) -> Pool:
    """A pool that runs one job at a time, on the first GPU where one is asked for; half of the memory is its own."""
    gpus = cuda_devices()[:1] if request.target == "cuda" else ()
    return Pool(1, timeout_s, max(_MEMORY_BYTES, available_memory() // 2), gpus=gpus)


def _preparing(workers: int | None, timeout_s: float) -> Pool:
    """The pool that prepares programs; none of its workers uses a GPU."""
    return Pool(workers, timeout_s, _MEMORY_BYTES, tasks=(PREPARE_SOURCE, RESIZE))


def verified_as(folder: Path, request: Request) -> Request:
    """The request with the draws and the seed of a run's own verification. Raises MeasureError, RunError."""
    begun = identity_of(folder)
    try:
        draws = Verify.model_validate(begun.config.get("verify", {})).draws
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        named = ".".join(map(str, first["loc"]))
        raise MeasureError(f"{folder}: {named}: {first['msg']}: build it again") from None
    return replace(request, draws=draws, seed=begun.seed)


def resized(
    jobs: Jobs, groups: Sequence[tuple[Source, list[State]]], sizes: Mapping[str, Any]
) -> list[tuple[Source, list[State]]]:
    """The sources with other values of their constants, and their states: every step taken again from there.

    A state keeps the id that it has in the run. One whose steps do not apply at these sizes has a problem instead of a
    program; so have all where the source has no such constants.
    """
    asked: list[Future[Any]] = []
    for source, states in groups:
        paths = [[step.model_dump() for step in state.path] for state in states]
        payload = {"code": source.torch_code, "file": source.id, "sizes": dict(sizes), "paths": paths}
        asked.append(jobs.submit(RESIZE, payload, near=source.id))
    return [_resized(*group, future.result()) for group, future in zip(groups, asked, strict=True)]


def _resized(source: Source, states: list[State], answer: Any) -> tuple[Source, list[State]]:
    if isinstance(answer, Failure):
        return source, [replace(state, problem=answer.message) for state in states]
    made = [
        replace(state, leir=found["leir"], problem=found["problem"])
        for state, found in zip(states, answer["states"], strict=True)
    ]
    return replace(source, torch_code=answer["torch_code"], leir=answer["leir"]), made


def read_measurements(file: Path) -> list[MeasurementRow]:
    """The rows of a table of measurements; none where there is none. Raises RowError."""
    return read_table(file, MeasurementRow)


def summary(rows: Iterable[MeasurementRow]) -> dict[str, dict[str, int]]:
    """Programs by status, and speedups by bin, on each machine; those within noise are in no bin."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    order = {found.name: found.rank for found in BINS}
    for row in rows:
        if row.subject == "eager":
            continue
        where = f"{row.target}, {row.machine.device}" + (f", {_shown(row.sizes)}" if row.sizes else "")
        counts[where][row.status] += 1
        for name in ("parent", "source", "eager"):
            found: Comparison | None = getattr(row, f"speedup_vs_{name}")
            if found:
                counts[f"{where}, against {name}"]["within noise" if found.within_noise else found.bin] += 1
    return {
        title: dict(sorted(found.items(), key=lambda item: (order.get(item[0], -1), item[0])))
        for title, found in sorted(counts.items())
    }


def _shown(sizes: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
