"""The walk's policy, and what a lost job costs."""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from leir.canonical import state_id
from leir.parser import parse
from stepTP import config
from stepTP.expand import expand
from stepTP.records import ProgramRow, RefusalRow, RejectedRow, SourceRecord
from stepTP.structure import structure
from stepTP.verify.pool import Failure
from stepTP.walk import BATCH, EXPAND, VERIFY, Check, VerifiedStep, Walker, verify_all, walk
from strategies.grid import Grid
from tests.stepTP.fakes import VERDICT

LEIR = "in A_{6,8};out C_{6,8};\nL^{6,8}_{i,j}[D_{i,j}=A_{i,j}*2.0;]\nL^{6,8}_{i,j}[C_{i,j}=D_{i,j}+1.0;]\n"
SOURCE = ProgramRow(
    id="s",
    split="train",
    held_out=None,
    source=SourceRecord(id="s", family="f", torch_code="", torch_sha="", license=""),
    dtype="f32",
    knobs={},
    names={},
    program_signature="",
    leir=LEIR,
    state_id=state_id(parse(LEIR)),
    structure=structure(parse(LEIR)),
    ops=(),
    nests=2,
    iterations=96,
    max_abs_error=0.0,
    verification=(),
    tool_versions={},
)
NAMES = ("loop_reorder", "loop_split", "operator_fusion", "set_storage_scope")
CRASH = Failure("crash", "task", "the worker was lost")


class Jobs:
    """Answers at once; `lost` says which jobs crash."""

    def __init__(self, lost: Callable[[str, dict[str, Any]], bool] | None = None) -> None:
        self.lost = lost
        self.verified: list[str] = []

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        assert near == "s" and task == EXPAND
        future: Future[Any] = Future()
        future.set_result(CRASH if self.lost and self.lost(task, payload) else expand(payload))
        return future

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        assert near == "s" and task == VERIFY and len(items) <= BATCH
        futures: list[Future[Any]] = [Future() for _ in items]
        for item, future in zip(items, futures, strict=True):
            self.verified.append(item["leir"])
            answer = {"ok": True, "cause": "", "message": "", "verdicts": [VERDICT]}
            future.set_result(CRASH if self.lost and self.lost(task, {**payload, **item}) else answer)
        return futures


def walked(jobs: Jobs, names: tuple[str, ...] = NAMES, **limits: int) -> list[Any]:
    settings = config.Walk(**{"depth": 3, "breadth": 2, "per_strategy": 2, "attempts": 6, **limits})
    return list(walk(Walker(SOURCE, 0, settings, config.Verify(), names, jobs)))


def test_depth_and_breadth_limit_the_walk() -> None:
    found = [item for item in walked(Jobs()) if isinstance(item, VerifiedStep)]
    depths = Counter(len(item.before.path) + 1 for item in found)
    assert set(depths) == {1, 2, 3}
    expanded = {item.before.state_id for item in found}
    assert Counter(len(item.before.path) for item in found if item.before.state_id in expanded).keys() == {0, 1, 2}
    for depth in (1, 2):
        assert len({item.before.state_id for item in found if len(item.before.path) == depth}) <= 2
    steps = Counter((item.before.state_id, item.taken.step.strategy) for item in found)
    assert max(steps.values()) <= 2


def test_states_are_reached_once_and_never_the_source_but_by_steps_back() -> None:
    found = [item for item in walked(Jobs(), depth=4, breadth=4) if isinstance(item, VerifiedStep)]
    states = [item.taken.state_id for item in found if not item.undoes]
    assert len(states) == len(set(states)) and SOURCE.state_id not in states
    assert len(found) > len(states)


def test_a_step_back_leads_to_a_state_on_the_way_and_nothing_follows_it() -> None:
    found = [item for item in walked(Jobs(), depth=4, breadth=4) if isinstance(item, VerifiedStep)]
    back = [item for item in found if item.undoes]
    assert back
    for item in back:
        assert item.before.trail[-1 - item.undoes] == item.taken.state_id
        assert item.before.path[-item.undoes :]
    assert not any((*item.before.path, item.taken.step) == other.before.path for item in back for other in found)
    assert {item.before.path[-1].strategy for item in back if item.undoes == 1} >= {"loop_reorder"}


def test_the_inverse_of_the_last_step_is_asked_whatever_the_limit() -> None:
    limits = {"depth": 2, "breadth": 6, "per_strategy": 1, "strategies_per_state": 1, "attempts": 40}
    found = [item for item in walked(Jobs(), names=("operator_fission", "operator_fusion"), **limits) if item]
    back = [item for item in found if isinstance(item, VerifiedStep) and item.undoes]
    assert {(item.before.path[-1].strategy, item.taken.step.strategy) for item in back} == {
        ("operator_fusion", "operator_fission")
    }


def test_so_many_strategies_give_steps_at_a_state() -> None:
    names = ("cache_read_write", "loop_parallelization", "loop_reorder", "loop_split", "operator_fusion")
    for limit, always, most in ((2, (), 2), (1, ("loop_split",), 2)):
        settings = config.Walk(depth=2, breadth=3, per_strategy=2, strategies_per_state=limit, always=always)
        items = list(walk(Walker(SOURCE, 0, settings, config.Verify(), names, Jobs())))
        at: dict[str, set[str]] = {}
        for item in items:
            if isinstance(item, VerifiedStep) and not item.undoes:
                at.setdefault(item.before.state_id, set()).add(item.taken.step.strategy)
        assert max(map(len, at.values())) == most
        assert all(name in taken for taken in at.values() for name in always)


def test_a_strategy_that_is_added_takes_only_the_places_that_it_wins() -> None:
    """Of the strategies at one state, those that still have a place give the steps that they gave before."""
    few, more = ("loop_reorder", "loop_split", "operator_fusion"), (*NAMES, "loop_parallelization")
    settings = config.Walk(depth=1, per_strategy=2, strategies_per_state=2)

    def steps(names: tuple[str, ...]) -> dict[str, set[str]]:
        result: dict[str, set[str]] = {}
        for item in walk(Walker(SOURCE, 0, settings, config.Verify(), tuple(sorted(names)), Jobs())):
            if isinstance(item, VerifiedStep):
                result.setdefault(item.taken.step.strategy, set()).add(item.taken.state_id)
        return result

    before, after = steps(few), steps(more)
    assert set(after) - set(before) <= set(more) - set(few)
    assert all(after[name] == before[name] for name in set(after) & set(before))


def test_long_programs_are_not_expanded() -> None:
    settings = config.Walk(depth=3, breadth=4, longest=len(LEIR))
    found = [item for item in walk(Walker(SOURCE, 0, settings, config.Verify(), NAMES, Jobs())) if item]
    steps = [item for item in found if isinstance(item, VerifiedStep)]
    assert all(len(item.before.leir) <= len(LEIR) for item in steps)
    assert any(len(item.taken.leir) > len(LEIR) for item in steps)


def test_a_path_leads_to_its_state() -> None:
    from leir.printer import to_text
    from strategies.catalog import parse_step

    for item in walked(Jobs()):
        if not isinstance(item, VerifiedStep):
            continue
        program = parse(LEIR)
        for step in item.before.path:
            program = parse_step(step.model_dump()).apply(program).program
        assert to_text(program) == item.before.leir


def test_a_strategy_that_crashes_costs_itself() -> None:
    def lost(task: str, payload: dict[str, Any]) -> bool:
        return task == EXPAND and "loop_reorder" in payload["strategies"]

    found = walked(Jobs(lost), depth=1)
    rejected = [item for item in found if isinstance(item, RejectedRow)]
    assert [(row.stage, row.cause, row.step.strategy) for row in rejected if row.step] == [
        ("expand", "crash", "loop_reorder")
    ]
    taken = {item.taken.step.strategy for item in found if isinstance(item, VerifiedStep)}
    assert taken == {"loop_split", "operator_fusion"}


def test_a_program_that_crashes_costs_itself() -> None:
    checks = [Check(f"program {n}", None, False) for n in range(20)]

    def lost(_: str, program: dict[str, Any]) -> bool:
        return program["leir"] == "program 11"

    answers = list(verify_all(Jobs(lost), config.Verify(), 0, SOURCE, checks))
    assert [n for n, answer in enumerate(answers) if answer is CRASH] == [11]
    assert len(answers) == 20


def test_rare_strategies_are_followed_more_often_than_their_share() -> None:
    """Of the states at depth 1, four in five are splits; far fewer of those expanded are."""
    limits = {"depth": 2, "breadth": 1, "per_strategy": 8, "attempts": 8}
    first, followed = Counter[str](), Counter[str]()
    for seed in range(40):
        settings = config.Walk(**limits)
        items = list(walk(Walker(SOURCE, seed, settings, config.Verify(), ("loop_reorder", "loop_split"), Jobs())))
        steps = [item for item in items if isinstance(item, VerifiedStep)]
        first.update(item.taken.step.strategy for item in steps if not item.before.path)
        followed.update({item.before.path[0].strategy for item in steps if item.before.path})
    share = first["loop_reorder"] / first.total()
    assert share < 0.25
    assert 0.35 < followed["loop_reorder"] / followed.total() < 0.75


def test_a_walk_opens_with_steps_that_others_need() -> None:
    """As long as it opens, the state that the opening strategy leads to is the one that is expanded."""
    limits = config.Walk(depth=3, breadth=1, per_strategy=1, attempts=8, opening=("loop_reorder",), opening_steps=2)
    lengths = Counter[int]()
    for seed in range(12):
        items = list(walk(Walker(SOURCE, seed, limits, config.Verify(), NAMES, Jobs())))
        paths = [[step.strategy for step in i.before.path] for i in items if isinstance(i, VerifiedStep)]
        opened = max(paths, key=len)
        lengths[2 if opened[:2] == ["loop_reorder"] * 2 else int(opened[:1] == ["loop_reorder"])] += 1
    assert min(lengths[n] for n in range(3)) >= 1


def test_steps_are_of_the_grid() -> None:
    settings = config.Walk(depth=2, per_strategy=4)
    walker = Walker(SOURCE, 0, settings, config.Verify(), ("loop_split",), Jobs(), grid=Grid(factors=(5,)))
    taken = [item.taken.step.args for item in walk(walker) if isinstance(item, VerifiedStep) and not item.undoes]
    assert taken and {args["factor"] for args in taken} == {5}


def test_refusals_carry_their_facts() -> None:
    reverse = LEIR.replace("D_{i,j}+1.0", "D_{i,7-j}")
    source = SOURCE.model_copy(update={"leir": reverse, "state_id": state_id(parse(reverse))})
    walker = Walker(source, 0, config.Walk(depth=1), config.Verify(), ("operator_fusion",), Jobs())
    refusals = [item for item in walk(walker) if isinstance(item, RefusalRow)]
    assert refusals
    for row in refusals:
        assert [fact.holds for fact in row.facts] == [True] * (len(row.facts) - 1) + [False]
