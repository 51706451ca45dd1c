"""A course: several decoders learn from a run, one after the other, are examined and reinforced, in calls of minutes.

Each call does what is left, until its seconds are over. All it knows lies in a folder: lessons as tokens, checkpoints,
replies, scores, and `train.json`, so that the next call goes on, after a kill too. The seconds of a stage are of
training, over all calls. Examinations are decoded on the device when a stage ends, and scored by worker processes while
the next one trains.
"""

import json
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from stepTP.draw import digest
from stepTP.evaluate.metrics import Judged, changes, summarise
from stepTP.evaluate.questions import Question, Reply, read_lines
from stepTP.evaluate.single import judge
from stepTP.learn.decoding import Automaton
from stepTP.learn.examples import Example, Form, with_other_answers
from stepTP.learn.lessons import Lesson, packed, unpacked
from stepTP.learn.model import SIZES, Shape
from stepTP.learn.reinforcement import GrpoPlan, Reinforcement, expected_s
from stepTP.learn.training import CHECKPOINT, Plan, Trainer
from stepTP.learn.trial import Parts, replies_of, vocabulary_of
from stepTP.learn.vocabulary import Vocabulary
from stepTP.records import StepRow
from stepTP.rewards.shaping import Shaping
from stepTP.verify.scorer import Scorer

SHARES = {"reasoning": 0.4, "leir": 0.2, "shuffled": 0.2, "tir": 0.2}  # of the seconds of training
FORMS = {
    "leir": Form(),
    "shuffled": Form(),
    "reasoning": Form(reasoning=True),
    "tir": Form(program=False, spelling="tir"),
}
MOST = {"leir": 400, "shuffled": 400, "reasoning": 900, "tir": 120}  # tokens of an answer
ORDER = ("untrained", "reasoning", "leir", "shuffled", "tir", "grpo")
DECODING_S = 20.0  # that an examination may take on the device; none is begun with less time left
SAVE_S = 60.0  # between two checkpoints: what a kill may cost
ENDING_S = 8.0  # for the files of a call


@dataclass(frozen=True, slots=True)
class Settings:
    """`train_s`, `grpo_s`: seconds of all decoders together, and of reinforcement. `pupil`: whom it reinforces.

    `questions`: states of held-out families; half as many of known families, and of states that were learnt.
    `programs`: whose states reinforcement practises on: few enough that workers keep what they know of each. `shared`:
    whether its answers share what equality adds.
    """

    train_s: float = 840.0
    grpo_s: float = 360.0
    stages: tuple[str, ...] = ORDER
    pupil: str = "reasoning"
    size: str = "small"
    questions: int = 256
    batch_tokens: int = 32768
    longest: int = 1536
    most: int = 1000
    states: int = 32
    samples: int = 8
    programs: int = 96
    shared: bool = False
    steps: int | None = None
    device: str = "cuda"
    workers: int | None = None


Encode = Callable[[Sequence[StepRow], Vocabulary, Form, Mapping[str, str] | None], list[Example]]


@dataclass
class Course:
    """One call. `encode`: examples of rows, by as many processes as there are; `spell`: texts of states as TIR."""

    folder: Path
    parts: Parts
    settings: Settings
    scorer: Scorer
    encode: Encode
    spell: Callable[[Iterable[str]], Mapping[str, str]]
    ends: float
    told: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        known = self.folder / "train.json"
        empty: dict[str, Any] = {"about": {}, "trained": {}, "evaluated": {}, "grpo": {}, "errors": {}}
        self.told = json.loads(known.read_text()) if known.is_file() else empty
        self._noting = threading.Lock()
        self._scoring = ThreadPoolExecutor(1)
        self._spelling = ThreadPoolExecutor(1)
        self._pending: list[Future[None]] = []
        self._spelled: Future[Mapping[str, str]] | None = None
        self._lessons: dict[str, Lesson] = {}
        half = max(1, self.settings.questions // 2)
        self.questions = self.parts.questions(self.settings.questions)
        seen = self.parts.practice(None)
        order = sorted({q.source_id for q in seen}, key=lambda source: digest("practice", source))
        chosen = frozenset(order[: self.settings.programs])
        self.practice = [question for question in seen if question.source_id in chosen]
        self.exams: dict[str, list[Question]] = {
            "": self.questions,
            "samples": self.questions[: max(1, half // 2)],
            "seen": seen[:half],
            "known-families": self.parts.known_questions(half),
        }

    def left(self) -> float:
        return self.ends - time.monotonic()

    def run(self) -> bool:
        """Does what is left; whether nothing is. What goes wrong in a stage is noted, and the others go on."""
        if "tir" in self.settings.stages and not self._file("tir", "lesson").is_file():
            states = [q.task.state for q in self.questions] + [row.leir_before for row in self.parts.learnt]
            self._spelled = self._spelling.submit(self.spell, states)  # while the first decoder trains
        whole = True
        for name in (name for name in ORDER if name in self.settings.stages):
            self.told["errors"].pop(name, None)
            whole &= self._guarded(name, lambda name=name: self._stage(name))
        for future in self._pending:
            try:
                future.result(timeout=max(0.1, self.left() - ENDING_S))
            except TimeoutError:
                whole = False
        return whole and self._is_scored()

    def close(self) -> None:
        self._scoring.shutdown(wait=False, cancel_futures=True)
        self._spelling.shutdown(wait=False, cancel_futures=True)

    def _guarded(self, name: str, work: Callable[[], bool]) -> bool:
        try:
            return work()
        except Exception as error:
            self._note("errors", name, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=8)}")
            return False

    def _stage(self, name: str) -> bool:
        """One decoder, as far as the time goes; whether it is done."""
        if self.left() < DECODING_S and not self._is_answered(name):
            return False
        if name == "grpo":
            return self._reinforce()
        return self._learn(name)

    def _learn(self, name: str) -> bool:
        if self._is_answered(name):
            self._examine(name, None)
            return True
        lesson = self._lesson("leir" if name == "untrained" else name)
        trainer = self._trainer(name, lesson)
        while name != "untrained" and trainer.progress.share(trainer.plan) < 1:
            if (seconds := self.left() - DECODING_S) <= 0:
                return False
            trainer.train(lesson.examples, min(SAVE_S, seconds))
            trainer.save(self.folder / name)
            self._note("trained", name, _progress(trainer, lesson))
        self._examine(name, trainer)
        return self._is_answered(name)

    def _trainer(self, name: str, lesson: Lesson) -> Trainer:
        settings = self.settings
        if (self.folder / name / CHECKPOINT).is_file():
            trainer = Trainer.load(self.folder / name, settings.device)
            if trainer.vocabulary.to_json() != lesson.vocabulary.to_json():
                raise ValueError(f"{self.folder / name}: a decoder of other rows: give those, or another folder")
            return trainer
        longest = settings.longest if lesson.form.spelling == "leir" else settings.longest * 4 // 3
        plan = Plan(self._seconds(name), settings.steps, batch_tokens=settings.batch_tokens, longest=longest)
        sizes = {**SIZES[settings.size], "longest": max(4096, longest)}
        return Trainer(lesson.vocabulary, Shape(lesson.vocabulary.size, **sizes), plan, settings.device)

    def _seconds(self, name: str) -> float:
        """Of training: a stage that is left out gives its share to the others."""
        total = sum(share for stage, share in SHARES.items() if stage in self.settings.stages)
        return max(1.0, SHARES.get(name, 0.0) / max(total, 1e-9) * self.settings.train_s)

    def _lesson(self, name: str) -> Lesson:
        """The lesson of a stage: made once, and kept."""
        if name in self._lessons:
            return self._lessons[name]
        file = self._file("leir" if name == "shuffled" else name, "lesson")
        if file.is_file():
            lesson = unpacked(file.read_bytes())
        else:
            form = FORMS["leir" if name == "shuffled" else name]
            shown = self._spelled.result() if form.spelling != "leir" and self._spelled is not None else None
            vocabulary = vocabulary_of(self.parts.learnt, form, shown)
            lesson = Lesson(form, vocabulary, self.encode(self.parts.learnt, vocabulary, form, shown), shown)
            beside = file.with_suffix(".part")
            beside.write_bytes(packed(lesson))
            beside.replace(file)
        if name == "shuffled":
            lesson = replace(lesson, examples=with_other_answers(lesson.examples, lesson.vocabulary))
        self._lessons[name] = lesson
        return lesson

    def _exams_of(self, name: str) -> tuple[str, ...]:
        return ("", "samples", "seen", "known-families") if name in (self.settings.pupil, "grpo", "leir") else ("",)

    def _examine(self, stage: str, trainer: Trainer | None) -> None:
        """Replies now, as far as the time goes; scores by and by, while something else runs. None: all has replies."""
        lesson_name = {"untrained": "leir", "grpo": self.settings.pupil}.get(stage, stage)
        form = FORMS[lesson_name]
        for exam in self._exams_of(stage):
            called = f"{stage}-{exam}" if exam else stage
            questions = [
                q.model_copy(update={"task": q.task.model_copy(update={"needs_leir": form.program})})
                for q in self.exams[exam]
            ]
            file = self._file(called, "replies")
            if not questions or (called in self.told["evaluated"] and file.is_file()):
                continue
            if not file.is_file():
                if trainer is None or self.left() < DECODING_S:
                    return
                shown = self._lesson(lesson_name).shown if form.spelling != "leir" else None
                most = min(self.settings.most, MOST[lesson_name])
                samples = 4 if exam == "samples" else 1
                automaton = Automaton(trainer.vocabulary, "schema", form.program)
                temperature = 0.8 if samples > 1 else 0.0
                replies = replies_of(
                    trainer.model, trainer.vocabulary, automaton, questions, most, form, samples, temperature, shown
                )
                _write_lines(file, replies)
            self._pending.append(self._scoring.submit(self._score, called, questions, form.program))

    def _score(self, name: str, questions: Sequence[Question], program: bool) -> None:
        def work() -> bool:
            replies = list(read_lines(self._file(name, "replies"), Reply))
            begun = time.monotonic()
            judged = list(judge(questions, replies, self.scorer, step_alone=program, at_once=max(1, len(replies))))
            _write_lines(self._file(name, "scores"), judged)
            found = {"score_s": round(time.monotonic() - begun, 1), **summarise(judged)}
            if moved := self._moved(name, judged):
                found["moved"] = moved
            self._note("evaluated", name, found)
            return True

        self._guarded(f"score {name}", work)

    def _moved(self, name: str, judged: Sequence[Judged]) -> dict[str, Any]:
        """What reinforcement changed in an examination, answer by answer; empty for other stages."""
        stage, _, exam = name.partition("-")
        pupil = self.settings.pupil
        before = self._file(f"{pupil}-{exam}" if exam else pupil, "scores")
        if stage != "grpo" or not before.is_file():
            return {}
        return changes(list(read_lines(before, Judged)), judged)

    def _reinforce(self) -> bool:
        """GRPO of the pupil, round after round, from where the last call left it; of one that was restored, alone."""
        settings = self.settings
        if settings.pupil in settings.stages and not self._is_answered(settings.pupil):
            return False
        told = self.told["grpo"]
        spent: float = told.get("seconds", 0.0)
        over = spent + expected_s(told.get("rounds", [])) >= settings.grpo_s
        if over and self._is_answered("grpo"):
            self._examine("grpo", None)
            return True
        if not over:
            self._forget("grpo")  # what was examined, if anything was, will be another decoder
        place = next((name for name in ("grpo", settings.pupil) if (self.folder / name / CHECKPOINT).is_file()), None)
        if place is None:
            raise ValueError(f"{self.folder}: no decoder to reinforce: train it first, or restore it")
        trainer = Trainer.load(self.folder / place, settings.device)
        automaton = Automaton(trainer.vocabulary, "schema", True)
        most, shaping = min(settings.most, MOST[settings.pupil]), Shaping(shared=settings.shared)
        plan = GrpoPlan(states=settings.states, samples=settings.samples, most=most, shaping=shaping)
        run = Reinforcement(trainer.model, trainer.vocabulary, automaton, self.practice, self.scorer, plan)
        if place == "grpo":
            run.go_on(told.get("rounds", []), trainer.optimiser)
        else:
            spent = 0.0  # rounds whose decoder was lost do not count
        trainer.optimiser = run.optimiser
        begun = saved = time.monotonic()

        def keep() -> None:
            nonlocal saved
            trainer.save(self.folder / "grpo")
            saved = time.monotonic()
            self._note("grpo", "rounds", [*run.history], seconds=round(spent + saved - begun, 1))

        def heard(entry: dict[str, Any]) -> None:
            print(f"{self.left():6.1f} s left  round {entry}", flush=True)
            if time.monotonic() - saved >= SAVE_S:
                keep()

        run.run(min(settings.grpo_s - spent, self.left() - 2 * DECODING_S), told=heard)
        keep()
        if self.told["grpo"]["seconds"] + run.expected_s < settings.grpo_s:
            return False
        self._examine("grpo", trainer)
        return self._is_answered("grpo")

    def _forget(self, stage: str) -> None:
        """Drops what the examinations of a stage gave."""
        for exam in self._exams_of(stage):
            called = f"{stage}-{exam}" if exam else stage
            with self._noting:
                self.told["evaluated"].pop(called, None)
            for kind in ("replies", "scores"):
                self._file(called, kind).unlink(missing_ok=True)

    def _is_answered(self, stage: str) -> bool:
        """Whether all examinations of a stage have their replies."""
        names = [f"{stage}-{exam}" if exam else stage for exam in self._exams_of(stage) if self.exams[exam]]
        return all(self._file(name, "replies").is_file() for name in names)

    def _is_scored(self) -> bool:
        return all(
            (f"{stage}-{exam}" if exam else stage) in self.told["evaluated"]
            for stage in self.settings.stages
            for exam in self._exams_of(stage)
            if self.exams[exam]
        )

    def _file(self, name: str, kind: str) -> Path:
        return self.folder / f"{kind}-{name}.{'npz' if kind == 'lesson' else 'jsonl'}"

    def _note(self, section: str, name: str, value: Any, **others: Any) -> None:
        with self._noting:  # scores come from another thread
            self.told[section].update({name: value, **others})
            beside = self.folder / "train.part"
            beside.write_text(json.dumps(self.told, indent=1) + "\n", encoding="utf-8")
            beside.replace(self.folder / "train.json")
        print(f"{self.left():6.1f} s left  {section} {name}: {_short(value)}", flush=True)


def _write_lines(file: Path, entries: Sequence[Reply] | Sequence[Judged]) -> None:
    beside = file.with_suffix(".part")
    beside.write_text("".join(entry.model_dump_json() + "\n" for entry in entries), encoding="utf-8")
    beside.replace(file)


def _progress(trainer: Trainer, lesson: Lesson) -> dict[str, Any]:
    progress, tokens = trainer.progress, [len(one.tokens) for one in lesson.examples]
    losses = progress.losses
    step = max(1, len(losses) // 60)
    return {
        "parameters": trainer.model.parameters_count(), "vocabulary": lesson.vocabulary.size,
        "examples": len(lesson.examples), "too_long": sum(size > trainer.plan.longest for size in tokens),
        "tokens_an_example": round(sum(tokens) / len(tokens), 1),
        "tokens_an_answer": round(sum(len(e.tokens) - e.asked for e in lesson.examples) / len(tokens), 1),
        "steps": progress.step, "epochs": progress.epoch, "seconds": round(progress.seconds, 1),
        "of_plan": round(progress.share(trainer.plan), 3),
        "tokens_a_second": round(progress.tokens / max(progress.seconds, 1e-9)), "losses": losses[::step],
    }  # fmt: skip


def _short(value: Any) -> str:
    if isinstance(value, dict) and "rates" in value:
        return f"{ {name: e['value'] for name, e in value['rates'].items()} } in {value['score_s']} s"
    if isinstance(value, list) and value:
        value = value[-1]
    return str(value)[:400]
