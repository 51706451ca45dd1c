"""Chain: one trajectory after the other, each from the source, by the first moves that were not tried there."""

from stepTP.search.env import Environment
from stepTP.search.protocol import Node


def search(env: Environment) -> None:
    tried: dict[Node, int] = {}
    while True:
        here, on_the_way = env.root, {env.root}
        for depth in range(env.settings.depth):
            moves, number = env.moves(here), tried.get(here, 0)
            if number == len(moves):
                if depth == 0:
                    return
                break
            tried[here] = number + 1
            end = env.take(here, moves[number])
            if end is None or end in on_the_way:
                break
            on_the_way.add(end)
            here = end
