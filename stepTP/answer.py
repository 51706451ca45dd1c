"""The answer of a step, `{"strategy": ..., "args": {...}, "leir": "..."}`: what a label is and what a model replies.

`write_answer` makes the label, `form` says in a prompt what is wanted, and `read_answer` finds the answer in a model's
reply. A reply is hostile text: reading it takes time in proportion to its length, and any text gives an `Answer` or
`NotAnAnswer`. Call it where the recursion limit is Python's default: JSON is nested as deep as that allows.
"""

import json
import math
import re
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from stepTP.records import Step

LONGEST = 1 << 18  # characters of a reply after its thought
_END_OF_THOUGHT = "</think>"
_START = re.compile(r'\{\s*"(?:strategy|args|leir)"\s*:')  # braces of LEIR and prose begin no answer
_TRIES = 64  # objects that are begun and are no JSON
_DIGITS = 19  # of an integer: what i64 has
_DEEPEST = 16  # lists and objects inside each other


def form(*, leir: bool = True, thought: bool = True) -> str:
    """How a prompt asks for an answer: with the program after the step or without, after a thought or at once."""
    wanted = (
        '{"strategy": NAME, "args": {...}, "leir": PROGRAM}: the strategy, its arguments, and the program after the '
        "step as LEIR text."
        if leir
        else '{"strategy": NAME, "args": {...}}: the strategy and its arguments.'
    )
    before = " What you think goes between <think> and </think>, before it." if thought else ""
    return f"Answer with one JSON object, {wanted}{before}"


FORM = form()


class NotAnAnswer(ValueError):
    """A text holds no answer: `code` (kebab-case) and `reason`."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Answer(BaseModel):
    """A step, the program after it, or both; null is as good as absent."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: str | None = None
    args: dict[str, Any] | None = None
    leir: str | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.strategy is None) != (self.args is None):
            raise ValueError("strategy and args go together")
        if self.strategy is None and self.leir is None:
            raise ValueError("neither a step nor a program is given")
        return self

    @property
    def step(self) -> Step | None:
        """The step that is claimed."""
        if self.strategy is None or self.args is None:
            return None
        return Step(strategy=self.strategy, args=self.args)


def write_answer(step: Step, leir: str | None) -> str:
    """The answer of a step, one line of JSON; None: without the program after it."""
    program = {} if leir is None else {"leir": leir}
    text = json.dumps({"strategy": step.strategy, "args": step.args, **program}, separators=(", ", ": "))
    return text.replace("<think>", "\\u003cthink>").replace("</think>", "\\u003c/think>")  # only thoughts have marks


def with_thought(reasoning: str, answer: str) -> str:
    """A reply: what was thought, then the answer, as `read_answer` takes it apart."""
    return f"<think>\n{reasoning.strip()}\n</think>\n\n{answer}"


def read_answer(text: str) -> Answer:
    """The answer in a reply: the last JSON object after the thought that begins with one of the three keys.

    Prose, code fences and objects of other kinds may stand around it. Raises NotAnAnswer.
    """
    place = text.rfind(_END_OF_THOUGHT)
    said = text if place < 0 else text[place + len(_END_OF_THOUGHT) :]
    if "<think>" in said:
        raise NotAnAnswer("unfinished-thought", "the thought does not end")
    if len(said) > LONGEST:
        raise NotAnAnswer("too-long", f"{len(said)} characters after the thought, of {LONGEST} that are read")
    found, problems = _last_object(said)
    if problems:
        raise NotAnAnswer(*problems[0])
    if _depth(found) > _DEEPEST:
        raise NotAnAnswer("too-deep", f"lists and objects stand more than {_DEEPEST} deep")
    try:
        return Answer.model_validate(found, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the object"
        raise NotAnAnswer("other-schema", f"{where}: {first['msg']}") from None


_Problems = list[tuple[str, str]]


def _last_object(text: str) -> tuple[Any, _Problems]:
    """The last whole object that begins like an answer, and what is wrong with it though it is JSON."""
    found: tuple[Any, _Problems] | None = None
    place, failures, reason = 0, 0, "no JSON object begins with strategy, args or leir"
    while (start := _START.search(text, place)) is not None:
        problems: _Problems = []
        try:
            value, place = _decoder(problems).raw_decode(text, start.start())
        except (json.JSONDecodeError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
            reason = f"the object at character {start.start() + 1} is no JSON: {why}"
            place, failures = start.end(), failures + 1
            if failures > _TRIES:
                raise NotAnAnswer("no-object", f"more than {_TRIES} objects are begun that are no JSON") from None
        else:
            found = value, problems
    if found is None:
        raise NotAnAnswer("no-object", reason)
    return found


def _decoder(problems: _Problems) -> json.JSONDecoder:
    """A decoder that notes what Python reads and JSON, or i64, does not have."""

    def names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            problems.append(("duplicate-key", "an object has one key twice"))
        return read

    def integer(digits: str) -> int:
        if len(digits.lstrip("-")) > _DIGITS:
            problems.append(("number-out-of-range", f"an integer has {len(digits)} digits"))
            return 0
        return int(digits)

    def real(text: str) -> float:
        value = float(text)
        if math.isinf(value):
            problems.append(("number-out-of-range", "a number overflows f64"))
        return value

    def constant(name: str) -> float:
        problems.append(("number-out-of-range", f"JSON has no {name}"))
        return 0.0

    return json.JSONDecoder(
        object_pairs_hook=names, parse_int=integer, parse_float=real, parse_constant=constant
    )  # fmt: skip


def _depth(value: Any) -> int:
    """How many lists and objects stand inside each other."""
    depth, level = 0, [value]
    while level := [v for v in level if isinstance(v, dict | list)]:
        depth += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
    return depth
