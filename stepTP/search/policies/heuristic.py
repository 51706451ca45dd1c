"""What an expert would do: whole schedules for the nests that stand there, each as a sequence of atomic steps.

The rules are in `stepTP.search.experts`, by what a nest computes. Where none applies any more, and on `llvm`, single
steps are ranked by the cost model.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepTP.search.asking import asked, noted, offers, together
from stepTP.search.env import Environment
from stepTP.search.protocol import Node, Offer

_PLANS = "stepTP.search.experts.plans"


@dataclass(frozen=True, slots=True)
class Heuristic:
    name: str = "heuristic"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        outlines = env.ask_all(f"{_PLANS}.outline", [asked(env, node) for node in nodes])
        rules = [noted(env, node, found, []) for node, found in zip(nodes, outlines, strict=True)]
        wanted = [(node, rule) for node, words in zip(nodes, rules, strict=True) for rule in words]
        plain = [node for node, words in zip(nodes, rules, strict=True) if not words]
        payloads = [{**asked(env, node), "rule": rule} for node, rule in wanted]
        planned = offers(env, f"{_PLANS}.plan", [node for node, _ in wanted], payloads)
        finished = iter(offers(env, f"{_PLANS}.finish", plain, [asked(env, node) for node in plain]))
        made = iter(planned)
        return [joined([next(made) for _ in words], env.predicted) if words else next(finished) for words in rules]


def joined(parts: Sequence[Offer], predicted: Mapping[str, float]) -> Offer:
    """Offers of one state as one; a move to a state that another leads to is left out.

    The first is the experts' first choice, the others are in the order of what the cost model says of their ends.
    """
    moves = {move.end: move for part in reversed(parts) for move in reversed(part.moves)}
    ordered = [move for part in parts for move in part.moves if moves[move.end] is move]
    rest = sorted(ordered[1:], key=lambda move: predicted.get(move.end, math.inf))  # stable
    return Offer((*ordered[:1], *rest), together([part.around for part in parts]))


POLICY = Heuristic
