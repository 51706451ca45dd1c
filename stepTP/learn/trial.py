"""What a trial of learning needs around training: rows in two parts, a vocabulary, and replies to questions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from stepTP.commands.show import InputError
from stepTP.draw import digest
from stepTP.evaluate.questions import EvaluationError, Question, Reply, held_out_families, questions_of
from stepTP.learn.decoding import Automaton, decode
from stepTP.learn.examples import Form, prompt_tokens, reply_text
from stepTP.learn.model import Decoder
from stepTP.learn.vocabulary import Vocabulary
from stepTP.manifest import RunError
from stepTP.records import ProgramRow, RowError, Step, StepRow
from stepTP.second_pass import unfiltered

CANNOT_LEARN = (EvaluationError, InputError, RowError, RunError, OSError)  # what scripts tell in one line


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows to learn from; rows of families that are held out; and rows of other programs of known families, if any."""

    learnt: tuple[StepRow, ...]
    held_out: tuple[StepRow, ...]
    known: tuple[StepRow, ...]
    programs: Mapping[str, ProgramRow]

    @property
    def families(self) -> list[str]:
        """The families that are held out."""
        return sorted({row.source.family for row in self.held_out})

    def with_more(self, rows: Sequence[StepRow], programs: Mapping[str, ProgramRow]) -> "Parts":
        """Rows of another run to learn from, too, but for those that would tell of what is held out.

        Left out are rows of families that are held out, of programs that are one with a program outside of training up
        to names and sizes, and steps that such a program has; also rows that are there already.
        """
        outside = (*self.held_out, *self.known)
        structures = {row.structure for row in outside} | {
            self.programs[row.source.id].structure for row in outside if row.source.id in self.programs
        }
        families, there = set(self.families), {row.id for row in self.learnt}
        added = [
            row
            for row in rows
            if row.id not in there
            and row.source.family not in families
            and row.structure not in structures
            and not (row.source.id in programs and programs[row.source.id].structure in structures)
        ]
        return replace(self, learnt=(*self.learnt, *added), programs={**programs, **self.programs})

    def questions(self, limit: int | None, seed: int = 0, program: bool = True) -> list[Question]:
        """States of held-out families."""
        return questions_of(self.held_out, self.programs, None, limit, seed, needs_leir=program)

    def known_questions(self, limit: int | None, seed: int = 0) -> list[Question]:
        """States of other programs of the families that are learnt from."""
        return questions_of(self.known, self.programs, None, limit, seed, needs_leir=True)

    def practice(self, limit: int | None, seed: int = 0, program: bool = True) -> list[Question]:
        """States that are learnt from."""
        return questions_of(self.learnt, self.programs, None, limit, seed, needs_leir=program)


def parts_of(rows: Sequence[StepRow], programs: Mapping[str, ProgramRow], share: float = 0.15, seed: int = 0) -> Parts:
    """Rows in two parts: by the run's own splits where these hold out families, else by `share` of the families.

    With the run's splits, rows of the train split alone are learnt from.
    """
    held = tuple(row for row in rows if row.held_out == "family")
    if held:
        learnt = tuple(row for row in rows if row.split == "train")
        return Parts(learnt, held, tuple(row for row in rows if row.held_out == "program"), programs)
    names = held_out_families((row.source.family for row in rows), share, seed)
    return Parts(
        tuple(row for row in rows if row.source.family not in names),
        tuple(row for row in rows if row.source.family in names),
        (),
        programs,
    )


def read_parts(
    run: Path,
    share: float = 0.15,
    seed: int = 0,
    limit: int | None = None,
    filtered: bool = True,
    more: Sequence[Path] = (),
) -> Parts:
    """The parts of a run; `limit`: so many rows to learn from, by hash; `more`: other runs whose rows are learnt from.

    Not `filtered`: the run's rows are learnt from as they were before its filter, and asked about as it left them.
    Raises what `CANNOT_LEARN` has.
    """
    from stepTP.commands.rows import step_rows

    rows, programs = step_rows(run)
    parts = parts_of(rows, programs, share, seed)
    if not filtered:
        parts = replace(parts, learnt=parts_of(list(unfiltered(run)), programs, share, seed).learnt)
    if not parts.learnt or not parts.held_out:
        counts = f"{len(parts.learnt)} rows to learn from, {len(parts.held_out)} held out"
        raise EvaluationError(f"{run}: {counts}: build more")
    for other in more:
        parts = parts.with_more(*step_rows(other))
    if limit is None:
        return parts
    chosen = sorted(parts.learnt, key=lambda row: digest("learnt", seed, row.id))[:limit]
    return replace(parts, learnt=tuple(chosen))


def vocabulary_of(rows: Sequence[StepRow], form: Form, shown: Mapping[str, str] | None = None) -> Vocabulary:
    """The vocabulary of what examples of rows hold."""
    texts = [text for row in rows for text in (row.leir_before, row.leir_after)]
    if form.reasoning:
        texts += (row.reasoning for row in rows)
    if shown is not None:
        texts += (shown[row.leir_before] for row in rows)
    return Vocabulary.of(texts, (Step(strategy=row.strategy, args=row.args) for row in rows))


def replies_of(
    model: Decoder,
    vocabulary: Vocabulary,
    automaton: Automaton,
    questions: Sequence[Question],
    most: int,
    form: Form,
    samples: int = 1,
    temperature: float = 0.0,
    shown: Mapping[str, str] | None = None,
    seed: int = 0,
) -> list[Reply]:
    """The decoder's replies: `samples` to each question, the likeliest at temperature 0."""
    import torch

    states = [q.task.state for q in questions]
    prompts = [prompt_tokens(shown[s] if shown else s, vocabulary, form.spelling) for s in states]
    device = model.embedding.weight.device
    generator = torch.Generator(device).manual_seed(int.from_bytes(digest("replies", seed)[:7], "big"))
    asked = [prompt for prompt in prompts for _ in range(samples)]
    found = decode(model, asked, automaton, most, temperature, generator)
    return [
        Reply(
            question=questions[n // samples].id,
            sample=n % samples,
            text=reply_text(tokens, states[n // samples], vocabulary),
            prompt_tokens=len(asked[n]),
            completion_tokens=len(tokens),
        )
        for n, tokens in enumerate(found.tokens)
    ]
