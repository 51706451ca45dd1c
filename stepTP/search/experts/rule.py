"""A rule of an expert: what it makes of the nests at a place, as steps of a trajectory."""

from collections.abc import Callable
from dataclasses import dataclass

from schedules.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Rule:
    """`apply` takes steps at the statement of the number; it raises Refused where one is illegal."""

    why: str
    apply: Callable[[Trajectory, int], None]
