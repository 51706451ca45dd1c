"""Wrong programs that public evaluators have let pass, each with a correct twin: all refused, all twins accepted.

All run as a build runs them: the pool's task, in a worker. Those that the checker refuses there run past it as well,
for the verification alone must refuse what it can.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from leir.check import check
from leir.lowering import NestSequence, compile_nests
from leir.parser import parse
from stepTP.verify.pool import Failure, Pool
from stepTP.verify.prepare import Trials
from stepTP.verify.run import Judged, observe
from stepTP.verify.task import SourceKey, prepared_trials
from tests.stepTP.canaries import CANARIES, RELU, SOFTMAX, WRONG, Canary
from tests.stepTP.spoiled import HOLES as CONDUCTS

README = Path(__file__).parents[2] / "stepTP" / "verify" / "README.md"


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(workers=1, timeout_s=60) as pool:
        yield pool


@cache
def trials(source: str) -> Trials:
    return prepared_trials(SourceKey("canary", "", source, 1, 0))


@cache
def compiled(text: str) -> NestSequence:
    return compile_nests([parse(text)], "llvm")[0]


def payload(source: str, leir: str) -> dict[str, Any]:
    common = {"source": {"id": "canary"}, "leir_source": source, "targets": ["llvm"], "draws": 1, "parent": None}
    return {**common, "leir": leir, "bit_exact": False}


def ask(pool: Pool, source: str, leir: str, task: str = "stepTP.verify.task.verify", **more: Any) -> tuple[bool, str]:
    """Whether a program passes, and why not. A program that is lost passes no test."""
    found = pool.submit(task, {**payload(source, leir), **more}, near=source).result(120)
    if isinstance(found, Failure):
        assert found.kind == "refused", found
        return False, found.message
    return found["ok"], found["message"]


@pytest.mark.parametrize("canary", CANARIES, ids=lambda canary: canary.name)
def test_a_wrong_program_is_refused_and_its_twin_accepted(canary: Canary, pool: Pool) -> None:
    assert ask(pool, canary.source, canary.twin) == (True, "")
    passed, message = ask(pool, canary.source, canary.wrong)
    assert not passed
    assert message.startswith(("llvm: C", "IllFormed: "))


@pytest.mark.parametrize("name", [name for name in WRONG if check(parse(WRONG[name][1]))])
def test_the_verification_alone_refuses_what_the_checker_would(name: str) -> None:
    source, wrong, twin = WRONG[name]
    assert observe(compiled(wrong), trials(source).trials).difference.problem is not None
    assert observe(compiled(twin), trials(source).trials).difference.problem is None


@pytest.mark.parametrize(
    "name", ["more shared memory than a block has", "more threads than a block has", "a parallel sum",
             "threads that add to one element", "a scan whose steps run in parallel", "the input is edited"]
)  # fmt: skip
def test_what_must_never_run_is_refused_before(name: str, pool: Pool) -> None:
    (canary,) = [canary for canary in CANARIES if canary.name == name]
    assert ask(pool, canary.source, canary.wrong)[1].startswith("IllFormed: ")


@pytest.mark.parametrize("conduct", CONDUCTS)
def test_spoiled_conduct_is_refused(conduct: str, pool: Pool) -> None:
    passed, message = ask(pool, SOFTMAX, SOFTMAX, "tests.stepTP.spoiled.verify", conduct=conduct)
    assert not passed
    assert message.startswith("llvm: ")


def test_a_program_that_only_goes_through_the_spoiling_task_is_accepted(pool: Pool) -> None:
    assert ask(pool, SOFTMAX, SOFTMAX, "tests.stepTP.spoiled.verify", conduct="leaves_all_as_it_is") == (True, "")


def test_no_verdict_is_taken_from_another_program_source_or_draw(pool: Pool) -> None:
    """What a worker keeps must be of the very text, source, seed and draws that are asked for."""
    wrong = RELU.replace(",0.0)", ",A_{i,j}*1e-06)")
    for _ in range(2):
        assert ask(pool, RELU, RELU)[0]
        assert not ask(pool, RELU, wrong)[0]
        assert ask(pool, wrong, wrong)[0]
        assert not ask(pool, wrong, RELU)[0]
    names = [
        pool.submit("stepTP.verify.task.verify", {**payload(RELU, RELU), **key}, near=RELU).result(60)["verdicts"][0]
        for key in ({}, {"draws": 2}, {"source": {"id": "other"}}, {"seed": 1})
    ]
    assert len(names[1]["inputs"]) > len(names[0]["inputs"])


def test_a_table_is_right_where_it_was_made() -> None:
    """The canary of one fixed seed would pass a check that knows one draw."""
    (canary,) = [canary for canary in CANARIES if canary.hole == "one fixed seed"]
    one = observe(compiled(canary.wrong), trials(canary.source).trials[:1])
    assert one.difference.problem is None


def test_the_reason_names_the_place_and_the_draw() -> None:
    source, wrong, _ = WRONG["output not written"]
    problem = observe(compiled(wrong), trials(source).trials).difference.problem
    assert problem is not None
    assert problem.startswith("C_{0,39} is nan, expected ")
    assert problem.endswith("8 of 320 elements are wrong (inputs normal/0)")


def table() -> str:
    """The README's table of holes."""
    holes = Counter(canary.hole for canary in CANARIES) + Counter(CONDUCTS.values())
    rows = [f"| {hole} | {count} |" for hole, count in sorted(holes.items())]
    return "\n".join(["| hole | wrong programs |", "|---|---|", *rows, f"| all | {holes.total()} |"])


def test_the_readme_lists_the_holes() -> None:
    assert f"<!-- canaries -->\n{table()}\n<!-- /canaries -->" in README.read_text(encoding="utf-8")


class Scaled:
    """A right program whose output is off by a hundredth."""

    new_buffers = staticmethod(lambda inputs: compiled(SOFTMAX).new_buffers(inputs))

    def run(self, buffers: dict[str, Any]) -> None:
        compiled(SOFTMAX).run(buffers)
        buffers["C"] *= 1.01


def test_outputs_are_judged_once_and_others_anew() -> None:
    judged: Judged = {}
    found = trials(SOFTMAX).trials
    first = observe(compiled(SOFTMAX), found, judged)
    assert len(judged) == len(found)
    assert observe(compiled(SOFTMAX), found, judged).difference == first.difference
    assert len(judged) == len(found)
    assert observe(Scaled(), found, judged).difference.problem is not None
    assert len(judged) == len(found) + 1


class Grouped:
    """A program whose runs cost less together, up to four of them, as on a GPU; in one run it is off by a hundredth."""

    together = 4
    new_buffers = staticmethod(lambda inputs: compiled(SOFTMAX).new_buffers(inputs))

    def __init__(self, off: int | None) -> None:
        self.off, self.sizes = off, list[int]()

    def run(self, buffers: dict[str, Any]) -> None:
        self.run_each([buffers])

    def run_each(self, runs: Sequence[dict[str, Any]]) -> None:
        for buffers in runs:
            compiled(SOFTMAX).run(buffers)
        start = sum(self.sizes)
        self.sizes.append(len(runs))
        if self.off is not None and start <= self.off < start + len(runs):
            runs[self.off - start]["C"] *= 1.01


def test_runs_that_go_together_are_judged_as_they_are_alone() -> None:
    found = trials(SOFTMAX).trials
    assert len(found) >= 5
    right = Grouped(None)
    assert observe(right, found).difference == observe(compiled(SOFTMAX), found).difference
    assert right.sizes[:2] == [4, 4] and sum(right.sizes) == 2 * len(found)
    early, late = Grouped(0), Grouped(2 * len(found) - 2)
    assert "normal/0" in (observe(early, found).difference.problem or "")
    assert early.sizes == [4]  # most wrong programs cost no more than the first draws
    conduct = observe(late, found)
    assert found[-1].draw.name in (conduct.difference.problem or "") and len(conduct.outputs) == len(found)
    unlike = observe(Grouped(7), found).difference.problem or ""
    assert re.search(r"C differs between two runs on the same inputs: C_\{\d+,\d+\} is \S+ and \S+; \d+ of", unlike)
