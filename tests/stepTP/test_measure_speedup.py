"""The eight bins, and when two timings may be told apart."""

import math
from itertools import pairwise
from pathlib import Path

import pytest

from stepTP.records import Timing
from stepTP.verify.measure.speedup import BINS, bins_table, compare_timings, speedup_bin

README = Path(__file__).parent.parent.parent / "stepTP" / "verify" / "measure" / "README.md"


def timing(median: float, spread: float = 0.0, disturbed: float = 0.0) -> Timing:
    return Timing(
        median_us=median, q1_us=median - spread / 2, q3_us=median + spread / 2, spread_us=spread, disturbed=disturbed,
        repeats=30, runs_per_repeat=10, warm_up_runs=3, clock="perf_counter_ns", launch_us=median, input_sets=2,
        bytes_per_set=8, cold=False,
    )  # fmt: skip


def test_bins_are_eight_in_order_without_gaps() -> None:
    assert [found.rank for found in BINS] == list(range(8))
    assert BINS[0].low == 0 and BINS[-1].high == math.inf
    assert all(one.high == other.low for one, other in pairwise(BINS))
    assert all(speedup_bin(found.low) == found for found in BINS[1:])
    assert all(speedup_bin(math.nextafter(found.high, 0)) == found for found in BINS)


@pytest.mark.parametrize(
    ("ratio", "name"),
    [(0.01, "severe-slowdown"), (0.7, "slowdown"), (0.9, "slight-slowdown"), (1.0, "neutral"), (1.2, "slight-speedup"),
     (1.5, "speedup"), (3.0, "large-speedup"), (100.0, "extreme-speedup")],
)  # fmt: skip
def test_bins_are_named(ratio: float, name: str) -> None:
    assert speedup_bin(ratio).name == name


@pytest.mark.parametrize("ratio", [0.0, -1.0, math.inf, math.nan])
def test_what_is_no_speedup_has_no_bin(ratio: float) -> None:
    with pytest.raises(ValueError, match="positive number"):
        speedup_bin(ratio)


def test_the_readme_shows_the_table_in_the_code() -> None:
    assert bins_table() in README.read_text(encoding="utf-8")


def test_a_speedup_is_before_by_after() -> None:
    found = compare_timings(timing(30.0, 1.0), timing(10.0, 1.0))
    assert (found.ratio, found.bin, found.within_noise) == (3.0, "large-speedup", False)


def test_spreads_that_meet_are_noise() -> None:
    assert compare_timings(timing(11.0, 2.0), timing(10.0, 2.0)).within_noise
    assert not compare_timings(timing(11.0, 0.8), timing(10.0, 0.8)).within_noise
    assert compare_timings(timing(10.0, 0.8), timing(11.0, 1.4)).within_noise


def test_a_machine_that_does_other_work_tells_nothing() -> None:
    assert compare_timings(timing(30.0), timing(10.0, disturbed=0.6)).within_noise
    assert compare_timings(timing(30.0, disturbed=0.6), timing(10.0)).within_noise
    assert not compare_timings(timing(30.0, disturbed=0.2), timing(10.0)).within_noise
