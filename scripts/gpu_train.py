"""What a small decoder learns from a run in minutes of one GPU, against controls, and what reinforcement moves.

    PYTHONPATH=$HOME/site:. python scripts/gpu_train.py runs/small --seconds 540 --out $OUT

One decoder learns on the rows of families that are not held out, and answers at states of those that are. Beside it,
the same decoder untrained, and trained on answers of other states; with reasoning; with states shown as TIR, answering
the step alone. Then GRPO from the first. Answers are scored by worker processes while the next decoder trains.

`train.json` is rewritten after each result, so that a kill loses nothing; replies and scores lie beside it.
"""

import argparse
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepTP.evaluate.metrics import summarise
from stepTP.evaluate.questions import Question
from stepTP.evaluate.single import judge
from stepTP.export.programs import spelled
from stepTP.learn.examples import Example, Form, example, with_other_answers
from stepTP.learn.trial import Parts, read_parts, replies_of, vocabulary_of
from stepTP.learn.vocabulary import Vocabulary
from stepTP.records import Step, StepRow
from stepTP.verify.scorer import Scorer

# Of all seconds: for training each decoder, and for reinforcement. The rest is for reading, decoding and scoring.
SHARES = {"leir": 0.24, "shuffled": 0.13, "reasoning": 0.15, "tir": 0.1, "grpo": 0.17}
FORMS = {
    "leir": Form(),
    "shuffled": Form(),
    "reasoning": Form(reasoning=True),
    "tir": Form(program=False, spelling="tir"),
}
MOST = {"leir": 400, "shuffled": 400, "reasoning": 900, "tir": 120}  # tokens of an answer


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one decoder learns."""

    form: Form
    vocabulary: Vocabulary
    examples: list[Example]
    shown: Mapping[str, str] | None


class Trial:
    """The whole of it: what is known so far goes to `train.json`."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.start = options, time.monotonic()
        self.out: Path = options.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.found: dict[str, Any] = {"about": {}, "trained": {}, "evaluated": {}, "grpo": {}, "errors": {}}
        self.scorer = Scorer(options.workers, timeout_s=60.0)
        self.scoring = ThreadPoolExecutor(1)
        self.spelling = ThreadPoolExecutor(1)
        self.pending: list[Future[None]] = []
        self.encoders: Any = multiprocessing.get_context("fork").Pool(options.encoders)  # before any thread or CUDA

    def left(self) -> float:
        return self.options.seconds - (time.monotonic() - self.start)

    def seconds(self, name: str) -> float:
        """For a stage: its share, or what is left if that is less."""
        return max(1.0, min(SHARES[name] * self.options.seconds, self.left() - 0.05 * self.options.seconds))

    def note(self, section: str, name: str, value: Any) -> None:
        self.found[section][name] = value
        self.write()
        print(f"{time.monotonic() - self.start:6.1f} s  {section} {name}: {_short(value)}", flush=True)

    def write(self) -> None:
        beside = self.out / "train.part"
        beside.write_text(json.dumps(self.found, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.out / "train.json")

    def stage(self, name: str, work: Callable[[], None]) -> None:
        """One part; what goes wrong in it is noted, and the others go on."""
        try:
            work()
        except Exception as error:
            self.note("errors", name, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=8)}")

    def encode(
        self, rows: Sequence[StepRow], vocabulary: Vocabulary, form: Form, shown: Mapping[str, str] | None
    ) -> list[Example]:
        """`examples_of`, by several processes."""
        entries = [
            (r.leir_before, shown[r.leir_before] if shown else "", r.strategy, r.args, r.leir_after, r.reasoning)
            for r in rows
        ]
        size = max(1, len(entries) // (4 * self.options.encoders) + 1)
        parts = [(entries[n : n + size], vocabulary.to_json(), form) for n in range(0, len(entries), size)]
        return [one for part in self.encoders.imap(_encoded, parts) for one in part]

    def lesson(self, parts: Parts, form: Form, shown: Mapping[str, str] | None = None) -> Lesson:
        vocabulary = vocabulary_of(parts.learnt, form, shown)
        return Lesson(form, vocabulary, self.encode(parts.learnt, vocabulary, form, shown), shown)

    def evaluate(self, name: str, model: Any, lesson: Lesson, questions: Sequence[Question], samples: int = 1) -> None:
        """Replies now; scores by and by, while something else runs."""
        from stepTP.learn.decoding import Automaton

        begun = time.monotonic()
        automaton = Automaton(lesson.vocabulary, "schema", lesson.form.program)
        tasks = [q.task.model_copy(update={"needs_leir": lesson.form.program}) for q in questions]
        wanted = [q.model_copy(update={"task": task}) for q, task in zip(questions, tasks, strict=True)]
        most = min(self.options.most, MOST.get(name, MOST["leir"]))
        replies = replies_of(
            model, lesson.vocabulary, automaton, wanted, most, lesson.form, samples,
            0.0 if samples == 1 else 0.8, lesson.shown,
        )  # fmt: skip
        _write_lines(self.out / f"replies-{name}.jsonl", replies)
        decoded = time.monotonic() - begun

        def score() -> None:
            before = time.monotonic()
            judged = list(judge(wanted, replies, self.scorer, step_alone=lesson.form.program))
            _write_lines(self.out / f"scores-{name}.jsonl", judged)
            took = {"decode_s": round(decoded, 1), "score_s": round(time.monotonic() - before, 1)}
            self.note("evaluated", name, {**took, **summarise(judged)})

        self.pending.append(self.scoring.submit(self.stage, f"score {name}", score))

    def train(self, name: str, lesson: Lesson) -> Any:
        """A trained decoder; how it went is noted."""
        from stepTP.learn.model import SIZES, Shape
        from stepTP.learn.training import Plan, Trainer

        longest = 2048 if lesson.form.spelling != "leir" else 1536
        seconds = self.seconds(name)
        plan = Plan(seconds, self.options.steps, batch_tokens=self.options.batch_tokens, longest=longest)
        shape = Shape(lesson.vocabulary.size, **{**SIZES[self.options.size], "longest": 4096})
        trainer = Trainer(lesson.vocabulary, shape, plan, self.options.device)
        progress = trainer.train(lesson.examples, seconds)
        tokens = [len(one.tokens) for one in lesson.examples]
        self.note("trained", name, {
            "parameters": trainer.model.parameters_count(), "vocabulary": lesson.vocabulary.size,
            "examples": len(lesson.examples), "too_long": sum(size > longest for size in tokens),
            "tokens_an_example": round(sum(tokens) / len(tokens), 1),
            "tokens_an_answer": round(sum(len(e.tokens) - e.asked for e in lesson.examples) / len(tokens), 1),
            "steps": progress.step, "epochs": progress.epoch, "seconds": round(progress.seconds, 1),
            "tokens_a_second": round(progress.tokens / progress.seconds), "losses": _thinned(progress.losses),
        })  # fmt: skip
        if self.options.keep:
            trainer.save(self.out / name)
        return trainer.model

    def grpo(self, model: Any, lesson: Lesson, practice: Sequence[Question]) -> Any:
        from stepTP.learn.decoding import Automaton
        from stepTP.learn.reinforcement import GrpoPlan, Reinforcement

        automaton = Automaton(lesson.vocabulary, "schema", True)
        plan = GrpoPlan(states=self.options.states, samples=self.options.samples, most=min(self.options.most, 320))
        run = Reinforcement(model, lesson.vocabulary, automaton, practice, self.scorer, plan)
        rounds: list[dict[str, Any]] = []

        def told(entry: dict[str, Any]) -> None:
            rounds.append(entry)
            self.note("grpo", "rounds", rounds)

        run.run(self.seconds("grpo"), self.options.rounds, told)
        return model


def main() -> None:
    options = arguments()
    trial = Trial(options)
    parts = read_parts(options.run, limit=options.rows)
    questions = parts.questions(options.questions)
    practice = parts.practice(None)
    trial.found["about"] = {
        "run": options.run.name, "rows": len(parts.learnt), "programs": len({r.source.id for r in parts.learnt}),
        "held_out_families": parts.families, "held_out_programs": len({r.source.id for r in parts.held_out}),
        "questions": len(questions), "size": options.size, "device": options.device, "cores": os.cpu_count(),
        "decoding": "schema, greedy; -samples: temperature 0.8", "seconds": options.seconds,
    }  # fmt: skip
    # Workers take seconds to load their libraries: they begin while rows are encoded.
    first = questions[0]
    warm = trial.scoring.submit(trial.scorer.score_many, [("{}", first.task)] * (2 * (os.cpu_count() or 1)))
    leir = trial.lesson(parts, FORMS["leir"])
    trial.note("about", "encoded_s", round(time.monotonic() - trial.start, 1))
    kept: dict[str, Any] = {}

    def untrained() -> None:
        from stepTP.learn.model import SIZES, Decoder, Shape

        model = Decoder(Shape(leir.vocabulary.size, **{**SIZES[options.size], "longest": 4096})).to(options.device)
        trial.evaluate("untrained", model, leir, questions)

    def learn() -> None:
        kept["model"] = trial.train("leir", leir)
        trial.evaluate("leir", kept["model"], leir, questions)
        trial.evaluate("leir-samples", kept["model"], leir, questions[: max(1, len(questions) // 4)], samples=4)
        trial.evaluate("leir-seen", kept["model"], leir, practice[: len(questions) // 2])
        if known := parts.known_questions(len(questions) // 2):
            trial.evaluate("leir-known-families", kept["model"], leir, known)

    def shuffled() -> None:
        control = Lesson(leir.form, leir.vocabulary, with_other_answers(leir.examples, leir.vocabulary), None)
        trial.evaluate("shuffled", trial.train("shuffled", control), control, questions)

    def reasoning() -> None:
        lesson = trial.lesson(parts, FORMS["reasoning"])
        trial.evaluate("reasoning", trial.train("reasoning", lesson), lesson, questions)

    def tir() -> None:
        lesson = trial.lesson(parts, FORMS["tir"], kept["tir"].result())
        trial.evaluate("tir", trial.train("tir", lesson), lesson, questions)

    def grpo() -> None:
        model = trial.grpo(deepcopy(kept["model"]), leir, practice)
        trial.evaluate("grpo", model, leir, questions)
        trial.evaluate("grpo-samples", model, leir, questions[: max(1, len(questions) // 4)], samples=4)

    warm.result()
    if "tir" in options.stages:  # by worker processes, while the first decoder trains
        states = [q.task.state for q in questions] + [row.leir_before for row in parts.learnt]
        kept["tir"] = trial.spelling.submit(spelled, states, "tir", options.workers)
    for work in (untrained, learn, shuffled, reasoning, tir, grpo):
        if work.__name__ in options.stages or work is learn:
            trial.stage(work.__name__, work)
    for future in trial.pending:
        future.result()
    trial.scorer.close()
    trial.encoders.terminate()
    trial.note("about", "took_s", round(time.monotonic() - trial.start, 1))


def _encoded(part: tuple[list[tuple[Any, ...]], dict[str, Any], Form]) -> list[Example]:
    entries, words, form = part
    vocabulary = Vocabulary.from_json(words)
    return [
        example(before, shown or before, Step(strategy=strategy, args=args), after, reasoning, vocabulary, form)
        for before, shown, strategy, args, after, reasoning in entries
    ]


def _write_lines(file: Path, entries: Sequence[Any]) -> None:
    file.write_text("".join(entry.model_dump_json() + "\n" for entry in entries), encoding="utf-8")


def _thinned(losses: Sequence[Any], most: int = 60) -> list[Any]:
    step = max(1, len(losses) // most)
    return list(losses[::step]) + ([losses[-1]] if losses and (len(losses) - 1) % step else [])


def _short(value: Any) -> str:
    if isinstance(value, dict) and "rates" in value:
        rates = {name: e["value"] for name, e in value["rates"].items()}
        return f"{rates} in {value['decode_s']} + {value['score_s']} s"
    if isinstance(value, list) and value:
        value = value[-1]
    return str(value)[:400]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, or a file of its rows")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "out")))
    parser.add_argument("--seconds", type=float, default=540.0, help="of everything")
    parser.add_argument("--stages", nargs="*", default=["untrained", "shuffled", "reasoning", "tir", "grpo"])
    parser.add_argument("--size", default="small")
    parser.add_argument("--questions", type=int, default=256, help="states of held-out families")
    parser.add_argument("--rows", type=int, help="so many rows to learn from")
    parser.add_argument("--steps", type=int, help="at most so many steps of each decoder")
    parser.add_argument("--batch-tokens", type=int, default=32768)
    parser.add_argument("--states", type=int, default=32, help="of a round of GRPO")
    parser.add_argument("--samples", type=int, default=8, help="answers to each of them")
    parser.add_argument("--most", type=int, default=1000, help="tokens of an answer, at most")
    parser.add_argument("--rounds", type=int, help="at most so many rounds of GRPO")
    parser.add_argument("--workers", type=int, help="processes that score; one a core by default")
    parser.add_argument("--encoders", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--keep", action="store_true", help="keep checkpoints of the decoders")
    return parser.parse_args()


if __name__ == "__main__":
    main()
