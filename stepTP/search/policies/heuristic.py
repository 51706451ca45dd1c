"""What an expert would do: whole schedules for the nests that stand there, each as a sequence of atomic steps.

The rules are in `stepTP.search.experts`, by what a nest computes; `EXPERTS` of its `plans` lists them. Where no rule
applies any more, single steps are ranked by the cost model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.search.env import Environment
from stepTP.search.policies.asking import asked, offers
from stepTP.search.protocol import Node, Offer


@dataclass(frozen=True, slots=True)
class Heuristic:
    name: str = "heuristic"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        return offers(env, "stepTP.search.experts.plans.plan", nodes, [asked(env, node) for node in nodes])


POLICY = Heuristic
