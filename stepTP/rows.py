"""Rows from what the stages found."""

from typing import Any

from stepTP.answer import write_answer
from stepTP.filter import Dropped
from stepTP.given.files import GivenProgram
from stepTP.identity import tool_versions
from stepTP.records import (
    ProgramRow,
    RejectedRow,
    SourceRecord,
    Stage,
    Step,
    StepRow,
    Tokens,
    row_id,
    step_json,
)
from stepTP.sources import SourceProgram
from stepTP.splits import Part
from stepTP.verify.pool import Failure
from stepTP.walk import VerifiedStep, cause_of

LICENSE = "Apache-2.0"  # of every text that `stepTP.sources` writes


def _source_record(source: SourceProgram) -> SourceRecord:
    return SourceRecord(
        id=source.id,
        family=source.family,
        torch_code=source.torch_code,
        torch_sha=source.torch_sha,
        license=source.license if isinstance(source, GivenProgram) else LICENSE,
    )


def program_row(source: SourceProgram, answer: dict[str, Any], part: Part) -> ProgramRow:
    """A verified translation; `answer` is the intake's."""
    return ProgramRow(
        id=source.id,
        split=part.split,
        held_out=part.held_out,
        source=_source_record(source),
        dtype=source.dtype,
        knobs=dict(source.knobs),
        names=answer["names"],
        program_signature=answer["leir"].split("\n", 1)[0],
        leir=answer["leir"],
        state_id=answer["state_id"],
        structure=answer["structure"],
        ops=tuple(answer["ops"]),
        nests=answer["nests"],
        iterations=answer["iterations"],
        max_abs_error=answer["max_abs_error"],
        verification=(),
        tool_versions=tool_versions(),
    )


def rejected_source(source: SourceProgram, part: Part, stage: Stage, cause: str, message: str) -> RejectedRow:
    """A source that has no program."""
    return RejectedRow(
        id=row_id(source.id, stage, *([source.file] if isinstance(source, GivenProgram) else [])),
        split=part.split,
        held_out=part.held_out,
        source_id=source.id,
        family=source.family,
        depth=0,
        stage=stage,
        cause=cause,
        message=message,
    )


def rejected_program(program: ProgramRow, cause: str, message: str) -> RejectedRow:
    """A program that nothing can be built on."""
    return RejectedRow(
        id=row_id(program.id, "verify"),
        split=program.split,
        held_out=program.held_out,
        source_id=program.id,
        family=program.source.family,
        depth=0,
        stage="verify",
        cause=cause,
        message=message,
        leir_after=program.leir,
    )


def unexplained_row(found: VerifiedStep, failure: Failure) -> RejectedRow:
    """A verified step without a reasoning."""
    return RejectedRow(
        id=row_id(found.source.id, found.before.state_id, step_json(found.taken.step), "narrate"),
        split=found.source.split,
        held_out=found.source.held_out,
        source_id=found.source.id,
        family=found.source.source.family,
        depth=len(found.before.path) + 1,
        stage="narrate",
        cause=cause_of(failure),
        message=failure.message,
        state_id_before=found.before.state_id,
        leir_before=found.before.leir,
        step=found.taken.step,
        leir_after=found.taken.leir,
        verification=found.verification,
    )


def dropped_row(row: StepRow, drop: Dropped) -> RejectedRow:
    """A step row that the second pass does not keep."""
    return RejectedRow(
        id=row_id(row.id, "filter"),
        split=row.split,
        held_out=row.held_out,
        source_id=row.source.id,
        family=row.source.family,
        depth=row.depth,
        stage="filter",
        cause=drop.cause,
        message=drop.message,
        state_id_before=row.state_id_before,
        leir_before=row.leir_before,
        step=Step(strategy=row.strategy, args=row.args),
        leir_after=row.leir_after,
        verification=row.verification,
    )


def step_id(found: VerifiedStep) -> str:
    """The id of a step's row; it also chooses the phrasings of its reasoning."""
    return row_id(found.source.id, found.before.state_id, step_json(found.taken.step))


def step_row(found: VerifiedStep, answer: dict[str, Any]) -> StepRow:
    """A step's row; `answer` is the narrator's."""
    source, taken = found.source, found.taken
    return StepRow(
        id=step_id(found),
        split=source.split,
        held_out=source.held_out,
        source=source.source,
        names=source.names,
        program_signature=source.program_signature,
        depth=len(found.before.path) + 1,
        path=found.before.path,
        state_id_before=found.before.state_id,
        leir_before=found.before.leir,
        strategy=taken.step.strategy,
        level=taken.level,
        args=taken.step.args,
        bit_exact=taken.bit_exact,
        undoes=found.undoes,
        inverse_of=found.before.path[-1].strategy if found.undoes == 1 else None,
        structure=answer["structure"],
        facts=taken.facts,
        leir_after=taken.leir,
        state_id_after=taken.state_id,
        diff=answer["diff"],
        reasoning=answer["reasoning"],
        answer=write_answer(taken.step, taken.leir),
        verification=found.verification,
        tokens=Tokens(**answer["tokens"]),
        tool_versions=source.tool_versions,
    )
