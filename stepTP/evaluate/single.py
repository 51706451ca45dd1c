"""Single-step evaluation: ask, judge, and keep everything, so that a run that was stopped goes on where it was."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from stepTP.answer import NotAnAnswer, form, read_answer
from stepTP.chat import Endpoint
from stepTP.evaluate.metrics import Judged
from stepTP.evaluate.questions import Question, Reply, read_lines
from stepTP.prompt import Spelling, catalog_text, prompt
from stepTP.verify.report import ScoreReport, Task
from stepTP.verify.scorer import Scorer

REPLIES, SCORES = "replies.jsonl", "scores.jsonl"
CHUNK = 32  # answers that are scored together, and then written

Progress = Callable[[int, int], None]  # done, of


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are put. `explain`: list the strategies, for a model that has not learnt them; `thought`: ask for
    one; `texts`: the states in another spelling, by their LEIR."""

    explain: bool = False
    thought: bool = True
    spelling: Spelling = "leir"
    texts: Mapping[str, str] = field(default_factory=dict[str, str])

    def messages(self, question: Question) -> list[dict[str, str]]:
        """The prompt of a question."""
        state = question.task.state
        wanted = form(leir=question.task.needs_leir, thought=self.thought)
        found = prompt(self.texts.get(state, state), wanted, self.spelling)
        if self.explain:
            found[0]["content"] += f"\n\nThe strategies:\n{catalog_text()}"
        return found


def ask_endpoint(
    questions: Sequence[Question],
    endpoint: Endpoint,
    out: Path,
    samples: int = 1,
    workers: int = 8,
    asking: Asking | None = None,
    progress: Progress | None = None,
) -> list[Reply]:
    """`samples` replies to each question, in order; those that `out` holds already are not asked for again.

    The reply's text has the thought that a server keeps apart. Raises ChatError; what came before is kept in `out`.
    """
    put = asking or Asking()
    file = out / REPLIES
    have = {(r.question, r.sample): r for r in read_lines(file, Reply)} if file.is_file() else {}
    wanted = [(question, sample) for question in questions for sample in range(samples)]
    missing = [(q, n) for q, n in wanted if (q.id, n) not in have]
    lock = threading.Lock()
    _rewrite(file, have.values())

    def ask(question: Question, sample: int) -> Reply:
        found = endpoint.complete(put.messages(question), seed=sample)
        thought = f"<think>{found.thought}</think>" if found.thought else ""
        reply = Reply(
            question=question.id,
            sample=sample,
            text=thought + found.text,
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
            seconds=found.seconds,
        )
        with lock, file.open("a", encoding="utf-8") as lines:
            lines.write(reply.model_dump_json() + "\n")
        return reply

    threads = ThreadPoolExecutor(workers)
    try:
        asked = [threads.submit(ask, *one) for one in missing]
        for done, future in enumerate(as_completed(asked), 1):
            reply = future.result()
            have[reply.question, reply.sample] = reply
            if progress:
                progress(done, len(missing))
    finally:
        threads.shutdown(wait=True, cancel_futures=True)
    return [have[question.id, sample] for question, sample in wanted]


def _rewrite(file: Path, entries: Iterable[Reply]) -> None:
    """The file with whole lines alone: what a kill cut is gone, so that more may be appended."""
    beside = file.with_suffix(".part")
    beside.write_text("".join(entry.model_dump_json() + "\n" for entry in entries), encoding="utf-8")
    beside.replace(file)


def judge(
    questions: Sequence[Question],
    replies: Sequence[Reply],
    scorer: Scorer,
    measure: bool = False,
    step_alone: bool = False,
    progress: Progress | None = None,
    at_once: int = CHUNK,
) -> Iterator[Judged]:
    """What becomes of replies, in their order. `step_alone`: judge strategy and arguments without the program, too."""
    asked = {question.id: question for question in questions}
    for start in range(0, len(replies), at_once):
        chunk = replies[start : start + at_once]
        answered = [(reply.text, asked[reply.question].task) for reply in chunk]
        reports = scorer.score_many(answered, measure=measure)
        steps: Sequence[ScoreReport | None] = [None] * len(chunk)
        if step_alone:
            steps = _judge_steps(answered, reports, scorer)
        for reply, report, step in zip(chunk, reports, steps, strict=True):
            question = asked[reply.question]
            yield Judged(
                question=question.id,
                sample=reply.sample,
                family=question.family,
                source_id=question.source_id,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                seconds=reply.seconds,
                report=report,
                step=step,
            )
        if progress:
            progress(min(start + at_once, len(replies)), len(replies))


def _judge_steps(
    answered: Sequence[tuple[str, Task]], reports: Sequence[ScoreReport], scorer: Scorer
) -> list[ScoreReport]:
    """The reports on the steps alone. One that is legal with its program needs no second judgement."""
    result = list(reports)
    open_ = {n: step_of(text) for n, (text, _) in enumerate(answered) if reports[n].legal.status != "pass"}
    steps = {n: step for n, step in open_.items() if step is not None}
    again = scorer.score_many(
        (step, answered[n][1].model_copy(update={"needs_leir": False})) for n, step in steps.items()
    )
    for n, report in zip(steps, again, strict=True):
        result[n] = report
    return result


def step_of(text: str) -> str | None:
    """The answer in a reply without its program; None where there is no answer, or no step in it."""
    try:
        step = read_answer(text).step
    except NotAnAnswer:
        return None
    return None if step is None else json.dumps(step.model_dump())
