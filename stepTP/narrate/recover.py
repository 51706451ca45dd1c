"""Reads the step back from a reasoning text: the one call in backticks that the program before the step takes."""

import re

from leir.syntax import Program
from stepTP.narrate.call import NotACall, parse_call
from strategies.base import Strategy
from strategies.catalog import StepError, names, parse_step


def recover_step(reasoning: str, before: Program) -> Strategy | None:
    """The step that the text takes from `before`; None where it names none, several, or one that has no place there.

    Steps that the text only mentions stand without backticks; code in backticks is no call of a strategy.
    """
    found: list[Strategy] = []
    for quoted in re.findall(r"`([^`]*)`", reasoning):
        if quoted.partition("(")[0] not in names():
            continue
        try:
            found.append(parse_step(parse_call(quoted).model_dump()))
        except (NotACall, StepError):
            return None
    if len(found) != 1:
        return None
    first = next(found[0].facts(before), None)
    return found[0] if first is not None and first.holds else None
