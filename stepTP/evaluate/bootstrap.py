"""Confidence intervals by resampling whole sources: answers at states of one program are no independent trials."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from stepTP.draw import digest

RESAMPLES = 2000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic, its interval at `LEVEL`, and what it is over: `count` values in `clusters` clusters.

    All None where there are no values. The interval alone is None where fewer than two clusters leave it open.
    """

    value: float | None
    low: float | None
    high: float | None
    count: int
    clusters: int

    def to_json(self) -> dict[str, Any]:
        return {
            "value": _rounded(self.value),
            "low": _rounded(self.low),
            "high": _rounded(self.high),
            "count": self.count,
            "clusters": self.clusters,
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def share(values: Iterable[tuple[Hashable, bool]], seed: int = 0) -> Estimate:
    """The share of true values, each given with its cluster.

    Percentile bootstrap over clusters. Where all values agree that has no spread: the open end is then the exact
    binomial bound (Clopper and Pearson) for as many trials as there are clusters.
    """
    found = mean(((cluster, float(value)) for cluster, value in values), seed)
    if found.value not in (0.0, 1.0) or found.clusters < 2:
        return found
    far = ((1 - LEVEL) / 2) ** (1 / found.clusters)
    low, high = (0.0, 1 - far) if found.value == 0 else (far, 1.0)
    return Estimate(found.value, low, high, found.count, found.clusters)


def mean(values: Iterable[tuple[Hashable, float]], seed: int = 0) -> Estimate:
    """The mean of values, each given with its cluster; interval by percentile bootstrap over clusters."""
    import numpy as np

    clusters: dict[Hashable, list[float]] = defaultdict(list)
    for cluster, value in values:
        clusters[cluster].append(value)
    count = sum(map(len, clusters.values()))
    if not count:
        return Estimate(None, None, None, 0, 0)
    sums = np.array([sum(group) for group in clusters.values()])
    sizes = np.array([float(len(group)) for group in clusters.values()])
    value = float(sums.sum() / sizes.sum())
    if len(clusters) < 2:
        return Estimate(value, None, None, count, len(clusters))
    key = int.from_bytes(digest("bootstrap", seed, count, len(clusters))[:8], "big")
    drawn = np.random.default_rng(key).integers(0, len(clusters), (RESAMPLES, len(clusters)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high), count, len(clusters))


def geometric_mean(values: Iterable[tuple[Hashable, float]], seed: int = 0) -> Estimate:
    """The geometric mean of positive values: `mean` of their logarithms."""
    import math

    found = mean(((cluster, math.log(value)) for cluster, value in values), seed)

    def raised(value: float | None) -> float | None:
        return None if value is None else math.exp(value)

    return Estimate(raised(found.value), raised(found.low), raised(found.high), found.count, found.clusters)


def by(values: Sequence[Any], key: Callable[[Any], str]) -> dict[str, list[Any]]:
    """Values by a name of theirs, names sorted."""
    groups: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        groups[key(value)].append(value)
    return dict(sorted(groups.items()))
