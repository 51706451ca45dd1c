"""The case files: each strategy does what its file says, and every fact that it states refuses somewhere in it."""

import ast
import inspect
import sys

import pytest

from strategies.base import Refused, Strategy, usable
from strategies.catalog import names, strategy
from tests.strategies.cases import played, read_cases, write_cases
from tests.strategies.meaning import why_not_same


def fact_names(cls: type[Strategy]) -> set[str]:
    """The facts that a strategy's own module states, and those of the classes that it shares, from the source."""
    shared = [base for base in cls.__mro__[1:] if issubclass(base, Strategy) and base is not Strategy]
    trees = [ast.parse(inspect.getsource(each)) for each in (sys.modules[cls.__module__], *shared)]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = [(call.func.id, call.args) for call in calls if isinstance(call.func, ast.Name)]
    stated = {ast.literal_eval(arguments[0]) for name, arguments in called if name == "Fact"}
    return stated | {"flow-preserved" for name, _ in called if name == "flow_preserved"}


@pytest.mark.parametrize("name", names())
def test_case_file(name: str, request: pytest.FixtureRequest) -> None:
    cases = read_cases(name)
    found = [played(case, strategy(name)) for case in cases]
    if request.config.getoption("--update-cases"):
        write_cases(name, found)
    else:
        assert found == cases
        assert len({case.title for case in cases}) == len(cases)


@pytest.mark.parametrize("name", names())
def test_every_fact_refuses_in_a_case(name: str) -> None:
    refused = {case.result.split(":")[0] for case in read_cases(name) if case.outcome == "refused"}
    assert fact_names(strategy(name)) <= refused


def test_the_facts_of_every_step_refuse_in_a_case() -> None:
    refused = {case.result.split(":")[0] for name in names() for case in read_cases(name) if case.outcome == "refused"}
    assert {"changes-the-program", "stays-well-formed"} <= refused


@pytest.mark.parametrize("name", names())
def test_the_first_case_is_an_example(name: str) -> None:
    assert read_cases(name)[0].outcome.startswith("after")


@pytest.mark.parametrize("name", names())
def test_cases_keep_the_meaning(name: str) -> None:
    """And each is proposed, replays, and can be told in every kind of sentence."""
    cls = strategy(name)
    for case in read_cases(name):
        program, step = case.program(), case.instance(cls)
        try:
            applied = step.apply(program)
        except Refused:
            continue
        assert not why_not_same(program, step, applied, case.title)
        terms = step.terms(program, applied.program)
        for sentences in (cls.choice, cls.change, cls.effect):
            assert usable(sentences, terms), f"{case.title}: no sentence fits {sorted(terms)}"


@pytest.mark.parametrize("name", names())
def test_every_sentence_is_usable_in_a_case(name: str) -> None:
    cls = strategy(name)
    told: set[str] = set()
    for case in read_cases(name):
        program, step = case.program(), case.instance(cls)
        if case.outcome != "refused":
            terms = step.terms(program, step.apply(program).program)
            sentences = (*cls.choice, *cls.change, *cls.effect)
            told.update(sentence for sentence in sentences if usable([sentence], terms))
    assert told == {*cls.choice, *cls.change, *cls.effect}
