"""Metrics of single steps against cases that were counted by hand."""

import math
from typing import Any

import pytest

from stepTP.evaluate.bootstrap import geometric_mean, mean, share
from stepTP.evaluate.metrics import RATES, Judged, chance_of_one, changes, reached, summarise
from stepTP.evaluate.page import shown, single_page
from stepTP.evaluate.plots import Bar, bars, lines
from stepTP.verify import Outcome, Problem, ScoreReport

PASS, FAIL = Outcome(status="pass"), Outcome(status="fail", code="x")
UP_TO_EQUAL = ("parsed", "well_formed", "legal", "lowers", "runs", "equal")


def report(*stages: str, **fields: Any) -> ScoreReport:
    return ScoreReport(**dict.fromkeys(stages, PASS), **fields)


def judged(question: str, sample: int, source: str, found: ScoreReport, **fields: Any) -> Judged:
    family = source.partition("-")[0]
    told = {"prompt_tokens": None, "completion_tokens": None, "seconds": None, **fields}
    return Judged(question=question, sample=sample, family=family, source_id=source, report=found, **told)


EQUAL = report(*UP_TO_EQUAL, "bit_equal", strategy="loop_split", state_id="s1")
OTHER = report(*UP_TO_EQUAL, strategy="loop_tiling", state_id="s2", bit_equal=FAIL)
COPY = report("parsed", "well_formed", "lowers", "runs", "equal", "bit_equal", legal=FAIL, strategy="loop_split")
UNPARSED = report(parsed=FAIL)
BROKEN = ScoreReport(error=Problem(kind="pool", message="gone"))


@pytest.mark.parametrize(
    ("found", "stages"),
    [
        (EQUAL, 6),
        (OTHER, 5),
        (COPY, 2),  # it computes the same, and is no step
        (UNPARSED, 0),
        (report("parsed", "well_formed", "lowers", "runs", "equal", legal=Outcome(code="no-step")), 5),  # none is asked
        (report("parsed", "well_formed", "legal", "lowers", "equal", "bit_equal"), 3),  # it did not run
        (report("well_formed", "legal"), 0),
    ],
)
def test_a_stage_counts_after_those_before_it(found: ScoreReport, stages: int) -> None:
    assert reached(found) == {rate: n < stages for n, rate in enumerate(RATES)}


def test_changes_compare_answers_to_the_same_question() -> None:
    """Three pairs; a question that one side lacks, and an answer that could not be judged, say nothing."""
    before = [
        judged("q1", 0, "softmax-1", UNPARSED, step=EQUAL),
        judged("q2", 0, "softmax-1", OTHER),
        judged("q3", 0, "mlp-1", EQUAL, step=OTHER),
        judged("q4", 0, "mlp-1", BROKEN),
        judged("q5", 0, "mlp-1", UNPARSED),
    ]
    after = [
        judged("q4", 0, "mlp-1", EQUAL),
        judged("q3", 0, "mlp-1", OTHER, step=UNPARSED),
        judged("q2", 0, "softmax-1", EQUAL),
        judged("q1", 0, "softmax-1", EQUAL, step=EQUAL),
        judged("q5", 1, "mlp-1", EQUAL),
    ]
    found = changes(before, after)
    assert {rate: value["value"] for rate, value in found.items()} == {
        "parsed": 0.333333, "well_formed": 0.333333, "legal": 0.333333, "executable": 0.333333, "equal": 0.333333,
        "bit_equal": 0.333333, "step_legal": -0.5, "step_equal": -0.5,
    }  # fmt: skip
    assert (found["equal"]["count"], found["equal"]["clusters"]) == (3, 2)
    assert changes(before, []) == {}
    assert {value["value"] for value in changes(before, before).values()} == {0.0}


def test_a_summary_counts_what_was_counted_by_hand() -> None:
    """Two states of one program, one of another: 2, 2 and 1 samples, and one that could not be judged."""
    answers = [
        judged("q1", 0, "softmax-1", EQUAL, prompt_tokens=10, completion_tokens=4, seconds=1.0),
        judged("q1", 1, "softmax-1", EQUAL, prompt_tokens=10, completion_tokens=8, seconds=2.0),
        judged("q2", 0, "softmax-1", OTHER),
        judged("q2", 1, "softmax-1", UNPARSED),
        judged("q3", 0, "mlp-1", COPY),
        judged("q3", 1, "mlp-1", BROKEN),
    ]
    found = summarise(answers)
    assert (found["answers"], found["questions"], found["sources"], found["errors"]) == (6, 3, 2, {"pool": 1})
    values = {name: estimate["value"] for name, estimate in found["rates"].items()}
    assert values == {
        "parsed": 0.8, "well_formed": 0.8, "legal": 0.6, "executable": 0.6, "equal": 0.6, "bit_equal": 0.4,
        "same_meaning": 0.8,
    }  # fmt: skip
    assert {f: (v["answers"], v["rates"]["equal"]["value"]) for f, v in found["families"].items()} == {
        "mlp": (1, 0.0), "softmax": (4, 0.75),
    }  # fmt: skip
    samples = found["samples"]
    assert samples["accepted_at_1"]["value"] == pytest.approx((1 + 0.5 + 0) / 3, abs=1e-6)
    assert samples["accepted_at_2"]["value"] == 1.0  # of the two questions with two samples
    assert samples["distinct"]["value"] == pytest.approx((1 / 2 + 1 / 2 + 0) / 3, abs=1e-6)
    assert samples["distinct_of_accepted"] == pytest.approx(2 / 3, abs=1e-6)
    assert found["strategies"]["counts"] == {
        "loop_split": {"claimed": 3, "accepted": 2}, "loop_tiling": {"claimed": 1, "accepted": 1},
    }  # fmt: skip
    assert found["strategies"]["entropy_bits_claimed"] == pytest.approx(0.8113, abs=1e-4)
    assert found["failures"] == {"legal: x": 1, "parsed: x": 1}
    assert found["speedup"] == {}
    assert found["tokens"]["completion"]["value"] == 6
    assert found["tokens"]["seconds"]["value"] == 1.5


def test_speed_counts_where_it_is_no_noise() -> None:
    def timed(ratio: float, code: str, status: str = "pass") -> ScoreReport:
        speed = Outcome.model_validate({"status": status, "code": code})
        return EQUAL.model_copy(update={"speedup_vs_state": ratio, "speedup": speed})

    answers = [
        judged("q1", 0, "a-1", timed(4.0, "large-speedup")),
        judged("q2", 0, "a-2", timed(1.0, "within-noise", "fail")),
        judged("q3", 0, "a-3", timed(1.5, "within-noise", "fail")),
        judged("q4", 0, "a-4", UNPARSED.model_copy(update={"speedup_vs_state": 9.0})),
    ]
    found = summarise(answers)["speedup"]
    assert (found["timed"], found["best"]) == (3, 4.0)
    assert found["geometric_mean"]["value"] == pytest.approx((4 * 1 * 1.5) ** (1 / 3), rel=1e-5)
    assert {bound: e["value"] for bound, e in found["faster"].items()} == {"1": 0.25, "1.25": 0.25, "2": 0.25}


def test_steps_are_judged_without_their_programs() -> None:
    half = report("parsed", well_formed=FAIL)
    found = summarise([judged("q", 0, "a-1", half, step=EQUAL), judged("q", 1, "a-1", EQUAL, step=EQUAL)])
    assert found["rates"]["legal"]["value"] == 0.5
    assert found["rates"]["step_legal"]["value"] == found["rates"]["step_equal"]["value"] == 1.0


def test_no_answers_are_no_figures() -> None:
    found = summarise([])
    assert found["rates"]["equal"] == {"value": None, "low": None, "high": None, "count": 0, "clusters": 0}
    assert shown(found["rates"]["equal"]) == ""


@pytest.mark.parametrize(("n", "good", "k", "chance"), [(4, 1, 1, 0.25), (4, 2, 2, 5 / 6), (3, 0, 3, 0), (3, 1, 3, 1)])
def test_the_chance_of_one_good_sample(n: int, good: int, k: int, chance: float) -> None:
    assert chance_of_one(n, good, k) == pytest.approx(chance)


def test_an_interval_is_over_clusters() -> None:
    """A hundred equal answers of two programs say no more than two."""
    many = [(n % 2, n % 2 == 0) for n in range(100)]
    found = share(many)
    assert (found.value, found.low, found.high, found.clusters) == (0.5, 0.0, 1.0, 2)
    apart = share([(n, n % 2 == 0) for n in range(100)])
    assert apart.low == pytest.approx(0.4, abs=0.03)
    assert apart.high == pytest.approx(0.6, abs=0.03)
    assert share(many, seed=0) == found  # no generator that is shared, none that is seeded by the clock


def test_an_interval_covers_the_truth_as_often_as_it_says() -> None:
    import numpy as np

    rng = np.random.default_rng(7)
    covered = 0
    for trial in range(200):
        truth = rng.beta(2, 3, size=40)  # programs differ in how hard they are
        found = share(((n, bool(rng.random() < p)) for n, p in enumerate(truth) for _ in range(4)), seed=trial)
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.4 <= found.high
    assert 175 <= covered <= 198


def test_where_all_agree_the_other_end_is_the_exact_bound() -> None:
    none = share([(n, False) for n in range(20)])
    assert (none.value, none.low) == (0.0, 0.0)
    assert none.high is not None
    assert (1 - none.high) ** 20 == pytest.approx(0.025)
    every = share([(n, True) for n in range(20)])
    assert (every.high, every.low) == (1.0, pytest.approx(1 - none.high))
    assert share([("one", True)] * 9).low is None


def test_means_of_values_and_of_logarithms() -> None:
    assert mean([("a", 1.0), ("a", 2.0), ("b", 6.0)]).value == 3.0
    found = geometric_mean([("a", 1.0), ("b", 4.0)])
    assert found.value == pytest.approx(2.0)
    assert (found.low, found.high) == (pytest.approx(1.0), pytest.approx(4.0))
    assert geometric_mean([]).value is None


def test_the_page_says_what_the_summary_says() -> None:
    answers = [judged(f"q{n}", 0, f"<b>-{n}", EQUAL if n else COPY) for n in range(4)]
    summary = summarise(answers)
    html = single_page("a <model>", {"run": "runs/a&b"}, summary)
    assert "75.0% [25.0%, 100.0%]" in html
    assert "a &lt;model&gt;" in html and "runs/a&amp;b" in html and "&lt;b&gt;" in html
    assert "<b>" not in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_a_plot_draws_its_values() -> None:
    import xml.etree.ElementTree as ElementTree

    drawn = ElementTree.fromstring(bars("t", [Bar("a", 0.5, 0.25, 1.0), Bar("b", None), Bar("c", 0.25)], 1.0))
    widths = [float(r.attrib["width"]) for r in drawn.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths[0] == pytest.approx(2 * widths[1])
    assert "no data" in [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text")]
    line = ElementTree.fromstring(lines("t", [("one", [(0, 0.0), (1, 2.0), (2, 1.0)])], "steps"))
    (points,) = line.iter("{http://www.w3.org/2000/svg}polyline")
    heights = [float(point.split(",")[1]) for point in points.attrib["points"].split()]
    assert heights[1] < heights[2] < heights[0]
    assert heights[2] == pytest.approx((heights[0] + heights[1]) / 2)
    assert math.isclose(heights[0] - heights[1], 220)
    assert lines("t", [], "steps") == ""
