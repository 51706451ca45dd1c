"""One number from a report: how far an answer got, with documented weights."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from stepTP.verify.report import Name, ScoreReport


class Unscored(RuntimeError):
    """An answer has no reward through no fault of its own: the message is the report's error."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """What each stage adds, together at most 1. A stage counts only if every stage before it did not fail.

    So a copy of the state, which computes the right thing, earns nothing for being equal: it is no legal step. Speed
    counts after equality only, where it was measured and is no noise: nothing up to a speedup of 1, all from
    `full_speedup` on, in between by the logarithm. Passing one more stage never lowers a reward.

    `shared`: what equality and speed add is divided among the accepted answers to one state that take one strategy
    (`crowds`), so that an answer is worth most where others do something else.
    """

    parsed: float = 0.05
    well_formed: float = 0.05
    legal: float = 0.3
    equal: float = 0.4
    speed: float = 0.2
    full_speedup: float = 8.0
    shared: bool = False

    def __post_init__(self) -> None:
        weights = (self.parsed, self.well_formed, self.legal, self.equal, self.speed)
        if min(weights) < 0 or not math.isfinite(sum(weights)) or sum(weights) > 1 + 1e-9:
            raise ValueError(f"weights are not negative and at most 1 together, not {weights}")
        if not self.full_speedup > 1:
            raise ValueError(f"full_speedup is above 1, not {self.full_speedup}")


DEFAULT = Shaping()


def reward(report: ScoreReport, shaping: Shaping = DEFAULT, crowd: int = 1) -> float:
    """The reward of a report, in [0, 1]; `crowd` counts only where the shaping shares.

    Raises Unscored where the report has an error.
    """
    if report.error is not None:
        raise Unscored(f"{report.error.kind}: {report.error.message}")
    stages: tuple[tuple[Name, float], ...] = (
        ("parsed", shaping.parsed),
        ("well_formed", shaping.well_formed),
        ("legal", shaping.legal),
    )
    total = 0.0
    for stage, weight in stages:
        if not _is_good(report, stage):
            return total
        total += weight
    if not _is_good(report, "equal"):
        return total
    rest = shaping.equal
    if report.speedup.status == "pass" and report.speedup_vs_state is not None and report.speedup_vs_state > 1:
        rest += shaping.speed * min(1.0, math.log(report.speedup_vs_state) / math.log(shaping.full_speedup))
    return min(total + rest / (crowd if shaping.shared else 1), 1.0)


def crowds(reports: Sequence[ScoreReport], states: Sequence[Hashable]) -> list[int]:
    """For each answer how many accepted ones to its state take its strategy; 1 where it is not accepted."""
    keys = [(state, report.strategy) for report, state in zip(reports, states, strict=True)]
    counts = Counter(key for report, key in zip(reports, keys, strict=True) if report.accepted)
    return [counts[key] if report.accepted else 1 for report, key in zip(reports, keys, strict=True)]


def _is_good(report: ScoreReport, stage: Name) -> bool:
    """Passed; or, of legality, no step was asked for and the program is another than the state's."""
    outcome = report.outcome(stage)
    return outcome.status == "pass" or (stage == "legal" and outcome.code == "no-step" and outcome.status != "fail")
