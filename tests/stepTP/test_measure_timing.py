"""The timing protocol on devices that are made up: time passes only where they say so."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from stepTP.verify.measure.timing import Lapse, TimingPlan, Unmeasured, WallClock, sets_for, take_samples

QUICK = TimingPlan(repeats=9, warm_up_s=0.0, repeat_s=0.0)


@dataclass
class Device:
    """Starts work in a thread and returns at once; `synchronise` waits for it."""

    seconds: float
    sets: int = 2
    started: list[int] = field(default_factory=list)
    waiting: list[threading.Thread] = field(default_factory=list)

    def start(self, number: int) -> None:
        self.started.append(number)
        work = threading.Thread(target=time.sleep, args=(self.seconds,))
        work.start()
        self.waiting.append(work)

    def synchronise(self) -> None:
        while self.waiting:
            self.waiting.pop().join()


@dataclass
class Scripted:
    """A clock that reads what it is told, one figure a repeat, whatever the work is."""

    seconds: list[float]
    wall: float | None = None
    name = "cuda-events"

    def time(self, work: Callable[[], None], synchronise: Callable[[], None]) -> Lapse:
        work()
        synchronise()
        device = self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0]
        return Lapse(device, 0.0, device if self.wall is None else self.wall)


@dataclass
class Counted:
    """Does nothing but note which set it ran on."""

    sets: int = 3
    ran: list[int] = field(default_factory=list)

    def start(self, number: int) -> None:
        self.ran.append(number)

    def synchronise(self) -> None:
        pass


@dataclass
class Even:
    """A clock on which every run of a subject takes the same time."""

    subject: Counted
    seconds: float
    name = "perf_counter_ns"

    def time(self, work: Callable[[], None], synchronise: Callable[[], None]) -> Lapse:
        before = len(self.subject.ran)
        work()
        synchronise()
        lapse = self.seconds * (len(self.subject.ran) - before)
        return Lapse(lapse, 0.0, lapse)


def test_work_that_goes_on_after_the_call_counts() -> None:
    """A program that launches and returns does not look fast: the clock stops when the device is idle."""
    samples = take_samples(Device(0.02), WallClock(), QUICK)
    assert samples.median >= 0.02
    assert samples.launch_s < 0.01


def test_work_that_the_clock_does_not_see_is_no_latency() -> None:
    """Events on a stream where nothing runs read almost nothing, while the device is busy."""
    with pytest.raises(Unmeasured, match="work escapes it"):
        take_samples(Counted(), Scripted([1e-6], wall=5e-3), QUICK)
    assert take_samples(Counted(), Scripted([4.5e-3], wall=5e-3), QUICK).median == 4.5e-3


def test_sets_take_turns_in_every_repeat() -> None:
    subject = Counted(sets=3)
    samples = take_samples(subject, Even(subject, 1e-4), TimingPlan(repeats=5, warm_up_s=0.0, repeat_s=4e-4))
    assert samples.runs_per_repeat == 4
    turns = [number % 3 for number in range(len(subject.ran) + 1)]
    assert subject.ran == turns[:-21] + turns[-20:]  # one turn is left out before the 5 repeats of 4 runs
    assert samples.warm_up_runs == 3
    assert sorted(samples.timed_sets) == [0, 1, 2]


def test_inputs_are_refreshed_after_the_warm_up_and_before_every_timed_run() -> None:
    subject, ran_before = Counted(sets=50), list[int]()
    plan = TimingPlan(repeats=5, warm_up_s=0.0, repeat_s=4e-4)
    samples = take_samples(subject, Even(subject, 1e-4), plan, lambda: ran_before.extend(subject.ran))
    assert len(ran_before) >= 50
    assert tuple(subject.ran[len(ran_before) :]) == samples.timed_sets
    assert len(samples.timed_sets) == 20


def test_median_and_quartiles_are_of_runs() -> None:
    clock = Scripted([1.0, 5.0, 1.0, 2.0, 4.0, 3.0])  # the first reading is an estimate
    samples = take_samples(Counted(), clock, TimingPlan(repeats=5, warm_up_s=0.0, repeat_s=0.0, budget_s=1e9))
    assert samples.seconds == (5.0, 1.0, 2.0, 4.0, 3.0)
    assert samples.median == 3.0
    assert samples.quartiles == (2.0, 4.0)


def test_one_outlier_moves_neither_median_nor_quartiles() -> None:
    calm = take_samples(Counted(), Scripted([1e-3]), TimingPlan(repeats=9, warm_up_s=0.0, repeat_s=0.0))
    shaken = take_samples(Counted(), Scripted([1e-3, 1e-3, 0.5, 1e-3]), TimingPlan(9, 0.0, 0.0))
    assert max(shaken.seconds) == 0.5
    assert (calm.median, calm.quartiles) == (shaken.median, shaken.quartiles)


def test_short_runs_are_repeated_until_the_clock_can_tell() -> None:
    subject = Counted()
    samples = take_samples(subject, Even(subject, 1e-6), TimingPlan(repeats=3, warm_up_s=0.0, repeat_s=1e-3))
    assert samples.runs_per_repeat == 1000
    assert samples.median == pytest.approx(1e-6)


@pytest.mark.parametrize(("seconds", "repeats"), [(0.001, 30), (1.0, 8), (60.0, 3)])
def test_slow_programs_get_fewer_repeats_but_three(seconds: float, repeats: int) -> None:
    plan = TimingPlan(repeats=30, warm_up_s=0.0, repeat_s=0.0, budget_s=8.0)
    assert len(take_samples(Counted(), Scripted([seconds]), plan).seconds) == repeats


def test_sets_hold_twice_the_cache_within_the_limits() -> None:
    megabyte = 1 << 20
    assert sets_for(10 * megabyte, 60 * megabyte, 4096 * megabyte, 128, 16) == 12
    assert sets_for(1024, 60 * megabyte, 4096 * megabyte, 128, 128) == 128  # as many as allowed: recorded as not cold
    assert sets_for(1024, 60 * megabyte, 4096 * megabyte, 512, 16) == 16  # no number that is allowed makes them cold
    assert sets_for(1 * megabyte, 60 * megabyte, 4096 * megabyte, 128, 16) == 120
    assert sets_for(megabyte // 5, 60 * megabyte, 4096 * megabyte, 512, 16) == 512  # more than the cache, if not twice
    assert sets_for(1000 * megabyte, 60 * megabyte, 4096 * megabyte, 128, 16) == 2  # one run evicts the other's
    assert sets_for(10 * megabyte, 60 * megabyte, 50 * megabyte, 128, 16) == 5  # as memory allows
