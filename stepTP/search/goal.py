"""Goal-directed trajectories for a build: steps towards a fast program, where a walk takes steps of every kind.

    for item in seek(walker, Goal(policy="heuristic", target="cuda"), seen=states_of_the_walk):
        ...  # as from `stepTP.walk.walk`: VerifiedStep, RejectedRow or RefusalRow

The objective is the cost model's, nothing is timed, and the budget counts states: the same walker gives the same items
on every machine, with any number of workers. Every state is verified by the build's own settings. The steps of
`trajectories` with the largest gain, from the source on, are what teaches planning; the others come with them.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from stepTP import config
from stepTP.records import Objective, RefusalRow, RejectedRow, Step
from stepTP.search import policy_of, search_of
from stepTP.search.env import Environment, SearchError, explore
from stepTP.search.objectives import Predicted
from stepTP.search.protocol import Budget, Settings
from stepTP.search.rows import found_by
from stepTP.walk import Reached, State, VerifiedStep, Walker, rejected


@dataclass(frozen=True, slots=True)
class Goal:
    """What is sought, and how. `target`: whose costs are predicted; it need not be one that verifies."""

    search: str = "beam"
    policy: str = "cost_model"
    target: config.Target = "cuda"
    evaluations: int = 100  # states at most
    width: int = 3
    depth: int = 12
    attempts: int = 6


def seek(
    walker: Walker, goal: Goal | None = None, seen: Collection[str] = ()
) -> Iterator[VerifiedStep | RejectedRow | RefusalRow | Reached]:
    """Every step that a search takes from a source, in order of arrival, then what was rejected and refused, and last
    the way to the best state, where that is not the source.

    `seen`: states of a walk from the same source, whose steps are not given again. A source that no search can begin
    at is rejected.
    """
    wanted = goal or Goal()
    settings = Settings(
        strategies=walker.names,
        budget=Budget(evaluations=wanted.evaluations),
        seed=walker.seed,
        verify=walker.verify,
        target=wanted.target,
        width=wanted.width,
        depth=wanted.depth,
        attempts=wanted.attempts,
        grid=walker.grid,
    )
    try:
        env = Environment(walker.source, policy_of(wanted.policy), Predicted(), settings, walker.jobs)
    except SearchError as error:
        begun = State(walker.source.leir, walker.source.state_id)
        yield rejected(walker, begun, Step(strategy=wanted.policy, args={}), "expand", "no-search", str(error))
        return
    explore(env, search_of(wanted.search))
    yield from found_by(env, walker, seen)
    if env.best is not env.root:
        nodes = env.trajectory(env.best)
        taken = tuple((before.state.leir, after.state.path[-1]) for before, after in pairwise(nodes))
        before, after = env.root.value_s, env.best.value_s
        assert before is not None and after is not None
        name = f"predicted seconds on {wanted.target}"
        yield Reached(taken, Objective(name=name, before=before, after=after))
