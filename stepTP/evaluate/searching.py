"""Multi-step evaluation: what searches find on held-out programs at equal budgets, and what they spend on it."""

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from stepTP.draw import digest
from stepTP.evaluate.bootstrap import by, geometric_mean, mean, share
from stepTP.filter import entropy
from stepTP.records import ProgramRow, Step
from stepTP.search import search_of
from stepTP.search.env import Environment, SearchError, explore
from stepTP.search.journal import Journal
from stepTP.search.protocol import Objective, Policy, Settings
from stepTP.walk import Jobs

FOUND = "found.jsonl"


class Found(BaseModel):
    """What one search found on one program. Seconds are the objective's, of `source_s` and of every state it valued.

    `values`: of each valued state, in order of arrival, with the evaluations spent until then. `refused`: proposals
    that were illegal; `rejected`: legal ones that did not hold; `problems`: times that the policy had no answer.
    `eager_s`, `compiled_s`: PyTorch's, where states are timed. `tokens`: of a model that was asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_id: str
    family: str
    search: str
    policy: str
    objective: str
    target: str
    source_s: float | None
    values: tuple[tuple[int, float], ...]
    best: tuple[Step, ...]  # the steps from the source to the best state
    eager_s: float | None
    compiled_s: float | None
    strategies: dict[str, int]  # of the steps to new states
    evaluations: int
    measurements: int
    refused: int
    rejected: int
    problems: int
    tokens: int | None
    seconds: float
    ended: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return (self.source_id, self.search, self.policy, self.objective)

    @property
    def best_s(self) -> float | None:
        """The seconds of the best state, the source among them; None where the search could not begin."""
        return None if self.source_s is None else min([self.source_s, *(value for _, value in self.values)])

    @property
    def proposals(self) -> int:
        """Steps that were proposed: those to new states, and those that came to nothing."""
        return self.evaluations + self.refused


def search_program(
    source: ProgramRow,
    search: str,
    policy: Policy,
    objective: Objective,
    settings: Settings,
    jobs: Jobs,
    journal: Journal | None = None,
    compiled_s: float | None = None,
) -> Found:
    """One search on one program, within its budget. A search that cannot begin has no values, and says why.

    `compiled_s`: of the module after torch.compile, if that was timed.
    """
    told: dict[str, Any] = {
        "source_id": source.id, "family": source.source.family, "search": search, "policy": policy.name,
        "objective": objective.name, "target": settings.target,
    }  # fmt: skip
    start = time.monotonic()
    try:
        env = Environment(source, policy, objective, settings, jobs, journal)
    except SearchError as error:
        nothing: dict[str, Any] = dict.fromkeys(("source_s", "eager_s", "compiled_s", "tokens"))
        zero = dict.fromkeys(("evaluations", "measurements", "refused", "rejected", "problems"), 0)
        return Found(**told, **nothing, **zero, values=(), best=(), strategies={}, seconds=0.0, ended=str(error))
    ended = explore(env, search_of(search))
    nodes = [node for node in env.nodes if node is not env.root]
    eager = [row.timing.median_us / 1e6 for row in env.timings if row.subject == "eager" and row.timing]
    values = [(node.number, node.value_s) for node in nodes if node.value_s is not None and math.isfinite(node.value_s)]
    return Found(
        **told,
        source_s=env.root.value_s,
        values=tuple((number, value) for number, value in values if value > 0),
        best=env.best.state.path,
        eager_s=eager[0] if eager else None,
        compiled_s=compiled_s,
        strategies=dict(sorted(Counter(node.taken.step.strategy for node in nodes if node.taken).items())),
        evaluations=env.evaluations,
        measurements=env.measurements,
        refused=len(env.refusals),
        rejected=len(env.rejected),
        problems=len(env.problems),
        tokens=env.tokens,
        seconds=round(time.monotonic() - start, 3),
        ended=ended,
    )


def journal_of(out: Path, key: tuple[str, ...]) -> Journal:
    """The journal of one search, so that one that is stopped asks for nothing twice."""
    folder = out / "asked"
    folder.mkdir(exist_ok=True)
    return Journal(folder / f"{digest(*key).hex()[:16]}.jsonl")


def keep(found: Found, out: Path) -> None:
    """Appends to what `out` holds."""
    with (out / FOUND).open("a", encoding="utf-8") as lines:
        lines.write(found.model_dump_json() + "\n")


def summarise_searches(found: Sequence[Found], seed: int = 0) -> list[dict[str, Any]]:
    """Figures of each search with each policy, over programs; the best geometric mean first."""
    groups = by(found, lambda one: f"{one.search} / {one.policy} / {one.objective}")
    rows = [_summary(name, group, seed) for name, group in groups.items()]
    return sorted(rows, key=lambda row: (-(row["best"]["geometric_mean"]["value"] or 0.0), row["name"]))


def _summary(name: str, group: Sequence[Found], seed: int) -> dict[str, Any]:
    begun = [one for one in group if one.source_s is not None]
    best = [(one.source_id, _ratio(one.source_s, one)) for one in begun]
    states = [
        (one.source_id, sum(one.source_s / value for _, value in one.values) / len(one.values))
        for one in begun
        if one.values and one.source_s is not None
    ]
    used = sum((Counter(one.strategies) for one in begun), Counter[str]())
    on_best = Counter(step.strategy for one in begun for step in one.best)
    return {
        "name": name,
        "programs": len(group),
        "not_begun": {one.source_id: one.ended for one in group if one.source_s is None},
        "best": {
            "mean": mean(best, seed).to_json(),
            "geometric_mean": geometric_mean(best, seed).to_json(),
            "most": round(max((ratio for _, ratio in best), default=0.0), 4),
            "improved": share(((source, ratio > 1) for source, ratio in best), seed).to_json(),
        },
        "mean_of_states": mean(states, seed).to_json(),
        "over_eager": _over(begun, "eager_s", seed),
        "over_compiled": _over(begun, "compiled_s", seed),
        "efficiency": mean(
            ((one.source_id, len(one.best) / one.proposals) for one in begun if one.proposals), seed
        ).to_json(),
        "depth": mean(((one.source_id, float(len(one.best))) for one in begun), seed).to_json(),
        "strategies": dict(sorted(used.items(), key=lambda entry: (-entry[1], entry[0]))),
        "strategies_on_best": dict(sorted(on_best.items(), key=lambda entry: (-entry[1], entry[0]))),
        "strategy_entropy_bits": round(entropy(used.values()), 4),
        "evaluations": sum(one.evaluations for one in begun),
        "measurements": sum(one.measurements for one in begun),
        "refused": sum(one.refused for one in begun),
        "rejected": sum(one.rejected for one in begun),
        "problems": sum(one.problems for one in begun),
        "tokens": sum(one.tokens or 0 for one in begun) if any(one.tokens is not None for one in begun) else None,
        "seconds": round(sum(one.seconds for one in begun), 2),
        "curve": curve(begun),
        "families": {
            family: geometric_mean(((one.source_id, _ratio(one.source_s, one)) for one in ones), seed).to_json()
            for family, ones in by(begun, lambda one: one.family).items()
        },
    }


def _ratio(seconds: float | None, one: Found) -> float:
    assert seconds is not None
    assert one.best_s is not None
    return seconds / one.best_s


def _over(group: Sequence[Found], baseline: str, seed: int) -> dict[str, Any]:
    """The geometric mean of the best state's speedup over PyTorch, of the programs where that was measured."""
    ratios = [(one.source_id, _ratio(seconds, one)) for one in group if (seconds := getattr(one, baseline)) is not None]
    return geometric_mean(ratios, seed).to_json()


def curve(group: Sequence[Found]) -> list[tuple[int, float]]:
    """The geometric mean over programs of the best speedup so far, by evaluations."""
    if not group:
        return []
    last = max((number for one in group for number, _ in one.values), default=0)
    sums = [0.0] * (last + 1)
    for one in group:
        assert one.source_s is not None
        values, best = dict(one.values), one.source_s
        for number in range(last + 1):
            best = min(best, values.get(number, best))
            sums[number] += math.log(one.source_s / best)
    return [(number, round(math.exp(total / len(group)), 6)) for number, total in enumerate(sums)]
