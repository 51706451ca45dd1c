"""Single-step metrics: from judged answers to figures with confidence intervals, all of them pure."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from stepTP.evaluate.bootstrap import by, geometric_mean, mean, share
from stepTP.filter import entropy
from stepTP.verify.report import STAGES, Name, ScoreReport

Rate = Literal["parsed", "well_formed", "legal", "executable", "equal", "bit_equal"]
RATES: tuple[Rate, ...] = ("parsed", "well_formed", "legal", "executable", "equal", "bit_equal")
LABELS: dict[str, str] = {
    "parsed": "parsed",
    "well_formed": "well-formed",
    "legal": "legal",
    "executable": "executable",
    "equal": "equal",
    "bit_equal": "Equal Pass",
    "same_meaning": "same meaning, legal or not",
    "step_legal": "legal by its step alone",
    "step_equal": "equal by its step alone",
}
_REQUIRED: dict[Rate, tuple[Name, ...]] = {
    "parsed": ("parsed",),
    "well_formed": ("well_formed",),
    "legal": ("legal",),
    "executable": ("lowers", "runs"),
    "equal": ("equal",),
    "bit_equal": ("bit_equal",),
}
FASTER = (1.0, 1.25, 2.0)  # speedups that an answer may be faster than


class Judged(BaseModel):
    """An answer, where it belongs, and what became of it. `step`: of its strategy and arguments alone, if asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str
    sample: int
    family: str
    source_id: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float | None
    report: ScoreReport
    step: ScoreReport | None = None


def reached(report: ScoreReport) -> dict[Rate, bool]:
    """Which stages an answer passed: each counts only after those before it, so a copy of the state is not `equal`.

    Where no step is asked for, none is missed.
    """
    result: dict[Rate, bool] = {}
    good = report.error is None
    for rate in RATES:
        good = good and all(_is_good(report, stage) for stage in _REQUIRED[rate])
        result[rate] = good
    return result


def _is_good(report: ScoreReport, stage: Name) -> bool:
    outcome = report.outcome(stage)
    return outcome.status == "pass" or (
        stage == "legal" and (outcome.status, outcome.code) == ("not-reached", "no-step")
    )


def summarise(judged: Sequence[Judged], seed: int = 0) -> dict[str, Any]:
    """All figures of an evaluation, as JSON holds them. What could not be judged counts in `errors` alone."""
    fair = [answer for answer in judged if answer.report.error is None]
    return {
        "answers": len(judged),
        "questions": len({answer.question for answer in judged}),
        "sources": len({answer.source_id for answer in judged}),
        "errors": dict(sorted(Counter(a.report.error.kind for a in judged if a.report.error).items())),
        "rates": _rates(fair, seed),
        "families": {
            family: {"answers": len(group), "rates": _rates(group, seed)}
            for family, group in by(fair, lambda answer: answer.family).items()
        },
        "samples": _samples(fair, seed),
        "strategies": _strategies(fair),
        "failures": dict(_failures(fair)),
        "speedup": _speedup(fair, seed),
        "tokens": _costs(fair, seed),
    }


def _rates(answers: Sequence[Judged], seed: int) -> dict[str, Any]:
    """The share of answers that reach each stage."""
    stages = [(answer.source_id, reached(answer.report)) for answer in answers]
    rates: dict[str, Any] = {rate: share(((s, r[rate]) for s, r in stages), seed).to_json() for rate in RATES}
    same = ((a.source_id, a.report.equal.status == "pass") for a in answers)
    rates["same_meaning"] = share(same, seed).to_json()
    alone = [(a.source_id, reached(a.step)) for a in answers if a.step is not None and a.step.error is None]
    if alone:
        for rate in ("legal", "equal"):
            rates[f"step_{rate}"] = share(((s, r[rate]) for s, r in alone), seed).to_json()
    return rates


def changes(before: Sequence[Judged], after: Sequence[Judged], seed: int = 0) -> dict[str, Any]:
    """By how much rates differ between two sets of answers to the same questions, answer by answer.

    An interval without 0 is a difference beyond chance. Empty where no answer of one has its like in the other.
    """
    known = {(answer.question, answer.sample): answer for answer in before}
    pairs = [(known[key], a) for a in after if (key := (a.question, a.sample)) in known]
    whole = [(b.source_id, b.report, a.report) for b, a in pairs if not b.report.error and not a.report.error]
    steps = [(b.source_id, b.step, a.step) for b, a in pairs if b.step and a.step]
    alone = [(source, b, a) for source, b, a in steps if not b.error and not a.error]
    result = {rate: _change(whole, rate, seed) for rate in RATES if whole}
    return result | {f"step_{rate}": _change(alone, rate, seed) for rate in ("legal", "equal") if alone}


def _change(pairs: Sequence[tuple[str, ScoreReport, ScoreReport]], rate: Rate, seed: int) -> dict[str, Any]:
    differences = ((source, float(reached(a)[rate]) - float(reached(b)[rate])) for source, b, a in pairs)
    return mean(differences, seed).to_json()


def _samples(answers: Sequence[Judged], seed: int) -> dict[str, Any]:
    """What several samples of a question give: accepted in k, and different accepted programs a sample."""
    groups = by(answers, lambda answer: answer.question)
    if not groups:
        return {}
    most = max(map(len, groups.values()))
    result: dict[str, Any] = {"a_question": most}
    for k in sorted({1, most}):
        chances = (
            (group[0].source_id, chance_of_one(len(group), sum(a.report.accepted for a in group), k))
            for group in groups.values()
            if len(group) >= k
        )
        result[f"accepted_at_{k}"] = mean(chances, seed).to_json()
    distinct = [
        (group[0].source_id, len({a.report.state_id for a in group if a.report.accepted}), len(group))
        for group in groups.values()
    ]
    result["distinct"] = mean(((source, count / size) for source, count, size in distinct), seed).to_json()
    accepted = sum(answer.report.accepted for answer in answers)
    result["distinct_of_accepted"] = round(sum(c for _, c, _ in distinct) / accepted, 6) if accepted else None
    return result


def chance_of_one(samples: int, good: int, k: int) -> float:
    """The chance that k of the samples, drawn without replacement, hold a good one (pass@k; Chen et al. 2021)."""
    if k > samples or good > samples:
        raise ValueError(f"{k} of {samples} samples, {good} good")
    return 1 - math.comb(samples - good, k) / math.comb(samples, k)


def _strategies(answers: Sequence[Judged]) -> dict[str, Any]:
    """Which strategies were claimed, how often each was accepted, and the entropy of either in bits."""
    claimed = Counter(a.report.strategy for a in answers if a.report.strategy is not None)
    accepted = Counter(a.report.strategy for a in answers if a.report.accepted and a.report.strategy is not None)
    counts = {
        name: {"claimed": claimed[name], "accepted": accepted[name]}
        for name in sorted(claimed, key=lambda name: (-claimed[name], name))
    }
    return {
        "counts": counts,
        "entropy_bits_claimed": round(entropy(claimed.values()), 4),
        "entropy_bits_accepted": round(entropy(accepted.values()), 4),
    }


def _failures(answers: Sequence[Judged]) -> list[tuple[str, int]]:
    """Where answers fell first: `stage: code`, most frequent first."""
    found = Counter(
        next(
            (
                f"{stage}: {answer.report.outcome(stage).code}"
                for stage in STAGES[: STAGES.index("equal") + 1]
                if answer.report.outcome(stage).status == "fail"
            ),
            "not judged",
        )
        for answer in answers
        if not answer.report.accepted
    )
    return sorted(found.items(), key=lambda entry: (-entry[1], entry[0]))


def _speedup(answers: Sequence[Judged], seed: int) -> dict[str, Any]:
    """Of what was accepted and timed; empty where nothing was timed. Differences within noise are no speedup."""
    timed = [a for a in answers if a.report.accepted and a.report.speedup_vs_state is not None]
    if not timed:
        return {}
    ratios = [(a.source_id, a.report.speedup_vs_state or 0.0) for a in timed]
    clear = {id(a): a.report.speedup_vs_state or 0.0 for a in timed if a.report.speedup.code != "within-noise"}
    return {
        "timed": len(timed),
        "geometric_mean": geometric_mean(ratios, seed).to_json(),
        "best": max(ratio for _, ratio in ratios),
        "faster": {
            f"{bound:g}": share(((a.source_id, clear.get(id(a), 0.0) > bound) for a in answers), seed).to_json()
            for bound in FASTER
        },
    }


def _costs(answers: Sequence[Judged], seed: int) -> dict[str, Any]:
    """Mean tokens and seconds of a reply, as far as they were told."""
    columns = {
        "prompt": [(a.source_id, float(a.prompt_tokens)) for a in answers if a.prompt_tokens is not None],
        "completion": [(a.source_id, float(a.completion_tokens)) for a in answers if a.completion_tokens is not None],
        "seconds": [(a.source_id, a.seconds) for a in answers if a.seconds is not None],
    }
    return {name: mean(values, seed).to_json() for name, values in columns.items() if values}
