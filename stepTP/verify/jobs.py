"""Jobs of the pool: what is asked, who waits, and what has happened to it so far."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Any

from stepTP.verify import wire
from stepTP.verify.process import FailureKind


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job has no result.

    `refused`: the task raised an error that a person can meet, named by `error`. `bug`: any other exception. `crash`,
    `timeout`, `memory`, `device`: the worker was lost, twice. `cause` is one line and the same on every run, but for
    bugs and expected errors whose own message is not; `detail` (a traceback, the last lines on standard error) may
    differ.
    """

    kind: FailureKind
    task: str
    cause: str
    error: str = ""
    detail: str = ""

    @property
    def message(self) -> str:
        """The cause, after the error's name if it has one."""
        return f"{self.error}: {self.cause}" if self.error else self.cause


@dataclass(slots=True, eq=False)
class Item:
    """What a future stands for."""

    body: bytes  # as JSON
    future: "Future[Any]" = field(default_factory=lambda: Future[Any]())
    begun: bool = False
    losses: int = 0  # workers lost that it is blamed for
    kills: int = 0  # workers lost to a signal from outside while it ran
    lasted_s: float = 0.0  # the longest that it ran before one
    trials: int = 0
    orphaned: int = 0  # workers lost because the process that they come from ended while it ran

    def begin(self) -> bool:
        """Whether somebody still wants it."""
        self.begun = self.begun or self.future.set_running_or_notify_cancel()
        return self.begun and not self.future.done()


@dataclass(slots=True, eq=False)
class Job:
    """Items that are sent to a worker together. `head`: the request as JSON, without items and the last brace."""

    task: str
    head: bytes
    near: str
    items: tuple[Item, ...]
    batch: bool  # whether the task takes items
    fresh: bool = False  # whether it needs a worker where nothing ran before
    apart: bool = False  # whether that must share nothing with the other workers
    due: float = 0.0  # not before this time of the monotonic clock
    starts: int = 0  # workers lost before the task ran

    def request(self) -> bytes:
        if not self.batch:
            return wire.frame(self.head + b"}")
        return wire.frame(self.head + b',"items":[' + b",".join(item.body for item in self.items) + b"]}")

    def part(self, items: Sequence[Item], *, fresh: bool = False, apart: bool = False, delay_s: float = 0.0) -> "Job":
        """Some of its items as a job."""
        due = time.monotonic() + delay_s
        return replace(self, items=tuple(items), fresh=fresh, apart=apart, due=due)


def head(task: str, payload: dict[str, Any]) -> bytes:
    """The request of a job as JSON, without items and the last brace. TypeError for a payload JSON lacks."""
    return wire.body({"task": task, "payload": payload})[:-1]


def suspects_among(left: dict[int, Item], at: int | None) -> tuple[list[Item], list[Item]]:
    """Of the items without an answer, by place, those that ran (all of them where that is None), and the others."""
    ran = [item for place, item in left.items() if at in (None, place)]
    return ran, [item for item in left.values() if item not in ran]


def abandon(items: Iterable[Item]) -> None:
    """Cancels what has no result."""
    for item in items:
        if not item.future.cancel() and not item.future.done():
            item.future.set_exception(CancelledError())
