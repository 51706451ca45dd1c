"""The tasks of a search that workers do: plain data to plain data.

`predict` takes {"leir", "target"} and returns {"seconds"}, the cost model's. The others propose moves at a state:
{"candidates": how many each strategy proposed, "moves": [{"steps", "why"}], the most promising first, "refusals"}. A
step is {strategy, level, args, bit_exact, facts, leir, state_id, seconds}, a refusal {strategy, level, args, facts}.
`seconds`, predicted, is null in the middle of a move.
"""

from collections.abc import Iterable
from typing import Any

from leir.canonical import state_id
from leir.parser import parse
from leir.syntax import Program
from schedules.trajectory import Trajectory
from stepTP.draw import arrival
from stepTP.expand import in_drawn_order, legal, tried
from stepTP.search.model import predicted_seconds
from strategies.base import Strategy
from strategies.catalog import StepError, parse_step, strategy
from strategies.grid import Grid


def predict(payload: dict[str, Any]) -> dict[str, float]:
    """What the cost model says of a program."""
    return {"seconds": predicted_seconds(parse(payload["leir"]), payload["target"])}


def draw(payload: dict[str, Any]) -> dict[str, Any]:
    """Legal steps by lot. Payload: `leir`, `target`, `seed`, `source`, `strategies`, `attempts`, `grid`, `wanted`.

    Every strategy has the same chance, however many candidates it has; within one, every candidate has.
    """
    program, found = parse(payload["leir"]), Found(payload["target"])
    here = state_id(program)
    names = sorted(payload["strategies"], key=lambda name: arrival(1, payload["seed"], payload["source"], here, name))
    for name in names:
        if len(found.moves) == payload["wanted"]:
            break
        ordered = found.candidates(strategy(name), program, payload, here)
        for step in ordered[: payload["attempts"]]:
            if found.take(step, program):
                break
    return found.answer()


def rank(payload: dict[str, Any]) -> dict[str, Any]:
    """Legal steps in the order of what the cost model says of the programs after them. Payload as for `draw`."""
    program, found = parse(payload["leir"]), Found(payload["target"])
    here = state_id(program)
    for name in payload["strategies"]:
        for step in found.candidates(strategy(name), program, payload, here)[: payload["attempts"]]:
            found.take(step, program)
    found.moves.sort(key=lambda move: move["steps"][-1]["seconds"])  # stable: equal ones stay in drawn order
    del found.moves[payload["wanted"] :]
    return found.answer()


def given(payload: dict[str, Any]) -> dict[str, Any]:
    """The steps of others. Payload: `leir`, `target`, `steps`: a list of moves, each a list of {strategy, args}.

    A move ends before its first step that is refused, and is left out where that is its first. The answer has
    `unread` too: why steps could not be read.
    """
    program, found = parse(payload["leir"]), Found(payload["target"])
    for steps in payload["steps"]:
        found.follow(steps, program)
    return {**found.answer(), "unread": found.unread}


class Found:
    """What becomes of the steps that are tried at one state."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.moves: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.unread: list[str] = []
        self.counts: dict[str, int] = {}

    def candidates(self, kind: type[Strategy], program: Program, payload: dict[str, Any], here: str) -> list[Strategy]:
        grid = Grid.model_validate(payload["grid"])
        ordered = in_drawn_order(kind, program, payload["seed"], payload["source"], here, grid)
        self.counts[kind.name] = len(ordered)
        return ordered

    def take(self, step: Strategy, program: Program, why: str = "") -> bool:
        """Notes a step as a move or a refusal; whether it is legal."""
        outcome = self.outcome(step, program)
        if outcome is None:
            return False
        self.moves.append({"steps": [outcome], "why": why})
        return True

    def follow(self, steps: Iterable[dict[str, Any]], program: Program, why: str = "") -> None:
        """Notes the steps, one after the other, as one move."""
        outcomes: list[dict[str, Any]] = []
        for data in steps:
            try:
                step = parse_step(data)
            except StepError as error:
                self.unread.append(str(error))
                break
            self.counts[step.name] = self.counts.get(step.name, 0) + 1
            outcome = self.outcome(step, program)
            if outcome is None:
                break
            outcomes.append(outcome)
            program = parse(outcome["leir"])
        if outcomes:
            self.moves.append({"steps": outcomes, "why": why})

    def add(self, made: Trajectory, why: str) -> None:
        """Notes the steps of a trajectory as one move."""
        outcomes = [{**legal(s, a), "seconds": None} for s, a in zip(made.steps, made.applied, strict=True)]
        outcomes[-1]["seconds"] = predicted_seconds(made.program, self.target)
        for step in made.steps:
            self.counts[step.name] = self.counts.get(step.name, 0) + 1
        self.moves.append({"steps": outcomes, "why": why})

    def outcome(self, step: Strategy, program: Program) -> dict[str, Any] | None:
        """A legal step as data, with its prediction; None where it is refused, which is noted."""
        found = tried(step, program)
        if "leir" not in found:
            self.refusals.append(found)
            return None
        return {**found, "seconds": predicted_seconds(parse(found["leir"]), self.target)}

    def answer(self) -> dict[str, Any]:
        return {"candidates": self.counts, "moves": self.moves, "refusals": self.refusals}
