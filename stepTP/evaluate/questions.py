"""What a single-step evaluation asks: states of held-out programs, and the replies to them, as JSON lines."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepTP.draw import digest, uniform
from stepTP.records import ProgramRow, StepRow, row_id
from stepTP.verify.report import Task, task_of_row


class EvaluationError(ValueError):
    """An evaluation cannot be made of what was given; the message names it and the remedy."""


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Question(_Data):
    """A state that a step is wanted at. `known`: strategies of the run's rows there, each of which has a legal step."""

    id: str
    family: str
    source_id: str
    depth: int  # steps from the source to the state
    state_id: str
    task: Task
    known: tuple[str, ...]


class Reply(_Data):
    """A model's reply to a question: the `sample`-th of it. What its server or device did not tell is None."""

    question: str
    sample: int = Field(default=0, ge=0)
    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    seconds: float | None = None


def questions_of(
    rows: Iterable[StepRow],
    programs: Mapping[str, ProgramRow],
    families: Sequence[str] | None = None,
    limit: int | None = None,
    seed: int = 0,
    **wanted: object,
) -> list[Question]:
    """The states of rows, each once, in an order that depends on their hashes: of all families in turn.

    `limit`: so many. `wanted`: other fields of the task. Another family or row changes none of the others' order.
    """
    known: dict[tuple[str, str], list[StepRow]] = defaultdict(list)
    for row in rows:
        if families is None or row.source.family in families:
            known[row.source.id, row.state_id_before].append(row)
    groups: dict[str, list[Question]] = defaultdict(list)
    for (source, state), found in known.items():
        first = found[0]
        groups[first.source.family].append(
            Question(
                id=row_id(source, state),
                family=first.source.family,
                source_id=source,
                depth=first.depth - 1,
                state_id=state,
                task=task_of_row(first, programs.get(source), **wanted),
                known=tuple(sorted({row.strategy for row in found})),
            )
        )
    for group in groups.values():
        group.sort(key=lambda question: digest("question", seed, question.id))
    turns = [
        (turn, digest("family", seed, family), question)
        for family, group in groups.items()
        for turn, question in enumerate(group)
    ]
    return [question for _, _, question in sorted(turns, key=lambda entry: entry[:2])][:limit]


def held_out_families(families: Iterable[str], share: float, seed: int = 0) -> list[str]:
    """Families that are kept from training: by hash, near `share` of them, and one at least."""
    names = sorted(set(families))
    if len(names) < 2:
        raise EvaluationError(f"families to hold out: the rows are of {len(names)}, two are needed: build more")
    count = min(len(names) - 1, max(1, round(share * len(names))))
    return sorted(sorted(names, key=lambda name: uniform("held-out", seed, name))[:count])


Entry = TypeVar("Entry", bound=BaseModel)


def read_lines(file: Path, shape: type[Entry]) -> Iterator[Entry]:
    """The entries of a JSONL file; a last line that was cut by a kill is left out. Raises EvaluationError."""
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EvaluationError(f"{file}: not UTF-8 (byte {error.start}): save it as UTF-8") from None
    lines = text.split("\n")
    cut = lines.pop()  # empty where the last line is whole
    if _is_json(cut):
        lines.append(cut)
    for number, line in enumerate(lines, 1):
        try:
            yield shape.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise EvaluationError(f"{file}:{number}: {where}: {first['msg']}") from None


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def replies_to(questions: Sequence[Question], replies: Iterable[Reply], file: Path) -> list[Reply]:
    """The replies to these questions, in the questions' order; others are left out. Raises EvaluationError."""
    places = {question.id: n for n, question in enumerate(questions)}
    found: dict[tuple[int, int], Reply] = {}
    for reply in replies:
        if (place := places.get(reply.question)) is None:
            continue
        if (place, reply.sample) in found:
            raise EvaluationError(
                f"{file}: question {reply.question} has sample {reply.sample} twice: number its samples 0, 1, ..."
            )
        found[place, reply.sample] = reply
    if not found:
        raise EvaluationError(f"{file}: no reply is to one of the {len(questions)} questions: ask them of the same run")
    return [found[key] for key in sorted(found)]
