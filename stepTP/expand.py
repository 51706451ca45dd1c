"""What can be done at one state: the pool task that asks the strategies.

A state may have hundreds of candidates. Each strategy's are ordered by a hash of (seed, source, state, strategy, step)
and tried in that order, until enough are legal or enough were tried. A strategy with few candidates is so tried whole,
and no strategy's draws depend on another's.
"""

import json
from contextlib import suppress
from typing import Any

from leir.analysis import polynomials
from leir.canonical import state_id
from leir.parser import parse, parse_expression
from leir.printer import to_text
from leir.syntax import Program
from stepTP.draw import digests
from strategies.base import Applied, Fact, Refused, Strategy
from strategies.catalog import strategy
from strategies.grid import Grid
from strategies.index import LEVELS, modules

_KEYS = json.JSONEncoder(sort_keys=True)  # of candidates: `json.dumps` makes an encoder each time


def warm() -> None:
    """Loads what the first states need. A strategy that does not load is reported where it is asked."""
    polynomials.warm()
    parse_expression("0.0")
    parse("in A_{1};out C_{1};\nL^{1}_i[C_i=A_i;]\n")
    for name in (name for level in LEVELS for name in modules(level)):
        with suppress(Exception):
            strategy(name)


warm()  # once for all workers: they are forked from the process that imports this


def expand(payload: dict[str, Any]) -> dict[str, Any]:
    """The legal steps and the refusals at a state.

    Payload: `leir`, `seed`, `source`, `strategies` (names, in the order in which they are asked), `wanted` (how many of
    them may give steps; None: all), `always` (those that are asked beyond that number), `per_strategy` (legal steps
    wanted of each), `attempts`, `grid` (what of it differs from the default), `earlier` (ids of states; a step that
    leads to one is given beyond any number), `back` (strategies that are asked for such a step, also beyond the
    number). Result: `candidates` (how many each strategy proposed), `steps` and `refusals`, in order of asking and
    draw. A step is {strategy, level, args, bit_exact, facts, leir, state_id}; a refusal has the first three and
    `facts`, of which the last does not hold.
    """
    program = parse(payload["leir"])
    here, grid = state_id(program), Grid.model_validate(payload["grid"])
    result: dict[str, Any] = {"candidates": {}, "steps": [], "refusals": []}
    giving = 0
    for name in payload["strategies"]:
        always, back = name in payload["always"], name in payload["back"]
        on = payload["per_strategy"] if always or giving != payload["wanted"] else 0
        if not on and not back:
            continue
        ordered = in_drawn_order(strategy(name), program, payload["seed"], payload["source"], here, grid)
        result["candidates"][name] = len(ordered)
        led_on = _taken(ordered[: payload["attempts"]], program, payload["earlier"], on, back, result)
        giving += int(led_on and not always)
    return result


def _taken(
    ordered: list[Strategy], program: Program, earlier: list[str], on: int, back: bool, result: dict[str, Any]
) -> bool:
    """Adds what one strategy's candidates give to the result: `on` steps that lead on, and, if `back`, one that leads
    back, for which all of them are tried. Says whether a step that leads on is among them."""
    wanted = on
    for step in ordered:
        outcome = tried(step, program)
        if "leir" not in outcome:
            result["refusals"].append(outcome)
        elif outcome["state_id"] in earlier:
            result["steps"].append(outcome)
            back = False
        elif wanted:
            result["steps"].append(outcome)
            wanted -= 1
        if not wanted and not back:
            break
    return wanted < on


def in_drawn_order(
    kind: type[Strategy], program: Program, seed: int, source: str, here: str, grid: Grid
) -> list[Strategy]:
    """The strategy's candidates, each once, by the hash of their keys."""
    distinct = {_KEYS.encode(step.to_json()): step for step in kind.proposed(program, grid)}
    return [distinct[text] for text in sorted(distinct, key=digests(seed, source, here, kind.name))]


def tried(step: Strategy, program: Program) -> dict[str, Any]:
    """The step's outcome as plain data: with the program after it, or with the fact that refuses it."""
    shown = {"strategy": step.name, "level": step.level, "args": step.to_json()["args"]}
    try:
        applied = step.apply(program)
    except Refused as refused:
        return {**shown, "facts": [_plain(fact) for fact in (*refused.held, refused.fact)]}
    return legal(step, applied)


def legal(step: Strategy, applied: Applied) -> dict[str, Any]:
    """A step that was taken, as plain data."""
    return {
        "strategy": step.name,
        "level": step.level,
        "args": step.to_json()["args"],
        "bit_exact": applied.bit_exact,
        "facts": [_plain(fact) for fact in applied.facts],
        "leir": to_text(applied.program),
        "state_id": state_id(applied.program),
    }


def _plain(fact: Fact) -> dict[str, Any]:
    return {"name": fact.name, "holds": fact.holds, "evidence": fact.evidence}
