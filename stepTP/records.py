"""The rows of the dataset: one pydantic model per row shape, and reading and writing them as JSON lines.

Every row of a shape has the same columns. A changed column comes with a new `SCHEMA_VERSION` and a migration
(`stepTP.migrations`), so that old rows stay readable. Nothing here depends on how a row was made.

    steps         one verified, explained step
    choices       one state with several of its steps: which to take
    trajectories  one program and the steps that were taken from it in a row, with every state
    programs      one source and its translation
    refusals      one illegal proposal, with the fact that refuses it
    rejected      what did not become one of these: stage, cause, step
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from stepTP.migrations import CannotMigrate, migrated

SCHEMA_VERSION = 2

Stage = Literal["translate", "expand", "walk", "verify", "narrate", "filter"]
Split = Literal["train", "validation", "test"]
HeldOut = Literal["family", "program"]  # what training has not seen of a row of the other splits; None: it is of train


class RowError(ValueError):
    """A line of a file is no row of this schema; the message names file, line and column."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Step(_Record):
    """A strategy with its arguments: what a step is, in JSON."""

    strategy: str
    args: dict[str, Any]


class FactRecord(_Record):
    """A named precondition with the evidence that was computed for it."""

    name: str
    holds: bool
    evidence: str


class SourceRecord(_Record):
    """Where a program comes from. `torch_sha` is the SHA-256 of `torch_code`."""

    id: str
    family: str
    torch_code: str
    torch_sha: str
    license: str


class Verdict(_Record):
    """What one program did on one target, over all input draws.

    Errors are against the PyTorch module in float64: `max_abs` is the largest, and `tolerance` the derived bound at its
    element; `bound_used` is the largest error in units of its element's own bound, at most 1 in a program that passed.
    `max_rel` and `max_ulp` are the largest among the elements that are not tiny (below 2^-10) beside the largest of
    their output and draw. `bit_equal` compares with the parent's outputs; None: not compared.
    """

    target: str
    inputs: tuple[str, ...]
    max_abs: float
    tolerance: float
    bound_used: float
    max_rel: float
    max_ulp: float
    bit_equal: bool | None


class Tokens(_Record):
    """Tokens of the program after the step in each spelling, and of the reasoning; None where not counted."""

    leir: int | None
    tir: int | None
    cuda: int | None
    reasoning: int | None


class StepRow(_Record):
    """One verified, explained step.

    `undoes`: how many of the last steps of the path it takes back, so that the state after is one that the path came
    through; 0 for a step that leads on. `inverse_of`: the strategy of the one step that it takes back, where it is one.
    `structure`: equal for the same step on programs that are equal up to names and sizes.
    """

    row: Literal["step"] = "step"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source: SourceRecord
    names: dict[str, str]  # LEIR name -> the module's name
    program_signature: str
    depth: int  # steps from the source to the program after
    path: tuple[Step, ...]  # the steps before this one
    state_id_before: str
    leir_before: str
    strategy: str
    level: str
    args: dict[str, Any]
    bit_exact: bool
    undoes: int
    inverse_of: str | None
    structure: str
    facts: tuple[FactRecord, ...]
    leir_after: str
    state_id_after: str
    diff: str
    reasoning: str
    answer: str  # as `stepTP.answer` writes it
    verification: tuple[Verdict, ...]
    tokens: Tokens
    tool_versions: dict[str, str]


class TakenStep(_Record):
    """A verified step and the state after it. `step`: the id of its row, which the filter may have left out."""

    step: str
    strategy: str
    level: str
    args: dict[str, Any]
    bit_exact: bool
    undoes: int
    leir_after: str
    state_id_after: str
    reasoning: str
    answer: str
    verification: tuple[Verdict, ...]


class RefusedChoice(_Record):
    """A step that somebody may think of at the state, and the fact that refuses it."""

    strategy: str
    args: dict[str, Any]
    fact: FactRecord


class ChoicesRow(_Record):
    """One state with several steps of different strategies, each verified, and some that are illegal there."""

    row: Literal["choices"] = "choices"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source: SourceRecord
    names: dict[str, str]
    program_signature: str
    depth: int  # steps from the source to the state
    path: tuple[Step, ...]
    state_id: str
    leir: str
    choices: tuple[TakenStep, ...]
    refused: tuple[RefusedChoice, ...]
    tool_versions: dict[str, str]


class Objective(_Record):
    """What a trajectory is to improve, by name, and what it is worth in its first and in its last state."""

    name: str
    before: float
    after: float


class TrajectoryRow(_Record):
    """A program and the steps that lead on from it, one after the other, every state verified.

    `origin`: how it was found: by the walk, which has no goal, or by a search, whose `objective` is given.
    """

    row: Literal["trajectory"] = "trajectory"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source: SourceRecord
    names: dict[str, str]
    program_signature: str
    origin: Literal["walk", "search"]
    objective: Objective | None
    state_id: str  # of the program that it begins with
    leir: str
    length: int
    steps: tuple[TakenStep, ...]
    tool_versions: dict[str, str]


class ProgramRow(_Record):
    """One source program and its translation. `structure`: equal for programs that are equal up to names and sizes."""

    row: Literal["program"] = "program"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source: SourceRecord
    dtype: str
    knobs: dict[str, Any]
    names: dict[str, str]
    program_signature: str
    leir: str
    state_id: str
    structure: str
    ops: tuple[str, ...]
    nests: int
    iterations: int
    max_abs_error: float  # of the translation, against the module in float64
    verification: tuple[Verdict, ...]  # of the program, compiled
    tool_versions: dict[str, str]


class RejectedRow(_Record):
    """Something that did not become a row: a source (no step), or a step that was legal but did not hold."""

    row: Literal["rejected"] = "rejected"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source_id: str
    family: str
    depth: int
    stage: Stage
    cause: str  # kebab-case
    message: str
    state_id_before: str | None = None
    leir_before: str | None = None
    step: Step | None = None
    leir_after: str | None = None
    verification: tuple[Verdict, ...] = ()


class RefusalRow(_Record):
    """An illegal proposal, with the facts that held and the one that refused it: for training a critic."""

    row: Literal["refusal"] = "refusal"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    split: Split
    held_out: HeldOut | None
    source_id: str
    family: str
    depth: int
    state_id: str
    leir: str
    strategy: str
    level: str
    args: dict[str, Any]
    fact: str  # the name of the one that does not hold
    facts: tuple[FactRecord, ...]  # that one is the last


class Timing(_Record):
    """How long a run takes, in microseconds: over `repeats` repeats of `runs_per_repeat` runs, after a warm-up.

    `spread_us` is the interquartile range, `q3_us - q1_us`. `disturbed`: the share of the repeats in which the system
    took the processor away. `launch_us`: what the host takes to start a run; on a GPU, where it is near the median, the
    host is what was timed. Each run takes the next of `input_sets` sets of buffers; `cold`: these hold twice the cache,
    so that a run finds nothing of its data there.
    """

    median_us: float
    q1_us: float
    q3_us: float
    spread_us: float
    disturbed: float
    repeats: int
    runs_per_repeat: int
    warm_up_runs: int
    clock: Literal["perf_counter_ns", "cuda-events"]
    launch_us: float
    input_sets: int
    bytes_per_set: int
    cold: bool


class Comparison(_Record):
    """How many times faster than another program, by medians; `bin` is of `stepTP.verify.measure.speedup.BINS`.

    `within_noise`: the interquartile ranges of the two meet, or most repeats of one were disturbed.
    """

    ratio: float
    bin: str
    within_noise: bool


class Roofline(_Record):
    """The least time that the machine needs, in microseconds, and what share of the measured time that is.

    `bytes` must move once at least, and `accumulations` are multiply-adds that no compiler may leave out; the peaks are
    the device's, from where `peaks_from` says. `memory_us` is None where the data may lie in the cache.
    """

    bytes: int
    accumulations: int
    memory_us: float | None
    compute_us: float
    ceiling_us: float
    fraction: float
    peak_bytes_per_s: float
    peak_f32_per_s: float
    peaks_from: str


class Machine(_Record):
    """What ran the programs. `id` is a digest of all else: timings of one machine may be compared with each other."""

    id: str
    device: str
    target: Literal["llvm", "cuda"]
    processors: int  # cores, or streaming multiprocessors
    threads: int  # of the host
    cache_bytes: int  # of the last level
    memory_bytes: int
    driver: str
    compute_capability: str
    system: str
    software: dict[str, str]


class MeasurementRow(_Record):
    """The latency of one program on one machine. Measured, hence in a table of its own: no two runs give equal rows.

    `subject`: a program of the walk, or the PyTorch module run eagerly (`state_id` is then that of the plain program).
    `binding`: on cuda, whether loops were bound to GPU axes for the measurement because the program binds none itself.
    `status`: "ok"; "wrong-result" (the timed code does not verify); "impossible" (faster than the roofline allows);
    "failed" (nothing was timed). Only "ok" rows have speedups and are used for those of others.
    """

    row: Literal["measurement"] = "measurement"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    source_id: str
    family: str
    subject: Literal["program", "eager"]
    state_id: str
    parent_state_id: str | None
    strategy: str | None  # the step that led here from the parent
    depth: int
    target: Literal["llvm", "cuda"]
    sizes: dict[str, Any]  # constants of the source that were replaced, by name
    measured_state_id: str | None  # of the program that was timed: another where sizes or binding are
    binding: Literal["none", "own", "added"]
    status: Literal["ok", "wrong-result", "impossible", "failed"]
    message: str
    timing: Timing | None
    roofline: Roofline | None
    speedup_vs_parent: Comparison | None
    speedup_vs_source: Comparison | None
    speedup_vs_eager: Comparison | None
    verification: tuple[Verdict, ...]  # of the code that was timed, after it was timed
    machine: Machine
    clocks: dict[str, float]  # of the device when the timing ended, and the host's load
    tool_versions: dict[str, str]


class RephrasingRow(_Record):
    """The reasoning of one step in the words of another model, under the same checks as the original.

    `status`: "ok"; "refused" (the last of `attempts` replies failed a check, which `message` names, and `text` is that
    reply); "failed" (the server gave none). Only "ok" rows are for training.
    """

    row: Literal["rephrasing"] = "rephrasing"
    schema_version: Literal[2] = SCHEMA_VERSION
    id: str
    step: str  # the id of the step's row
    model: str
    prompt: str  # SHA-256 of the instructions and the reasoning that was to be rephrased
    attempts: int
    status: Literal["ok", "refused", "failed"]
    message: str
    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


Row = StepRow | ChoicesRow | TrajectoryRow | ProgramRow | RejectedRow | RefusalRow
CONFIGS = {
    "steps": StepRow,
    "choices": ChoicesRow,
    "trajectories": TrajectoryRow,
    "programs": ProgramRow,
    "rejected": RejectedRow,
    "refusals": RefusalRow,
}
TABLES = {
    "measurements": MeasurementRow,
    "rephrasings": RephrasingRow,
}  # beside a run's files: not made by a build, and not the same twice

Shape = TypeVar("Shape")

_ROW: TypeAdapter[Row] = TypeAdapter(Annotated[Row, Field(discriminator="row")])


def step_json(step: Step) -> str:
    """A step as one line of JSON with sorted keys: what draws and identities are keyed by."""
    return json.dumps(step.model_dump(), sort_keys=True, separators=(",", ":"))


def row_id(*parts: str) -> str:
    """16 hexadecimal digits that depend on the parts alone."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def to_line(row: BaseModel) -> str:
    """The row as one line of JSON, ending in a line break."""
    return row.model_dump_json() + "\n"


def read_rows(file: Path) -> Iterator[Row]:
    """The rows of a JSONL file; those of older schemas become rows of this one.

    Raises RowError with file, line and column of what is wrong.
    """
    with file.open("rb") as lines:
        yield from rows_of_lines(lines, str(file))


def rows_of_lines(lines: Iterable[bytes], file: str) -> Iterator[Row]:
    """The rows of lines; `file` is what errors call them. Raises as `read_rows`."""
    for number, line in enumerate(lines, 1):
        try:
            yield row_of_line(line, _ROW)
        except CannotMigrate as error:
            raise RowError(f"{file}:{number}: {error}: rebuild the file") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            column = ".".join(str(part) for part in first["loc"]) or "the line"
            raise RowError(
                f"{file}:{number}: {column}: {first['msg']} (no row of schema {SCHEMA_VERSION}: rebuild the file)"
            ) from None


def row_of_line(line: bytes, shape: TypeAdapter[Shape]) -> Shape:
    """The row of a line, of an older schema too. Raises ValidationError, CannotMigrate."""
    try:
        return shape.validate_json(line)
    except ValidationError:
        old = _older(line)
        if old is None:
            raise
        return shape.validate_json(json.dumps(migrated(old, SCHEMA_VERSION)))


def _older(line: bytes) -> dict[str, Any] | None:
    """What a line holds, if it is a row of an older schema."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    version = row.get("schema_version") if isinstance(row, dict) else None
    return row if isinstance(version, int) and version < SCHEMA_VERSION else None


def json_schemas() -> dict[str, dict[str, Any]]:
    """The JSON schema of every row shape, by the name of its config or table."""
    return {name: shape.model_json_schema() for name, shape in {**CONFIGS, **TABLES}.items()}


def of_shape(rows: Iterable[Row], config: str) -> Iterator[Row]:
    """The rows of one config."""
    return (row for row in rows if isinstance(row, CONFIGS[config]))
