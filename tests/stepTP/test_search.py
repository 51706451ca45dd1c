"""Searches over steps: determinism, budgets, resuming, and every policy; jobs run in this process."""

import importlib
import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from stepTP import config
from stepTP.records import Step
from stepTP.search import OFFLINE, POLICIES, SEARCHES, policy_of, search_of
from stepTP.search.env import Environment, explore
from stepTP.search.goal import Goal, seek
from stepTP.search.journal import Journal, JournalError, done
from stepTP.search.objectives import Predicted
from stepTP.search.plot import plot
from stepTP.search.policies.llm import question
from stepTP.search.protocol import Budget, Settings, Spent
from stepTP.search.run import leir_source, tree_of
from stepTP.verify.progress import Answered
from stepTP.walk import Reached, VerifiedStep, Walker
from strategies.grid import Grid
from tests.stepTP.standin import standin

STRATEGIES = ("loop_binding", "loop_fusion", "loop_parallelization", "loop_reorder", "loop_split", "loop_unrolling")
MAP = "in A_{6,8};out C_{6,8};L^{6,8}_{i,j}[C_{i,j}=A_{i,j}*2.0;]"
PROGRAMS = {
    "map": MAP,
    "product": "in A_{8,6},C_{6,8};out D_{8,8};L^{8,8,6}_{i,j,k}[D_{i,j}+=A_{i,k}*C_{k,j};]",
    "softmax": (
        "in A_{4,8};out C_{4,8};L^{4,8}_{i,j}[D_i max=A_{i,j};]L^{4,8}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
        "L^{4,8}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
    ),
    "sum": "in A_{6,8};out C_6;L^{6,8}_{i,j}[C_i+=A_{i,j};]",
    "chain": "in A_{6,8};out C_{6,8};L^{6,8}_{i,j}[D_{i,j}=A_{i,j}+1.0;]L^{6,8}_{i,j}[C_{i,j}=D_{i,j}*D_{i,j};]",
}


class Here:
    """Jobs that run where they are asked for; `dies_after` so many, as a process that is killed."""

    def __init__(self, dies_after: int | None = None) -> None:
        self.left = dies_after
        self.asked = 0

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        del near
        self._count()
        return done(json.loads(json.dumps(_function(task)(payload))))

    def submit_batch(self, task: str, payload: dict[str, Any], items: Any, near: str = "") -> "list[Future[Any]]":
        del near
        self._count()
        events = _function(task)(payload, list(items))
        found = {event.item: event.result for event in events if isinstance(event, Answered)}
        return [done(found[place]) for place in range(len(items))]

    def _count(self) -> None:
        self.asked += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def _function(task: str) -> Any:
    module, _, name = task.rpartition(".")
    return getattr(importlib.import_module(module), name)


def environment(
    text: str, policy: Any, jobs: Here | None = None, journal: Journal | None = None, **settings: Any
) -> Environment:
    """A search's world on a program, with a tiny budget."""
    given = {"budget": Budget(evaluations=5), "width": 2, "depth": 3, "attempts": 2, "target": "cuda"} | settings
    wanted = Settings(strategies=STRATEGIES, **given)
    return Environment(leir_source("x", text), policy, Predicted(), wanted, jobs or Here(), journal)


@pytest.mark.parametrize(
    "program", [pytest.param(name, marks=[pytest.mark.slow] if name == "product" else []) for name in PROGRAMS]
)
def test_every_search_with_every_policy_keeps_to_its_budget_and_is_deterministic(program: str) -> None:
    journal = Journal()
    for policy in OFFLINE:
        for search in SEARCHES:
            trees = []
            for _ in range(2):
                env = environment(PROGRAMS[program], policy_of(policy), journal=journal)
                ended = explore(env, search_of(search))
                assert len(env.nodes) - 1 + len(env.rejected) == env.evaluations <= 5, (policy, search)
                assert env.evaluations > 0, (policy, search, ended)
                assert env.best.value_s == min(n.value_s for n in env.nodes if n.value_s is not None)
                assert all(n.verification for n in env.nodes[1:])
                trees.append(tree_of(env))
            assert trees[0] == trees[1]


@pytest.mark.parametrize(("folder", "known"), [("searches", SEARCHES), ("policies", POLICIES)])
def test_a_module_of_its_folder_is_all_that_a_search_or_a_policy_needs(folder: str, known: tuple[str, ...]) -> None:
    files = (Path(__file__).parents[2] / "stepTP/search" / folder).glob("[a-z]*.py")
    assert list(known) == sorted(file.stem for file in files)
    for name in known:
        assert callable(search_of(name)) if folder == "searches" else policy_of(name).name == name


@pytest.mark.parametrize("policy", OFFLINE)
def test_every_policy_proposes_of_the_grid(policy: str) -> None:
    settings = Settings(("loop_split",), Budget(evaluations=4), grid=Grid(factors=(5,)))
    env = Environment(leir_source("x", MAP), policy_of(policy), Predicted(), settings, Here())
    explore(env, search_of("bfs"))
    taken = [node.taken.step.args for node in env.nodes if node.taken]
    assert taken and {args["factor"] for args in taken} == {5}
    assert settings.described()["grid"] == {"factors": [5]} and "grid" not in Settings(STRATEGIES).described()


def test_a_goal_searches_the_grid_of_its_walk() -> None:
    walker = Walker(
        leir_source("x", MAP), 0, config.Walk(), config.Verify(), ("loop_split",), Here(), grid=Grid(factors=(5,))
    )
    steps = [item for item in seek(walker, Goal(evaluations=4, target="llvm")) if isinstance(item, VerifiedStep)]
    assert steps and {step.taken.step.args["factor"] for step in steps} == {5}


def test_another_seed_gives_another_tree() -> None:
    trees = []
    for seed in range(3):
        env = environment(MAP, policy_of("random"), seed=seed)
        explore(env, search_of("beam"))
        trees.append([node.state.state_id for node in env.nodes])
    assert len({tuple(tree) for tree in trees}) > 1


@pytest.mark.parametrize("search", ["beam", "mcts"])
def test_a_search_that_was_killed_goes_on_with_the_same_tree(search: str, tmp_path: Path) -> None:
    whole = environment(MAP, policy_of("random"))
    explore(whole, search_of(search))
    file = tmp_path / "journal.jsonl"
    with pytest.raises(KeyboardInterrupt), Journal(file) as journal:
        explore(environment(MAP, policy_of("random"), Here(dies_after=3), journal), search_of(search))
    assert file.read_bytes().count(b"\n") >= 3
    with file.open("ab") as half:
        half.write(b'{"key":"')
    jobs = Here()
    with Journal(file) as journal:
        again = environment(MAP, policy_of("random"), jobs, journal)
        explore(again, search_of(search))
    assert tree_of(again) == tree_of(whole)
    with Journal(file) as journal:
        last = environment(MAP, policy_of("random"), Here(dies_after=0), journal)
        explore(last, search_of(search))
    assert tree_of(last) == tree_of(whole)


def test_what_is_no_journal_is_told(tmp_path: Path) -> None:
    file = tmp_path / "journal.jsonl"
    file.write_text("{}\n")
    with pytest.raises(JournalError, match=r"journal\.jsonl:1: is no line of a journal"):
        Journal(file)


def test_a_budget_of_seconds_begins_nothing_after_it() -> None:
    env = environment(MAP, policy_of("random"), budget=Budget(seconds=1e-9))
    with pytest.raises(Spent, match="seconds are over"):
        env.moves(env.root)
    assert env.evaluations == 0


def test_a_move_that_the_budget_does_not_hold_is_not_begun() -> None:
    steps = tuple(Step(strategy="loop_split", args={"path": [0], "factor": factor}) for factor in (2, 3))
    env = environment(MAP, policy_of("scripted", steps=steps), budget=Budget(evaluations=1))
    (move,) = env.moves(env.root)
    end = env.take(env.root, move)
    assert end is not None
    assert env.left().evaluations == 0
    with pytest.raises(Spent, match="0 evaluations left of 1, 1 needed"):
        env.moves(end)
    assert env.take(env.root, move) is end  # a known state costs nothing
    assert env.evaluations == 1


def test_a_script_is_followed_and_a_refusal_is_kept_with_its_fact() -> None:
    steps = (
        Step(strategy="loop_split", args={"path": [0], "factor": 2}),
        Step(strategy="loop_binding", args={"path": [7], "kind": "bx"}),
    )
    env = environment(MAP, policy_of("scripted", steps=steps))
    explore(env, search_of("beam"))
    assert [node.state.path for node in env.nodes] == [(), steps[:1]]
    ((state, refusal),) = env.refusals
    assert state.path == steps[:1]
    assert (refusal.step, refusal.facts[-1].name) == (steps[1], "loop-is-serial")


def test_mcts_gives_states_several_children_and_counts_its_visits_by_depth() -> None:
    env = environment(MAP, policy_of("random"), budget=Budget(evaluations=12))
    explore(env, search_of("mcts"))
    children = [sum(n.parent is node for n in env.nodes) for node in env.nodes]
    assert max(children) > 1
    assert env.visits[0] >= env.visits[1] >= env.visits[2] > 0


def test_a_goal_gives_what_a_walk_gives_and_the_way_to_the_best() -> None:
    walker = Walker(leir_source("x", MAP), 0, config.Walk(), config.Verify(), STRATEGIES, Here())
    goal = Goal(evaluations=6, width=2, depth=2, attempts=2)
    found = list(seek(walker, goal))
    steps = [item for item in found if isinstance(item, VerifiedStep)]
    (reached,) = [item for item in found if isinstance(item, Reached)]
    assert len(steps) == 6
    assert reached.objective.after < reached.objective.before
    left = list(seek(walker, goal, seen={steps[0].taken.state_id}))
    assert [s for s in left if isinstance(s, VerifiedStep)] == steps[1:]


def test_the_picture_has_a_mark_for_every_valued_state() -> None:
    env = environment(MAP, policy_of("random"))
    explore(env, search_of("bfs"))
    assert plot(env, "a < b").count("<circle") == sum(n.value_s is not None for n in env.nodes)
    assert "a &lt; b" in plot(env, "a < b")


GOOD = '<think>split</think>{"strategy": "loop_split", "args": {"path": [0], "factor": 2}}'
BAD = '{"strategy": "loop_split", "args": {"path": [9], "factor": 2}}'


def test_a_model_is_told_why_its_answer_fails_and_asked_again() -> None:
    def script(body: dict[str, Any]) -> tuple[int, Any]:
        said = body["messages"][-1]["content"]
        return 200, GOOD if "path-is-a-loop" in said else BAD if "no-object" in said else "I would split the loop."

    journal = Journal()
    with standin(script) as server:
        policy = policy_of("llm", url=server.url, model="m", count=1, retries=2)
        env = environment(MAP, policy, journal=journal)
        (move,) = env.moves(env.root)
        assert len(server.asked) == 3
        again = environment(MAP, policy, journal=journal)
        assert again.moves(again.root) == (move,)
        assert len(server.asked) == 3  # the journal has the replies
    assert move.steps[0].step == Step(strategy="loop_split", args={"path": [0], "factor": 2})
    assert len(env.refusals) == 1
    system, user = (message["content"] for message in server.asked[0]["messages"])
    assert "loop_split(" in system
    assert env.root.state.leir.strip() in user
    assert "cost model predicts" in user


def test_a_batch_is_written_as_questions_and_goes_on_with_the_replies(tmp_path: Path) -> None:
    files = {"requests": str(tmp_path / "ask.jsonl"), "replies": str(tmp_path / "told.jsonl")}
    policy = policy_of("llm", model="m", count=2, retries=0, **files)
    env = environment(MAP, policy)
    with pytest.raises(Spent, match=r"2 questions are in .*ask\.jsonl"):
        env.moves(env.root)
    lines = [json.loads(line) for line in (tmp_path / "ask.jsonl").read_text().splitlines()]
    assert [line["body"]["messages"] for line in lines] == [question(env, env.root, "")] * 2
    body = {"choices": [{"message": {"content": GOOD}}]}
    told = [
        {"custom_id": lines[0]["custom_id"], "response": {"body": body}},
        {"custom_id": lines[1]["custom_id"], "text": BAD},
    ]
    (tmp_path / "told.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    again = environment(MAP, policy)
    assert [move.steps[0].step.args["factor"] for move in again.moves(again.root)] == [2]
