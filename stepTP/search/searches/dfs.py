"""Depth first: the first move that leads to a new state, as deep as allowed, then the next of the last state left."""

from stepTP.search.env import Environment
from stepTP.search.protocol import Node


def search(env: Environment) -> None:
    seen = {env.root}

    def descend(here: Node, depth: int) -> None:
        if depth == env.settings.depth:
            return
        for move in env.moves(here)[: env.settings.width]:
            end = env.take(here, move)
            if end is not None and end not in seen:
                seen.add(end)
                descend(end, depth + 1)

    descend(env.root, 0)
