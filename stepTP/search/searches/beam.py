"""Beam: at each depth the best states are kept, whether or not they are better than the one they come from."""

from stepTP.search.env import Environment


def search(env: Environment) -> None:
    width = env.settings.width
    beam, seen = [env.root], {env.root}
    for _ in range(env.settings.depth):
        offered = env.moves_of(beam)
        ends = env.take_all([(node, move) for node, moves in zip(beam, offered, strict=True) for move in moves[:width]])
        fresh = [end for end in dict.fromkeys(ends) if end is not None and end not in seen]
        if not fresh:
            return
        seen.update(fresh)
        beam = sorted(fresh, key=lambda node: (-env.gain(node), node.number))[:width]
