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


def test_each_state_is_verified_once_and_never_the_source() -> None:
    jobs = Jobs()
    walked(jobs, depth=4, breadth=4)
    states = [state_id(parse(text)) for text in jobs.verified]
    assert len(states) == len(set(states)) and SOURCE.state_id not in states


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


def test_refusals_carry_their_facts() -> None:
    reverse = LEIR.replace("D_{i,j}+1.0", "D_{i,7-j}")
    source = SOURCE.model_copy(update={"leir": reverse, "state_id": state_id(parse(reverse))})
    walker = Walker(source, 0, config.Walk(depth=1), config.Verify(), ("operator_fusion",), Jobs())
    refusals = [item for item in walk(walker) if isinstance(item, RefusalRow)]
    assert refusals
    for row in refusals:
        assert [fact.holds for fact in row.facts] == [True] * (len(row.facts) - 1) + [False]
