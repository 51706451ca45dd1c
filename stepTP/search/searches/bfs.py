"""Breadth first: states in the order of their arrival, each with its first moves."""

from collections import deque

from stepTP.search.env import Environment


def search(env: Environment) -> None:
    queue, seen = deque([(env.root, 0)]), {env.root}
    while queue:
        here, depth = queue.popleft()
        if depth == env.settings.depth:
            continue
        for end in env.take_all([(here, move) for move in env.moves(here)[: env.settings.width]]):
            if end is not None and end not in seen:
                seen.add(end)
                queue.append((end, depth + 1))
