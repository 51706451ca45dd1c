"""Follows given steps: at a state that the first of them lead to, the next is proposed; elsewhere nothing is."""

from collections.abc import Sequence
from dataclasses import dataclass

from stepTP.records import Step
from stepTP.search.asking import asked, offers
from stepTP.search.env import Environment
from stepTP.search.protocol import Node, Offer


@dataclass(frozen=True, slots=True)
class Scripted:
    steps: tuple[Step, ...] = ()
    name: str = "scripted"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        return offers(
            env,
            "stepTP.search.work.given",
            nodes,
            [{**asked(env, node), "steps": [[step.model_dump()] for step in self._next(node)]} for node in nodes],
        )

    def _next(self, node: Node) -> tuple[Step, ...]:
        done = len(node.state.path)
        return self.steps[done : done + 1] if node.state.path == self.steps[:done] else ()


POLICY = Scripted
