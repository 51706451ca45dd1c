"""Ratios of latencies, and the words for them. Pure: the one table of bins that code, documents and data card share."""

import math
from dataclasses import dataclass
from itertools import pairwise

from stepTP.records import Comparison, Timing

_NAMES_AND_EDGES: tuple[tuple[str, float], ...] = (
    ("severe-slowdown", 0.0),
    ("slowdown", 0.5),
    ("slight-slowdown", 0.8),
    ("neutral", 0.95),
    ("slight-speedup", 1.05),
    ("speedup", 1.25),
    ("large-speedup", 2.0),
    ("extreme-speedup", 5.0),
)


MOST_DISTURBED = 0.5  # share of repeats: beyond it a timing tells nothing apart


@dataclass(frozen=True, slots=True)
class Bin:
    """Ratios from `low` (included) to `high` (excluded); `rank` 0 is the slowest."""

    rank: int
    name: str
    low: float
    high: float

    @property
    def range(self) -> str:
        """In words."""
        if self.low == 0:
            return f"below {self.high:g}"
        return f"{self.low:g} to {self.high:g}" if self.high < math.inf else f"{self.low:g} and above"


BINS: tuple[Bin, ...] = tuple(
    Bin(rank, name, low, high)
    for rank, ((name, low), (_, high)) in enumerate(pairwise((*_NAMES_AND_EDGES, ("", math.inf))))
)


def speedup_bin(ratio: float) -> Bin:
    """The bin of a speedup: latency before by latency after. Raises ValueError for what is no positive number."""
    if not 0 < ratio < math.inf:
        raise ValueError(f"a speedup is a positive number, not {ratio}")
    return next(found for found in reversed(BINS) if ratio >= found.low)


def compare_timings(before: Timing, after: Timing) -> Comparison:
    """How many times faster `after` is, by medians.

    Within noise: the two ranges from first to third quartile meet, so that the order of the two may be chance; or the
    machine was busy with other work for most repeats of one, so that its figure is of that work too.
    """
    ratio = before.median_us / after.median_us
    meet = before.q1_us <= after.q3_us and after.q1_us <= before.q3_us
    within_noise = meet or max(before.disturbed, after.disturbed) > MOST_DISTURBED
    return Comparison(ratio=float(f"{ratio:.4g}"), bin=speedup_bin(ratio).name, within_noise=within_noise)


def bins_table() -> str:
    """The bins as a Markdown table."""
    rows = [f"| {b.rank} | `{b.name}` | {b.range} |" for b in BINS]
    return "\n".join(("| rank | bin | latency before / latency after |", "|---|---|---|", *rows)) + "\n"
