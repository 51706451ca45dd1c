"""The timing protocol, for anything that runs on sets of inputs in turn.

    warm-up    every set once at least, and until `warm_up_s` has gone by
    refresh    the sets get other inputs: what a program kept of the warm-up is of no use
    a repeat   so many runs, back to back, that they take `repeat_s` or more; the clock starts on an idle device and is
               read when all that they started is done
    a figure   median, first and third quartile of `repeats` repeats, each divided by its runs

A run takes the next set: its input was last touched when all other sets had their turn.
"""

import gc
import math
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, pairwise
from typing import Literal, Protocol

ClockName = Literal["perf_counter_ns", "cuda-events"]

_LATE = 1.5  # times the clock's reading ...
_LATE_S = 100e-6  # ... and as much more: work that goes on beyond that was missed by the clock
_FEWEST = 3  # repeats, however long they take


class Unmeasured(Exception):
    """A program has no latency that may be believed; the message says why."""


@dataclass(frozen=True, slots=True)
class TimingPlan:
    """How long is measured. `budget_s`: the repeats of one subject together; longer ones get fewer, three at least."""

    repeats: int = 30
    warm_up_s: float = 0.02
    repeat_s: float = 0.001
    most_runs: int = 1000  # of one repeat
    budget_s: float = 3.0


class Subject(Protocol):
    """What is timed: something that can be started on any of its input sets."""

    @property
    def sets(self) -> int: ...

    def start(self, number: int) -> None:
        """Starts a run on a set. It may return before the run is done."""
        ...

    def synchronise(self) -> None:
        """Waits until all that was started is done."""
        ...


@dataclass(frozen=True, slots=True)
class Lapse:
    """One reading, in seconds. `device`: of the clock of record; `launch`: until the host had started everything;
    `wall`: until everything was done, by the host's clock."""

    device: float
    launch: float
    wall: float


class Clock(Protocol):
    @property
    def name(self) -> ClockName: ...

    def time(self, work: Callable[[], None], synchronise: Callable[[], None]) -> Lapse:
        """How long the work takes that is started on an idle device, to its end."""
        ...


class WallClock:
    """The host's monotonic clock, read after synchronising."""

    name: ClockName = "perf_counter_ns"

    def time(self, work: Callable[[], None], synchronise: Callable[[], None]) -> Lapse:
        begun = time.perf_counter_ns()
        work()
        launched = time.perf_counter_ns()
        synchronise()
        ended = time.perf_counter_ns()
        return Lapse((ended - begun) / 1e9, (launched - begun) / 1e9, (ended - begun) / 1e9)


@dataclass(frozen=True, slots=True)
class Samples:
    """Seconds a run, one figure a repeat, in the order taken; `launch_s`: the median of what starting a run takes.

    `disturbed`: the share of repeats in which the system took a processor from this process to give it to another.
    """

    seconds: tuple[float, ...]
    launch_s: float
    disturbed: float
    runs_per_repeat: int
    warm_up_runs: int
    timed_sets: tuple[int, ...]  # those that ran after `refresh`

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third, by linear interpolation."""
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third


def take_samples(
    subject: Subject, clock: Clock, plan: TimingPlan, refresh: Callable[[], None] = lambda: None
) -> Samples:
    """Times the subject by the protocol. Raises Unmeasured where work goes on after the clock was read.

    `refresh` is called before the repeats: it gives the sets inputs that they have not seen, so that what was computed
    in the warm-up is of no use.
    """
    turn = count()

    def runs(number: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(number):
                subject.start(next(turn) % subject.sets)

        return work

    warmed = _warm_up(runs, subject, plan)
    estimate = max(clock.time(runs(1), subject.synchronise).device, 1e-9)
    number = 1
    while number < plan.most_runs and estimate * number < plan.repeat_s:
        number = min(plan.most_runs, max(2 * number, math.ceil(plan.repeat_s / estimate)))
        estimate = max(clock.time(runs(number), subject.synchronise).device / number, 1e-9)
    refresh()
    subject.synchronise()
    first = next(turn) + 1
    repeats = max(_FEWEST, min(plan.repeats, int(plan.budget_s / (estimate * number))))
    with _no_collection():
        lapses, taken = list[Lapse](), [_times_preempted()]
        for _ in range(repeats):
            lapses.append(clock.time(runs(number), subject.synchronise))
            taken.append(_times_preempted())
    device, wall = (statistics.median(values) for values in ([x.device for x in lapses], [x.wall for x in lapses]))
    if wall > _LATE * device + _LATE_S:
        raise Unmeasured(
            f"the clock reads {device * 1e6:.0f} us, but the device was busy for {wall * 1e6:.0f} us: work escapes it"
        )
    launch = statistics.median(lapse.launch for lapse in lapses) / number
    disturbed = sum(before < after for before, after in pairwise(taken)) / repeats
    timed = tuple((first + n) % subject.sets for n in range(min(subject.sets, repeats * number)))
    return Samples(tuple(lapse.device / number for lapse in lapses), launch, disturbed, number, warmed, timed)


def _times_preempted() -> int:
    """How often a thread of this process had to make way for another process, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def _warm_up(runs: Callable[[int], Callable[[], None]], subject: Subject, plan: TimingPlan) -> int:
    """How many runs it took."""
    begun, warmed = time.perf_counter(), 0
    while warmed < subject.sets or time.perf_counter() - begun < plan.warm_up_s:
        runs(1)()
        subject.synchronise()
        warmed += 1
    return warmed


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collector, whose pauses are no part of a run."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def sets_for(bytes_per_set: int, cache_bytes: int, limit_bytes: int, most: int, warm: int) -> int:
    """How many sets of buffers are rotated: as many as hold twice the cache, within the limits; two at least.

    Where the cache holds all that the limits allow, no number of sets makes inputs cold: then at most `warm`.
    """
    wanted = math.ceil(2 * cache_bytes / max(1, bytes_per_set))
    allowed = min(wanted, limit_bytes // max(1, bytes_per_set), most)
    return max(2, allowed if allowed * bytes_per_set > cache_bytes else min(allowed, warm))
