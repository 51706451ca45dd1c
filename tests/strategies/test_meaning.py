"""The catalog as a whole: every legal step keeps the meaning, on random programs and on states that steps lead to."""

from collections import Counter

import pytest

from leir.analysis.flow import Origin, flow_difference
from leir.edit import equation_paths, loops_around, statement_at
from leir.names import substitute_in
from leir.syntax import Binary, Expr, Integer, Loop, Program, Variable
from strategies.base import Applied, Strategy
from strategies.catalog import print_step, strategies, strategy
from tests.programs import distribution
from tests.strategies.cases import read_cases
from tests.strategies.judging import judge
from tests.strategies.walks import PATTERNS, Trial, programs, tried, walk


def report(counts: Counter[str], tried: list[Program]) -> None:
    print(distribution(tried))
    print("\n".join(f"{count:6}  {name}" for name, count in sorted(counts.items())))


def judged_on_own_cases(cls: type[Strategy], wanted: int) -> Counter[str]:
    """Steps of a strategy on the programs of its case file, until so many are legal: rare ones have work there."""
    counts: Counter[str] = Counter()
    for case in read_cases(cls.name):
        if counts[f"{cls.name} legal"] < wanted and case.outcome != "refused":
            own = Trial(case.program(), case.instance(cls), tried(case.instance(cls), case.program()))
            others = walk(f"own {case.title}", case.program(), (cls,), depth=2, each=wanted)
            counts += judge(f"own {case.title}", [own, *others])
    return counts


def test_every_legal_step_keeps_the_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    seen: list[Program] = []
    for name, program in programs(range(10)):
        seen.append(program)
        counts += judge(name, list(walk(name, program, strategies(), depth=1, each=3)))
    for cls in strategies():
        if counts[f"{cls.name} legal"] < 3:
            counts += judged_on_own_cases(cls, 3)
    with capsys.disabled():
        report(counts, seen)
    assert all(counts[f"{each.name} legal"] >= 3 for each in strategies())


@pytest.mark.slow
def test_twenty_legal_steps_of_each_strategy_keep_the_meaning() -> None:
    counts: Counter[str] = Counter()
    for name, program in programs(range(60)):
        counts += judge(name, list(walk(name, program, strategies(), depth=2, each=2)))
    for cls in strategies():
        if counts[f"{cls.name} legal"] < 20:
            counts += judged_on_own_cases(cls, 20)
    assert all(counts[f"{each.name} legal"] >= 20 for each in strategies())


@pytest.mark.slow
def test_every_legal_step_keeps_the_meaning_of_many_programs(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    seen: list[Program] = []
    for name, program in programs(range(1000, 1300)):
        seen.append(program)
        counts += judge(name, list(walk(name, program, strategies(), depth=4, each=4)))
    with capsys.disabled():
        report(counts, seen)


def test_long_walks_over_the_patterns() -> None:
    counts: Counter[str] = Counter()
    for number, (name, program) in list(enumerate(programs(range(0))))[::3]:
        assert number < len(PATTERNS)
        counts += judge(f"long {name}", list(walk(f"long {name}", program, strategies(), depth=5, each=1)))
    assert counts.total() > 100


def test_a_split_keeps_the_flow_of_values() -> None:
    """The rewrite of loop_split needs no such fact, since it only renumbers iterations: here it is held to it."""
    checked = 0
    for name, program in programs(range(20)):
        for trial in walk(f"split {name}", program, (strategy("loop_split"),), depth=1, each=3):
            if not isinstance(trial.outcome, Applied):
                continue
            args = trial.step.to_json()["args"]
            path, factor = tuple(args["path"]), args["factor"]
            after = trial.outcome.program
            outer = statement_at(after, path)
            assert isinstance(outer, Loop)
            inner = outer.body[0]
            assert isinstance(inner, Loop)
            index: dict[str, Expr] = {
                outer.variable: Binary(
                    "+", Binary("*", Variable(outer.variable), Integer(factor)), Variable(inner.variable)
                )
            }
            origins: dict[tuple[int, ...], Origin] = {}
            for old, new in zip(equation_paths(program), equation_paths(after), strict=True):
                variables = tuple(Variable(loop.variable) for loop in loops_around(program, old))
                below = old[: len(path)] == path
                origins[new] = Origin(old, tuple(substitute_in(v, index) for v in variables) if below else variables)
            assert flow_difference(program, after, origins) is None, print_step(trial.step)
            checked += 1
    assert checked > 40
