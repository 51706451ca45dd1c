"""Legal steps by lot: every strategy has the same chance at a state, and every candidate within its strategy."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.search.asking import asked, offers
from stepTP.search.env import Environment
from stepTP.search.protocol import Node, Offer


@dataclass(frozen=True, slots=True)
class Random:
    name: str = "random"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        return offers(env, "stepTP.search.work.draw", nodes, [asked(env, node) for node in nodes])


POLICY = Random
