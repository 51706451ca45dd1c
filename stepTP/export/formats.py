"""Examples from the rows of a run, a function a format.

    sft                    messages with the thought in <think>: TRL's SFTTrainer, ms-swift
    sft_reasoning_content  messages with the thought as a key of its own: Axolotl
    sharegpt               conversations and dataset_info.json: LLaMA-Factory
    stepwise               chains of proposals with a verdict on each: reward models of processes, as TRL names the type
    rl                     questions for a verifier as reward: TRL's GRPOTrainer, verl

What an answer may hold is chosen apart from the format (`Wanted`), for ablations.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stepTP.answer import form, with_thought, write_answer
from stepTP.draw import digest
from stepTP.export.shapes import (
    Example,
    Message,
    RlExample,
    SftExample,
    ShareGptExample,
    StepwiseExample,
    ThoughtExample,
    ThoughtMessage,
    Turn,
    VerlReward,
)
from stepTP.prompt import Spelling, prompt
from stepTP.records import ProgramRow, RefusalRow, Split, Step, StepRow, TrajectoryRow, row_id
from stepTP.rewards.tasks import columns_of
from stepTP.verify.report import task_of_row

FormatName = Literal["sft", "sft_reasoning_content", "sharegpt", "stepwise", "rl"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """How programs are spelled in prompts, and whether an answer has a thought before it and the program in it.

    An answer's program is LEIR text whatever the prompt's spelling is, so with another spelling it has none.
    `filtered`: the run's steps; False: those before its filter, too.
    """

    spelling: Spelling = "leir"
    reasoning: bool = True
    program: bool = True
    filtered: bool = True

    @property
    def writes_program(self) -> bool:
        return self.program and self.spelling == "leir"


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a run, as far as the formats look at them."""

    steps: Sequence[StepRow]
    trajectories: Sequence[TrajectoryRow] = ()
    refusals: Sequence[RefusalRow] = ()
    programs: Mapping[str, ProgramRow] = field(default_factory=dict[str, ProgramRow])  # by their id


Texts = Mapping[str, str]  # the program in the wanted spelling, by its LEIR text
Made = Iterator[tuple[Split, Example]]


def sft(rows: Rows, wanted: Wanted, texts: Texts) -> Made:
    """A step is a conversation of three messages."""
    for row in rows.steps:
        said = with_thought(row.reasoning, _answer(row, wanted)) if wanted.reasoning else _answer(row, wanted)
        answer = Message(role="assistant", content=said)
        yield row.split, SftExample(id=row.id, messages=(*_question(texts[row.leir_before], wanted), answer))


def sft_reasoning_content(rows: Rows, wanted: Wanted, texts: Texts) -> Made:
    """The same, with the reasoning as a key of the answer's message."""
    for row in rows.steps:
        asked = tuple(ThoughtMessage(**m.model_dump()) for m in _question(texts[row.leir_before], wanted))
        thought = row.reasoning.strip() if wanted.reasoning else None
        answer = ThoughtMessage(role="assistant", content=_answer(row, wanted), reasoning_content=thought)
        yield row.split, ThoughtExample(id=row.id, messages=(*asked, answer))


def sharegpt(rows: Rows, wanted: Wanted, texts: Texts) -> Made:
    """The conversations of `sft` in ShareGPT's words."""
    for split, example in sft(rows, wanted, texts):
        assert isinstance(example, SftExample)
        system, question, answer = example.messages
        turns = Turn(speaker="human", value=question.content), Turn(speaker="gpt", value=answer.content)
        yield split, ShareGptExample(id=example.id, system=system.content, conversations=turns)


def stepwise(rows: Rows, wanted: Wanted, texts: Texts) -> Made:
    """A trajectory whose every step holds; and, for each of its states with refused proposals, one that ends in such.

    Each completion but the first begins with the program that the step before it gave, and all end with a step: no form
    tells which proposals hold.
    """
    refused: dict[tuple[str, str], list[RefusalRow]] = {}
    for refusal in rows.refusals:
        refused.setdefault((refusal.source_id, refusal.state_id), []).append(refusal)
    asked = form(leir=False, thought=False)
    for row in rows.trajectories:
        states = [(row.state_id, row.leir), *((step.state_id_after, step.leir_after) for step in row.steps)]
        taken = [Step(strategy=step.strategy, args=step.args) for step in row.steps]
        question = "\n\n".join(message["content"] for message in prompt(texts[row.leir], asked, wanted.spelling))
        said = [_proposal(texts[states[n][1]], step, first=n == 0) for n, step in enumerate(taken)]
        held = (True,) * len(said)
        yield row.split, StepwiseExample(id=row.id, prompt=question, completions=tuple(said), labels=held)
        for n, (state_id, leir) in enumerate(states):
            proposals = refused.get((row.source.id, state_id))
            if not proposals:
                continue
            chosen = min(proposals, key=lambda found: digest("stepwise", row.id, found.id))
            step = Step(strategy=chosen.strategy, args=chosen.args)
            wrong = _proposal(texts[leir], step, first=n == 0)
            yield (
                row.split,
                StepwiseExample(
                    id=row_id(row.id, chosen.id),
                    prompt=question,
                    completions=(*said[:n], wrong),
                    labels=(*held[:n], False),
                ),
            )


def rl(rows: Rows, wanted: Wanted, texts: Texts) -> Made:
    """Each state that a legal step is known at, once."""
    seen: set[tuple[str, str]] = set()
    for row in rows.steps:
        if (row.source.id, row.state_id_before) in seen:
            continue
        seen.add((row.source.id, row.state_id_before))
        task = task_of_row(row, rows.programs.get(row.source.id), needs_leir=wanted.writes_program)
        columns = columns_of(task)
        known = {"index": row.id, "family": row.source.family, "depth": row.depth - 1}
        yield (
            row.split,
            RlExample(
                id=row.id,
                prompt=_question(texts[row.leir_before], wanted),
                state=columns["state"],
                source=columns["source"],
                reward_model=VerlReward(ground_truth=task.model_dump_json(exclude_defaults=True)),
                extra_info=known,
            ),
        )


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its examples and their shape, and the configs of a run that it reads besides `steps`."""

    make: Callable[[Rows, Wanted, Texts], Made]
    shape: type[Example]
    reads: tuple[str, ...] = ()


FORMATS: dict[FormatName, Format] = {
    "sft": Format(sft, SftExample),
    "sft_reasoning_content": Format(sft_reasoning_content, ThoughtExample),
    "sharegpt": Format(sharegpt, ShareGptExample),
    "stepwise": Format(stepwise, StepwiseExample, ("trajectories", "refusals")),
    "rl": Format(rl, RlExample, ("programs",)),
}


def programs_in(rows: Rows) -> Iterable[str]:
    """The LEIR texts that prompts may hold."""
    yield from (row.leir_before for row in rows.steps)
    for row in rows.trajectories:
        yield row.leir
        yield from (step.leir_after for step in row.steps)


def _question(text: str, wanted: Wanted) -> tuple[Message, ...]:
    asked = form(leir=wanted.writes_program, thought=wanted.reasoning)
    return tuple(Message.model_validate(message) for message in prompt(text, asked, wanted.spelling))


def _answer(row: StepRow, wanted: Wanted) -> str:
    step = Step(strategy=row.strategy, args=row.args)
    return write_answer(step, row.leir_after if wanted.writes_program else None)


def _proposal(text: str, step: Step, *, first: bool) -> str:
    """A step as a completion, after the program that it is taken at; the prompt holds the first one's."""
    said = write_answer(step, None)
    return said if first else f"{text.rstrip()}\n{said}"
