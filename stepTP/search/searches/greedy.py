"""Greedy: of the first moves at a state the one that leads to the best; ends where none is better."""

from stepTP.search.env import Environment


def search(env: Environment) -> None:
    here = env.root
    for _ in range(env.settings.depth):
        ends = env.take_all([(here, move) for move in env.moves(here)[: env.settings.width]])
        better = [end for end in ends if end is not None and env.gain(end) > env.gain(here)]
        if not better:
            return
        here = max(better, key=env.gain)
