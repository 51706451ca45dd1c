"""Rephrasing by a teacher model: the reasoning of a step in other words, kept only where it passes the same checks.

A reply is checked as the original is: what it names is in the programs, the evidence or the original, the step can be
read back from it, and it is no longer than the original may be. It may claim nothing that the original does not: words
of speed and praise that are not there are refused. What fails is asked for again, with the reason.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

from stepTP.narrate.call import call_text
from stepTP.narrate.compose import LENGTH, length
from stepTP.records import RephrasingRow, Step, StepRow, row_id

CHECK = "stepTP.narrate.teacher.check"

INSTRUCTIONS = """You rewrite explanations of one optimisation step on a tensor program.

Keep the meaning: every reason, every precondition with its evidence, every number, tensor, loop and line. Add nothing:
no number, name, speedup, praise or guess that is not in the text. Write plain, dense English in two or three
paragraphs, at most 250 words, without headings, lists or bold. The step itself stands once, exactly as given, in
backticks; other steps stand without backticks. Begin otherwise than the text does, and order its points anew where that
reads well. Answer with the rewritten explanation alone."""

# What a step brings in time was not computed, so the original does not say it; stems of such words, and of praise.
_CLAIMS = re.compile(
    r"\b(?:faster|fastest|slower|speed\w*|latency|throughput|bandwidth|efficien\w+|optimal\w*|significant\w*|"
    r"dramatic\w*|huge\w*|massive\w*|simply|obvious\w*|clearly|drastic\w*|powerful|percent|twice|thrice|half|double[sd]?|"
    r"triple[sd]?|milliseconds?|microseconds?)\b",
    re.IGNORECASE,
)


class Teacher(Protocol):
    """What replies: `stepTP.chat.Endpoint`."""

    @property
    def model(self) -> str: ...

    def complete(self, messages: Sequence[dict[str, str]], seed: int | None = None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Rephrasing:
    """How to ask: `attempts` replies a step at most, `requests` steps at once; `failures` in a row, and it ends."""

    attempts: int = 3
    requests: int = 8
    failures: int = 8


def check(payload: dict[str, Any]) -> str:
    """What speaks against a reply, in one line; empty where it may stand. For the pool.

    Payload: `text`, `original`, `before`, `after`, `step`, `evidence` (texts).
    """
    from leir.parser import parse
    from stepTP.narrate.ground import ungrounded
    from stepTP.narrate.recover import recover_step

    text, original, step = payload["text"], payload["original"], Step(**payload["step"])
    if not text.strip():
        return "it is empty"
    if length(text) > 1.1 * LENGTH:
        return f"it is longer than {LENGTH} tokens"
    if re.search(r"^\s*(?:[-*#>]|\d+[.)]\s)|\*\*|```", text, re.MULTILINE):
        return "it has headings, lists, bold or blocks of code"
    strange = ungrounded(text, payload["before"], payload["after"], [*payload["evidence"], original])
    if strange:
        return f"{', '.join(strange)}: neither in the programs nor in the original"
    known = {word.lower() for word in _CLAIMS.findall(original)}
    claims = [word for word in _CLAIMS.findall(text) if word.lower() not in known]
    if claims:
        return f"{', '.join(dict.fromkeys(claims))}: the original claims nothing of the kind"
    recovered = recover_step(text, parse(payload["before"]))
    if recovered is None or recovered.to_json() != step.model_dump():
        return f"`{call_text(step)}` must stand in it once, in backticks, and no other step in backticks"
    if " ".join(text.split()) == " ".join(original.split()):
        return "it is the original"
    return ""


def rephrased(
    rows: Iterable[StepRow],
    teacher: Teacher,
    judge: Callable[[dict[str, Any]], str],
    settings: Rephrasing | None = None,
    known: Iterable[str] = (),
) -> Iterator[RephrasingRow]:
    """One row for each step that is not `known` by the id of its rephrasing, in order. `judge` runs `check`.

    Raises ChatError where so many steps in a row had no answer that none is to be hoped for.
    """
    from stepTP.chat import ChatError

    settings = settings or Rephrasing()
    done = frozenset(known)
    missing = [row for row in rows if rephrasing_id(row, teacher.model) not in done]
    threads = ThreadPoolExecutor(settings.requests)
    try:
        failed = 0
        for found in threads.map(lambda row: _rephrased(row, teacher, judge, settings.attempts), missing):
            yield found
            failed = failed + 1 if found.status == "failed" else 0
            if failed == settings.failures:
                raise ChatError(f"{found.message} ({failed} steps in a row)")
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def rephrasing_id(row: StepRow, model: str) -> str:
    """The id that the rephrasing of a step by a model has: another reasoning, or another prompt, is another one."""
    return row_id("rephrasing", row.id, model, _prompt_sha(row))


def _rephrased(row: StepRow, teacher: Teacher, judge: Callable[[dict[str, Any]], str], attempts: int) -> RephrasingRow:
    from stepTP.chat import ChatError

    messages = _messages(row)
    found: dict[str, Any] = {"status": "failed", "message": "", "text": ""}
    tokens: list[tuple[int | None, int | None]] = []
    for attempt in range(1, attempts + 1):
        try:
            reply = teacher.complete(messages, seed=attempt)
        except ChatError as error:
            found = {"status": "failed", "message": str(error), "text": found["text"]}
            break
        tokens.append((reply.prompt_tokens, reply.completion_tokens))
        text = "\n\n".join(" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", reply.text.strip()))
        problem = judge(_payload(row, text))
        found = {"status": "refused" if problem else "ok", "message": problem, "text": text}
        if not problem:
            break
        messages = [
            *_messages(row),
            {"role": "assistant", "content": reply.text},
            {"role": "user", "content": f"This cannot stand: {problem}. Write it again."},
        ]
    return RephrasingRow(
        id=rephrasing_id(row, teacher.model),
        step=row.id,
        model=teacher.model,
        prompt=_prompt_sha(row),
        attempts=max(len(tokens), 1),
        **found,
        prompt_tokens=_total([used for used, _ in tokens]),
        completion_tokens=_total([made for _, made in tokens]),
    )


def _messages(row: StepRow) -> list[dict[str, str]]:
    call = call_text(Step(strategy=row.strategy, args=row.args))
    asked = (
        f"The program before the step, in LEIR (top-level statements are counted from 0):\n{row.leir_before}\n"
        f"The step: `{call}`\n\nThe program after it:\n{row.leir_after}\nThe explanation to rewrite:\n{row.reasoning}"
    )
    return [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": asked}]


def _payload(row: StepRow, text: str) -> dict[str, Any]:
    return {
        "text": text,
        "original": row.reasoning,
        "before": row.leir_before,
        "after": row.leir_after,
        "step": {"strategy": row.strategy, "args": row.args},
        "evidence": [fact.evidence for fact in row.facts],
    }


def _prompt_sha(row: StepRow) -> str:
    return hashlib.sha256("\0".join(message["content"] for message in _messages(row)).encode()).hexdigest()


def _total(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
