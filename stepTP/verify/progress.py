"""What a task on several items tells while it runs.

Such a task is a generator function of (payload, items) that yields these. The pool keeps every answer as it comes;
where a worker is lost, the item that ran is to blame, and the others go on elsewhere.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Running:
    """The place of the item that runs from now on; None for work on all items without an answer together."""

    item: int | None


@dataclass(frozen=True, slots=True)
class Answered:
    """The result of the item that runs, by its place."""

    item: int
    result: Any


Progress = Running | Answered
