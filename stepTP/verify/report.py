"""What is asked of a model at one state, and what became of its answer: data, in JSON."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from stepTP.records import FactRecord, ProgramRow, StepRow, Verdict

LONGEST_MESSAGE = 400  # characters; what an answer wrote may stand in a message

Target = Literal["llvm", "cuda"]
Status = Literal["pass", "fail", "not-reached"]
Name = Literal["parsed", "well_formed", "legal", "lowers", "runs", "equal", "bit_equal", "speedup"]
STAGES: tuple[Name, ...] = ("parsed", "well_formed", "legal", "lowers", "runs", "equal", "bit_equal", "speedup")


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskSource(_Data):
    """The PyTorch program that everything computes. `leir` is its plain program; None: what `torch_code` translates to.

    Without `torch_code` the plain program itself, in float64, is the reference.
    """

    id: str = "source"
    torch_code: str = ""
    leir: str | None = None


class Task(_Data):
    """A state, and what is wanted of an answer.

    `strategies`: those that the step may be of; None: all of the catalog. `needs_step`: the answer must be a legal
    step; otherwise a program alone will do. `needs_leir`: the answer must write the program too. `targets`, `draws` (of
    each kind of input) and `seed` say how the program is verified.
    """

    source: TaskSource
    state: str
    strategies: tuple[str, ...] | None = None
    needs_step: bool = True
    needs_leir: bool = False
    targets: tuple[Target, ...] = Field(default=("llvm",), min_length=1)
    draws: int = Field(default=1, ge=1, le=8)
    seed: int = 0


def task_of_row(row: StepRow, program: ProgramRow | None = None, **wanted: Any) -> Task:
    """What the row's step answers: `program` is the row of its source; `wanted`: other fields of the task."""
    source = TaskSource(
        id=row.source.id, torch_code=row.source.torch_code, leir=program.leir if program is not None else None
    )
    return Task(source=source, state=row.leir_before, **wanted)


class Outcome(_Data):
    """Of one stage: `code` (kebab-case) and `message` say why it did not pass, or what was found."""

    status: Status = "not-reached"
    code: str = ""
    message: str = ""


class Finding(_Data):
    """A diagnostic of the checker on the answer's program."""

    code: str
    message: str
    line: int
    column: int


class Problem(_Data):
    """Why an answer has no fair report: not its own doing. `kind`: `task` (its source or state cannot be used), `pool`
    (no worker could do it) or `bug`, with a traceback in `detail`."""

    kind: Literal["task", "pool", "bug"]
    message: str
    detail: str = ""


class ScoreReport(_Data):
    """What became of an answer, stage by stage.

    parsed: it is one object of the answer's schema. well_formed: its program parses, passes every check and has the
    state's signature. legal: the strategy with these arguments applies to the state and gives exactly this program, up
    to `state_id`. lowers, runs: the program compiles, and runs within limits. equal: on every draw and target it
    computes what the PyTorch source computes. bit_equal: with the bits of the state before. speedup: how many times as
    fast as the state before, if asked for.

    `facts`: what the step rests on; the last one does not hold where the step is refused. `leir`, `state_id`: the
    program that was judged. `speedup_vs_state` is None where it was not measured.
    """

    parsed: Outcome = Outcome()
    well_formed: Outcome = Outcome()
    legal: Outcome = Outcome()
    lowers: Outcome = Outcome()
    runs: Outcome = Outcome()
    equal: Outcome = Outcome()
    bit_equal: Outcome = Outcome()
    speedup: Outcome = Outcome()
    strategy: str | None = None
    facts: tuple[FactRecord, ...] = ()
    diagnostics: tuple[Finding, ...] = ()
    leir: str | None = None
    state_id: str | None = None
    verification: tuple[Verdict, ...] = ()
    speedup_vs_state: float | None = None
    error: Problem | None = None

    @property
    def accepted(self) -> bool:
        """Equal, and legal as far as a step was asked for or claimed."""
        return self.error is None and self.equal.status == "pass" and self.legal.status != "fail"

    def outcome(self, stage: Name) -> Outcome:
        """The outcome of a stage, by its name."""
        found = getattr(self, stage)
        assert isinstance(found, Outcome)
        return found


def passed(code: str = "", message: str = "") -> Outcome:
    return Outcome(status="pass", code=code, message=short(message))


def failed(code: str, message: str) -> Outcome:
    return Outcome(status="fail", code=code, message=short(message))


def not_reached(code: str, message: str = "") -> Outcome:
    return Outcome(code=code, message=short(message))


def short(text: str, length: int = LONGEST_MESSAGE) -> str:
    """The text as UTF-8 can write it, and no longer than `length`."""
    shown = text.encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= length else f"{shown[: length - 3]}..."
