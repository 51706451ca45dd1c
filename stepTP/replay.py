"""The pool task that takes steps again: from their JSON, and from their reasoning."""

from collections.abc import Iterator
from typing import Any

from leir.canonical import state_id
from leir.parser import ParseError, parse
from leir.printer import to_text
from stepTP.answer import NotAnAnswer, read_answer
from stepTP.narrate.recover import recover_step
from strategies.base import Refused
from strategies.catalog import StepError, parse_step


def replay(payload: dict[str, Any]) -> list[dict[str, str]]:
    """What differs, as {id, message}; empty where every row's step gives its text, facts and states again."""
    return [{"id": row["id"], "message": message} for row in payload["rows"] for message in _differences(row)]


def _differences(row: dict[str, Any]) -> Iterator[str]:
    try:
        before = parse(row["before"], row["id"])
    except ParseError as error:
        yield f"the program before does not parse: {error}"
        return
    if to_text(before) != row["before"]:
        yield "the program before is not in its printed form"
    if state_id(before) != row["state_id_before"]:
        yield f"the state before is {state_id(before)[:8]}, recorded is {row['state_id_before'][:8]}"
    try:
        step = parse_step(row["step"])
        applied = step.apply(before)
    except (StepError, Refused) as error:
        yield str(error)
        return
    if to_text(applied.program) != row["after"]:
        yield "the step gives another text"
    if state_id(applied.program) != row["state_id_after"]:
        yield f"the state after is {state_id(applied.program)[:8]}, recorded is {row['state_id_after'][:8]}"
    facts = [{"name": fact.name, "holds": fact.holds, "evidence": fact.evidence} for fact in applied.facts]
    if facts != row["facts"]:
        yield "the facts differ"
    if _read(row["answer"]) != {**row["step"], "leir": row["after"]}:
        yield "the answer is not the step and its program"
    if recover_step(row["reasoning"], before) != step:
        yield "the reasoning gives another step"


def _read(answer: str) -> dict[str, Any] | None:
    """What the answer says; None where it is none."""
    try:
        return read_answer(answer).model_dump()
    except NotAnAnswer:
        return None
