"""What policies share that ask workers: the payload of a state, and an answer as an offer."""

from collections.abc import Sequence
from typing import Any

from stepTP.search.env import Environment
from stepTP.search.protocol import Move, Node, Offer
from stepTP.verify.pool import Failure
from stepTP.walk import Surroundings, surroundings


def asked(env: Environment, node: Node) -> dict[str, Any]:
    """What the tasks of `stepTP.search.work` need to know of a state and of what is wanted there."""
    settings = env.settings
    return {
        "leir": node.state.leir,
        "target": settings.target,
        "seed": settings.seed,
        "source": env.source.id,
        "strategies": list(settings.strategies),
        "attempts": settings.attempts,
        "grid": settings.grid.chosen(),
        "wanted": 2 * settings.width,  # some lead to states that are known
    }


def offers(env: Environment, task: str, nodes: Sequence[Node], payloads: Sequence[dict[str, Any]]) -> list[Offer]:
    """What a task of `stepTP.search.work` offers at each node; a job that fails offers nothing, and is noted."""
    return [_offer(env, n, answer) for n, answer in zip(nodes, env.ask_all(task, payloads), strict=True)]


def noted(env: Environment, node: Node, answer: Any, instead: Any) -> Any:
    """The answer; `instead` of a failure, which is noted."""
    if isinstance(answer, Failure):
        env.problems.append((node.state, answer))
        return instead
    return answer


def together(parts: Sequence[Surroundings]) -> Surroundings:
    """What was found at one state by several questions."""
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.candidates.items():
            counts[name] = max(count, counts.get(name, 0))
    proposals = {proposal.state_id: proposal for part in parts for proposal in part.proposals}
    return Surroundings(counts, tuple(proposals.values()), tuple(r for part in parts for r in part.refusals))


def _offer(env: Environment, node: Node, answer: Any) -> Offer:
    answer = noted(env, node, answer, None)
    if answer is None:
        return Offer()
    moves: list[Move] = []
    for found in answer["moves"]:
        steps = surroundings([{"candidates": {}, "steps": found["steps"], "refusals": []}]).proposals
        moves.append(Move(steps, found["why"]))
        env.predicted |= {step["state_id"]: step["seconds"] for step in found["steps"] if step["seconds"] is not None}
    first = {str(move["steps"][0]["state_id"]): move["steps"][0] for move in answer["moves"]}
    around = surroundings([{**answer, "steps": list(first.values())}])
    return Offer(tuple(moves), around)
