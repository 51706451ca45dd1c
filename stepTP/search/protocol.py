"""What policies, objectives and searches agree on: states as nodes, steps as moves, and what may be spent.

A *policy* proposes moves at a state: one step, or several that belong together. A *search* chooses which are taken,
and sees what they lead to. An *objective* gives a state seconds: predicted, or measured. Between them stands the
environment (`stepTP.search.env`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stepTP import config
from stepTP.records import MeasurementRow, Verdict
from stepTP.walk import Proposal, State, Surroundings
from strategies.grid import Grid

if TYPE_CHECKING:
    from stepTP.search.env import Environment


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend; None: without limit.

    `evaluations`: states that were not there before; `measurements`: programs timed on a device; `seconds`: of the
    search, after which it begins nothing.
    """

    evaluations: int | None = None
    seconds: float | None = None
    measurements: int | None = None


class Spent(Exception):
    """The budget does not allow more."""


@dataclass(frozen=True, slots=True)
class Move:
    """Steps that a policy proposes to take one after the other, all legal. `why`: a few words for people."""

    steps: tuple[Proposal, ...]
    why: str = ""

    @property
    def end(self) -> str:
        """The state that it leads to."""
        return self.steps[-1].state_id


@dataclass(frozen=True, slots=True)
class Offer:
    """What a policy says at a state: its moves, the most promising first, and what else was tried there."""

    moves: tuple[Move, ...] = ()
    around: Surroundings = Surroundings({}, (), ())  # noqa: RUF009 (frozen)


@dataclass(slots=True, eq=False)
class Node:
    """A verified state. `number`: in order of arrival; `parent`: the state that its last step was taken at.

    `predicted_s` is of the cost model, `value_s` of the objective: both None in the middle of a move; `value_s` is
    infinite where the objective has no value for the program, as `note` says.
    """

    number: int
    state: State
    parent: "Node | None"
    taken: Proposal | None
    predicted_s: float | None
    verification: tuple[Verdict, ...] = ()
    value_s: float | None = None
    note: str = ""

    @property
    def depth(self) -> int:
        """Steps from the source."""
        return len(self.state.path)


@dataclass(frozen=True, slots=True)
class Valued:
    """What an objective says of a state. `rows`: of the table of measurements, where a device was asked.

    `verification`: where the objective compared what the program computes itself.
    """

    seconds: float
    note: str = ""
    rows: tuple[MeasurementRow, ...] = ()
    verification: tuple[Verdict, ...] = ()


class Objective(Protocol):
    """Gives states seconds. `measures`: whether each costs a measurement."""

    @property
    def name(self) -> str: ...

    @property
    def measures(self) -> bool: ...

    def value_all(self, env: "Environment", nodes: Sequence[Node]) -> list[Valued]: ...


class Policy(Protocol):
    """Proposes moves. What it says depends on the nodes, what the environment knows of them, and the seed alone."""

    @property
    def name(self) -> str: ...

    def propose(self, env: "Environment", nodes: Sequence[Node]) -> list[Offer]:
        """An offer for each node; asked for several at once, so that workers are busy at once."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What decides a search, beside its policy and objective. `strategies`: those in use, sorted.

    `verify`: how states are verified. None: states are legal by the facts of their steps and the checker's proofs, and
    nothing runs; for where the objective compares results itself. `target`: whose costs are predicted. `width`: of a
    state's moves, how many are taken at most, and how many states a beam keeps. `depth`: moves in a row.
    """

    strategies: tuple[str, ...]
    budget: Budget = field(default_factory=Budget)
    seed: int = 0
    verify: config.Verify | None = field(default_factory=config.Verify)
    target: config.Target = "llvm"
    width: int = 4
    depth: int = 8
    attempts: int = 8  # candidates of one strategy that are tried at a state
    grid: Grid = Grid()  # noqa: RUF009 (frozen): the sizes of candidates

    def described(self) -> dict[str, Any]:
        """All of it as JSON holds it; of the grid, what differs from the default."""
        verify = self.verify.model_dump(mode="json") if self.verify else None
        grid = self.grid.chosen()
        budget = {name: getattr(self.budget, name) for name in ("evaluations", "seconds", "measurements")}
        return {
            "strategies": list(self.strategies), "budget": budget, "seed": self.seed, "verify": verify,
            "target": self.target, "width": self.width, "depth": self.depth, "attempts": self.attempts,
            **({"grid": grid} if grid else {}),
        }  # fmt: skip
