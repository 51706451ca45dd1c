"""Legal steps in the order of the analytic cost model: `attempts` of each strategy are taken, drawn by hash, and the
programs after them compared."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.search.asking import asked, offers
from stepTP.search.env import Environment
from stepTP.search.protocol import Node, Offer


@dataclass(frozen=True, slots=True)
class CostModel:
    name: str = "cost_model"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        return offers(env, "stepTP.search.work.rank", nodes, [asked(env, node) for node in nodes])


POLICY = CostModel
