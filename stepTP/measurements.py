"""The table of measurements: which programs are timed, in what order, against what, and where the rows are kept.

    RUN/measurements.jsonl      one `MeasurementRow` a line, appended and synced as it comes

A row is found by its id: source, subject, state, target, machine and sizes.

One program is timed at a time, in a worker process that may die; the table's device is this process' alone.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from stepTP.verify.pool import Failure, Pool
from stepTP.walk import Jobs

TABLE = "measurements.jsonl"
RESIZE = "stepTP.sizes.at_sizes"
DESCRIBE = "stepTP.verify.measure.task.describe_machine"
TIME = {"program": "stepTP.verify.measure.task.time_program", "eager": "stepTP.verify.measure.task.time_eager"}

COMPILED = "stepTP.verify.measure.task.time_compiled"

Subject = Literal["program", "eager"]


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


def measure_states(
    jobs: Jobs,
    source: Source,
    states: Sequence[State],
    request: Request,
    known: Mapping[str, MeasurementRow] | None = None,
) -> Iterator[MeasurementRow]:
    """A row for the source run eagerly, one for its plain program, and one for each other state, in that order.

    Rows that are `known`, by id, are taken from there. A state's parent is compared with where it stands before it.
    """
    answer = jobs.submit(DESCRIBE, {"target": request.target, "processors": _processors()}).result()
    if isinstance(answer, Failure):
        raise MeasureError(f"{request.target}: {answer.message}")
    machine = Machine(**answer)
    plain = next((s for s in states if s.state_id == source.state_id), State(source.leir, source.state_id))
    timings: dict[tuple[Subject, str], Timing | None] = {}
    programs = (plain, *(state for state in states if state.state_id != source.state_id))
    wanted: list[tuple[Subject, State]] = [("eager", plain)] if source.torch_code else []
    wanted.extend(("program", state) for state in programs)
    for subject, state in wanted:
        row = _row(source, subject, state, request, machine)
        row = (known or {}).get(row.id) or _timed(jobs, source, state, request, row)
        own = timings[subject, state.state_id] = row.timing if row.status == "ok" else None
        others = {
            "speedup_vs_parent": timings.get(("program", state.parent or "")),
            "speedup_vs_source": timings.get(("program", source.state_id)) if state != plain else None,
            "speedup_vs_eager": timings.get(("eager", source.state_id)) if subject == "program" else None,
        }
        yield row.model_copy(update={name: _compared(other, own) for name, other in others.items()})


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


def _timed(jobs: Jobs, source: Source, state: State, request: Request, row: MeasurementRow) -> MeasurementRow:
    if state.problem:
        return row.model_copy(update={"message": state.problem})
    answer = jobs.submit(TIME[row.subject], _payload(source, state.leir, request), near=source.id).result()
    if isinstance(answer, Failure):
        return row.model_copy(update={"message": answer.message})
    return MeasurementRow.model_validate(row.model_dump() | answer)


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
    progress: Callable[[int, int], None] | None = None,
    table: Path | None = None,
) -> list[MeasurementRow]:
    """Times what the run's table lacks (`again`: everything), and returns the rows of what was asked for.

    `table`: another file than the run's own; of a published folder, which has none to write, it must be given.
    `progress` hears how many subjects are done, of how many. Raises RunError where another process works in the folder,
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
        pool = stack.enter_context(_one_worker(request, timeout_s))
        groups = limited(states_of(programs, steps), limit)
        total = sum(len(states) + 1 for _, states in groups)
        for group in groups:
            source, states = resized(pool, *group, request.sizes) if request.sizes else group
            for row in measure_states(pool, source, states, request, known):
                if known.get(row.id) != row:
                    append(row)
                rows.append(row)
                if progress:
                    progress(len(rows), total)
    return rows


def measure_alone(source: Source, request: Request, timeout_s: float = 300.0) -> list[MeasurementRow]:
    """Times a source's plain program and its module, into no table. Raises as `measure_run` does."""
    with device_alone(request.target), _one_worker(request, timeout_s) as pool:
        return list(measure_states(pool, source, (), request))


def _one_worker(request: Request, timeout_s: float) -> Pool:
    """A pool that runs one job at a time, on the first GPU where one is asked for."""
    return Pool(1, timeout_s, gpus=cuda_devices()[:1] if request.target == "cuda" else ())


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


def resized(jobs: Jobs, source: Source, states: list[State], sizes: Mapping[str, Any]) -> tuple[Source, list[State]]:
    """The source with other values of its constants, and its states: every step taken again from there.

    A state keeps the id that it has in the run. One whose steps do not apply at these sizes has a problem instead of a
    program; so have all where the source has no such constants.
    """
    paths = [[step.model_dump() for step in state.path] for state in states]
    payload = {"code": source.torch_code, "file": source.id, "sizes": dict(sizes), "paths": paths}
    answer = jobs.submit(RESIZE, payload, near=source.id).result()
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
