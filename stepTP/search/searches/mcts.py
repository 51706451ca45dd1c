"""Monte Carlo tree search: UCT with progressive widening, and the speedup that was found backed up.

A round descends from the source by UCT (Kocsis, Szepesvari 2006) to a state that may have one more child: as many as
the root of its visits, so that states visited often are widened (Coulom 2007). The child is the policy's next move. Its
reward is its own gain over the source, as a power of two, between 0 and 1 by the best gain known; there is no roll-out,
since the objective values every state. Rewards are backed up along the path: the mean of a state's visits, and half of
it the best that was found below, for one good program is what is looked for.
"""

import math
from dataclasses import dataclass, field

from stepTP.search.env import Environment
from stepTP.search.protocol import Node

_EXPLORATION = 0.7
_IDLE = 200  # rounds without a new state, after which the tree is taken to be whole


@dataclass(slots=True)
class _Branch:
    """A state in the tree, with the moves of the policy that were tried there."""

    node: Node
    depth: int
    visits: int = 0
    total: float = 0.0  # of gains
    best: float = 0.0
    tried: int = 0
    children: list["_Branch"] = field(default_factory=list)


def search(env: Environment) -> None:
    root = _Branch(env.root, 0)
    inside = {env.root}
    idle = 0
    while idle < _IDLE:
        path, known = [root], len(env.nodes)
        while (child := _widened(env, path[-1], inside)) is None and path[-1].children:
            path.append(_selected(path[-1], root.best))
        if child is not None:
            path.append(child)
        gain = max(0.0, env.gain(path[-1].node))
        for branch in path:
            branch.visits += 1
            branch.total += gain
            branch.best = max(branch.best, gain)
            env.visits[branch.depth] = env.visits.get(branch.depth, 0) + 1
        idle = 0 if len(env.nodes) > known else idle + 1


def _widened(env: Environment, branch: _Branch, inside: set[Node]) -> _Branch | None:
    """A new child, where the state may have one more and a move leads to a state that is not in the tree."""
    if branch.depth == env.settings.depth or len(branch.children) >= math.ceil(math.sqrt(branch.visits + 1)):
        return None
    moves = env.moves(branch.node)
    while branch.tried < len(moves):
        branch.tried += 1
        end = env.take(branch.node, moves[branch.tried - 1])
        if end is not None and end not in inside:
            inside.add(end)
            branch.children.append(_Branch(end, branch.depth + 1))
            return branch.children[-1]
    return None


def _selected(branch: _Branch, best: float) -> _Branch:
    """The child of the largest upper confidence bound; of equal ones the first."""
    scale = best or 1.0

    def bound(child: _Branch) -> float:
        value = (child.total / child.visits + child.best) / 2 / scale
        return value + _EXPLORATION * math.sqrt(math.log(branch.visits) / child.visits)

    return max(branch.children, key=bound)
