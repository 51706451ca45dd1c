"""From one program to many verified steps: expansion, level by level, of the states that legal steps lead to.

The policy, which has five parts:

1. *At a state*, strategies are asked in the order of a race: each draws an arrival time with rate 1/(1+n), where n is
   how many steps of it this walk has kept so far. The first `strategies_per_state` that can do something there give up
   to `per_strategy` legal steps each, drawn by hash among their candidates (`stepTP.expand`). So what a walk has seldom
   done it tries first. Strategies in `always` are asked at every state: they are the hard ones, of which none is lost.
2. *Back*: a step that leads to a state on the way to this one takes back what was done. It is verified and kept like
   any other, and marked; the walk does not go on from there. The inverses of the last step are always asked.
3. *At a depth*, `breadth` of the new states are expanded further. They are chosen in a race too: each state draws an
   arrival time with rate 1/n, where n is how many steps of its strategy this walk has kept so far. All strategies
   together get the same chance, however many steps they have, so states that a rare strategy made are followed more
   often than their number says. States whose text is longer than `longest` are not expanded.
4. *Opening*: a plain program has one operation in a nest, and many rewrites of formulas need several in one
   expression. So a walk begins with a number of steps, drawn from 0 to `opening_steps`, in which the `opening`
   strategies (inlines) are asked at every state, and a state that they lead to is expanded before any other.
5. *Across states*, none but those on the way back is verified or emitted twice: the first in walk order stands.

Every draw is keyed by (seed, source, state, strategy): a strategy that is added moves nothing but the places that its
own steps win, and a source that is added moves nothing. All of a level is expanded and verified at once, and taken in
order, so neither workers nor timing change the result.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

from stepTP import config
from stepTP.draw import arrival, uniform
from stepTP.identity import verification_identity
from stepTP.records import (
    FactRecord,
    Objective,
    ProgramRow,
    RefusalRow,
    RejectedRow,
    Stage,
    Step,
    Verdict,
    row_id,
    step_json,
)
from stepTP.verify.kept import Kept, key_of
from stepTP.verify.pool import Failure
from strategies.grid import Grid
from strategies.index import inverses

EXPAND = "stepTP.expand.expand"
VERIFY = "stepTP.verify.task.verify_batch"
BATCH = 32  # programs of one verification job


class Jobs(Protocol):
    """What a walk needs of a pool."""

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]": ...

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]": ...


@dataclass(frozen=True, slots=True)
class State:
    """A verified program; `path` is the steps that lead to it, and `trail`, in a walk, the states, this one too."""

    leir: str
    state_id: str
    path: tuple[Step, ...] = ()
    trail: tuple[str, ...] = ()

    def after(self, taken: "Proposal") -> "State":
        """The state that a step leads to."""
        return State(taken.leir, taken.state_id, (*self.path, taken.step), (*self.trail, taken.state_id))

    def undone_by(self, state_id: str) -> int:
        """How many of the last steps one that leads to that state takes back; 0 where it is none on the way here."""
        return len(self.trail) - 1 - self.trail.index(state_id) if state_id in self.trail else 0


@dataclass(frozen=True, slots=True)
class Proposal:
    """A legal step from a state."""

    step: Step
    level: str
    bit_exact: bool
    facts: tuple[FactRecord, ...]
    leir: str
    state_id: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An illegal step at a state; the last fact does not hold."""

    step: Step
    level: str
    facts: tuple[FactRecord, ...]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """All that a state's strategies answered."""

    candidates: dict[str, int]
    proposals: tuple[Proposal, ...]
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class VerifiedStep:
    """A step that computes what the source computes, with what else was possible where it was taken."""

    source: ProgramRow
    before: State
    taken: Proposal
    around: Surroundings
    verification: tuple[Verdict, ...]
    undoes: int = 0  # how many of the last steps that led to `before` it takes back


@dataclass(frozen=True, slots=True)
class Reached:
    """Where a search led: the steps taken from the source on, each with the text before it, and what that is worth."""

    taken: tuple[tuple[str, Step], ...]
    objective: Objective


@dataclass(frozen=True, slots=True)
class Taking:
    """A step that is to be verified; `undoes` as in `VerifiedStep`."""

    state: State
    proposal: Proposal
    around: Surroundings
    undoes: int


@dataclass(frozen=True, slots=True)
class Walker:
    """One walk: where from, how far, and who does the work. `names`: the strategies in use, sorted.

    `grid`: the sizes that they propose.
    """

    source: ProgramRow
    seed: int
    limits: config.Walk
    verify: config.Verify
    names: tuple[str, ...]
    jobs: Jobs
    kept: Kept | None = None  # verdicts of earlier builds
    grid: Grid = Grid()  # noqa: RUF009 (frozen)


def walk(walker: Walker) -> Iterator[VerifiedStep | RejectedRow | RefusalRow]:
    """Every verified step, every rejected step and every refusal of a walk, in walk order."""
    frontier = [State(walker.source.leir, walker.source.state_id, (), (walker.source.state_id,))]
    seen = {walker.source.state_id}
    kept: Counter[str] = Counter()
    opening = _length_of_opening(walker)
    for depth in range(walker.limits.depth):
        first = walker.limits.opening if depth < opening else ()
        fresh: list[Taking] = []
        for state, around, failed in _expand_all(walker, frontier, kept, first):
            yield from failed
            for refusal in around.refusals:
                yield refusal_row(walker, state, refusal)
            back: set[str] = set()
            for proposal in around.proposals:
                undoes = state.undone_by(proposal.state_id)
                known = back if undoes else seen
                if proposal.state_id in known:
                    yield rejected(walker, state, proposal, "walk", "state-seen", "the walk has this state already")
                    continue
                known.add(proposal.state_id)
                fresh.append(Taking(state, proposal, around, undoes))
        arrived: list[tuple[str, State]] = []
        for taking, outcome in _verify_all(walker, fresh):
            if isinstance(outcome, RejectedRow):
                yield outcome
                continue
            state, proposal = taking.state, taking.proposal
            if not taking.undoes:
                kept[proposal.step.strategy] += 1
                arrived.append((proposal.step.strategy, state.after(proposal)))
            yield VerifiedStep(walker.source, state, proposal, taking.around, outcome, taking.undoes)
        frontier = _first_in_race(walker, arrived, kept, first)
        if not frontier:
            return


def _length_of_opening(walker: Walker) -> int:
    """How many steps a walk opens with: each number from 0 on is as likely."""
    return int(uniform("opening", walker.seed, walker.source.id) * (walker.limits.opening_steps + 1))


def _first_in_race(
    walker: Walker, arrived: list[tuple[str, State]], kept: Counter[str], first: tuple[str, ...]
) -> list[State]:
    """The states to expand, in the order of their arrival; those of the strategies in `first` before the others."""
    longest, key = walker.limits.longest, (walker.seed, walker.source.id)
    race = sorted(
        (strategy not in first, arrival(1 / kept[strategy], *key, state.state_id, strategy), state.state_id, state)
        for strategy, state in arrived
        if longest is None or len(state.leir) <= longest
    )
    return [state for *_, state in race[: walker.limits.breadth]]


def _order(walker: Walker, state: State, kept: Counter[str]) -> tuple[str, ...]:
    """The strategies in the order in which they are asked at a state."""
    if walker.limits.strategies_per_state is None:
        return walker.names
    key = (walker.seed, walker.source.id, state.state_id)
    return tuple(sorted(walker.names, key=lambda name: (arrival(1 / (1 + kept[name]), "ask", *key, name), name)))


def _expand_all(
    walker: Walker, states: list[State], kept: Counter[str], first: tuple[str, ...]
) -> Iterator[tuple[State, Surroundings, tuple[RejectedRow, ...]]]:
    """What can be done at each state; `first` are asked at each. Where a job fails, each strategy is asked alone: one
    costs itself only."""
    ordered = [_order(walker, state, kept) for state in states]
    together = [_expand(walker, state, names, first) for state, names in zip(states, ordered, strict=True)]
    for state, names, future in zip(states, ordered, together, strict=True):
        answer = future.result()
        if not isinstance(answer, Failure):
            yield state, surroundings([answer]), ()
            continue
        alone = [(name, _expand(walker, state, (name,), first)) for name in names]
        answers = [(name, asked.result()) for name, asked in alone]
        failed = tuple(
            rejected(walker, state, Step(strategy=name, args={}), "expand", cause_of(failure), failure.message)
            for name, failure in answers
            if isinstance(failure, Failure)
        )
        yield state, surroundings([a for _, a in answers if not isinstance(a, Failure)]), failed


def _expand(walker: Walker, state: State, names: tuple[str, ...], first: tuple[str, ...]) -> "Future[Any]":
    undoing = inverses(state.path[-1].strategy) if state.path else ()
    payload = {
        "leir": state.leir,
        "seed": walker.seed,
        "source": walker.source.id,
        "strategies": list(names),
        "wanted": walker.limits.strategies_per_state,
        "always": [name for name in (*walker.limits.always, *first) if name in names],
        "back": [name for name in undoing if name in names],
        "earlier": list(state.trail[:-1]),
        "per_strategy": walker.limits.per_strategy,
        "attempts": walker.limits.attempts,
        "grid": walker.grid.chosen(),
    }
    return walker.jobs.submit(EXPAND, payload, near=walker.source.id)


def surroundings(answers: list[dict[str, Any]]) -> Surroundings:
    """The answers of a state's strategies as one."""

    def step(data: dict[str, Any]) -> Step:
        return Step(strategy=data["strategy"], args=data["args"])

    def facts(data: dict[str, Any]) -> tuple[FactRecord, ...]:
        return tuple(FactRecord(**fact) for fact in data["facts"])

    return Surroundings(
        candidates={name: count for answer in answers for name, count in answer["candidates"].items()},
        proposals=tuple(
            Proposal(step(s), s["level"], s["bit_exact"], facts(s), s["leir"], s["state_id"])
            for answer in answers
            for s in answer["steps"]
        ),
        refusals=tuple(Refusal(step(r), r["level"], facts(r)) for answer in answers for r in answer["refusals"]),
    )


def _verify_all(walker: Walker, fresh: list[Taking]) -> Iterator[tuple[Taking, tuple[Verdict, ...] | RejectedRow]]:
    """Each new state with its verdicts, or with why it is rejected."""
    checks = [Check(t.proposal.leir, t.state.leir, t.proposal.bit_exact) for t in fresh]
    answers = verify_all(walker.jobs, walker.verify, walker.seed, walker.source, checks, walker.kept)
    for taking, answer in zip(fresh, answers, strict=True):
        if isinstance(answer, Failure):
            outcome = rejected(walker, taking.state, taking.proposal, "verify", cause_of(answer), answer.message)
        elif not answer["ok"]:
            shown = verdicts(answer)
            problem = (answer["cause"], answer["message"], shown)
            outcome = rejected(walker, taking.state, taking.proposal, "verify", *problem)
        else:
            outcome = verdicts(answer)
        yield taking, outcome


@dataclass(frozen=True, slots=True)
class Check:
    """A program to verify, the program that it was made from, and whether it must keep that one's bits."""

    leir: str
    parent: str | None
    bit_exact: bool


def verify_all(
    jobs: Jobs,
    settings: config.Verify,
    seed: int,
    source: ProgramRow,
    checks: list[Check],
    kept: Kept | None = None,
) -> Iterator[Any]:
    """The answer on each program of one source: {ok, cause, message, verdicts}, or a Failure.

    They are compiled in batches, which is cheaper; one that fails costs itself only. What `kept` has is not verified
    again, and what is verified is kept there.
    """
    payload = {
        "source": source.source.model_dump(),
        "leir_source": source.leir,
        "targets": list(settings.targets),
        "draws": settings.draws,
        "seed": seed,
    }
    programs = [{"leir": c.leir, "parent": c.parent, "bit_exact": c.bit_exact} for c in checks]
    keys: list[bytes] = []
    known: dict[bytes, Any] = {}
    if kept is not None:
        made_with = verification_identity(settings.targets)
        keys = [key_of(made_with, payload, program) for program in programs]
        known = kept.get(keys)
    unknown = [p for n, p in enumerate(programs) if not keys or keys[n] not in known]
    batches = [unknown[start : start + BATCH] for start in range(0, len(unknown), BATCH)]
    asked = [future for batch in batches for future in jobs.submit_batch(VERIFY, payload, batch, near=source.id)]
    answers = iter([future.result() for future in asked])
    found = [known[keys[n]] if keys and keys[n] in known else next(answers) for n in range(len(programs))]
    if kept is not None:
        kept.put({k: a for k, a in zip(keys, found, strict=True) if k not in known and not isinstance(a, Failure)})
    yield from found


def verdicts(answer: dict[str, Any]) -> tuple[Verdict, ...]:
    """The verdict entries of an answer, as records."""
    return tuple(Verdict(**entry) for entry in answer["verdicts"])


def cause_of(failure: Failure) -> str:
    """Why a job failed, in kebab-case: `timeout`, `unsupported-op`, `bug-key-error`, ..."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", failure.error or failure.kind).lower()
    return f"bug-{name}" if failure.kind == "bug" else name


def rejected(
    walker: Walker,
    before: State,
    what: Proposal | Step,
    stage: Stage,
    cause: str,
    message: str,
    verification: tuple[Verdict, ...] = (),
) -> RejectedRow:
    step, after = (what.step, what.leir) if isinstance(what, Proposal) else (what, None)
    return RejectedRow(
        id=row_id(walker.source.id, before.state_id, step_json(step), stage),
        split=walker.source.split,
        held_out=walker.source.held_out,
        source_id=walker.source.id,
        family=walker.source.source.family,
        depth=len(before.path) + 1,
        stage=stage,
        cause=cause,
        message=message,
        state_id_before=before.state_id,
        leir_before=before.leir,
        step=step,
        leir_after=after,
        verification=verification,
    )


def refusal_row(walker: Walker, state: State, refusal: Refusal) -> RefusalRow:
    return RefusalRow(
        id=row_id(walker.source.id, state.state_id, step_json(refusal.step)),
        split=walker.source.split,
        held_out=walker.source.held_out,
        source_id=walker.source.id,
        family=walker.source.source.family,
        depth=len(state.path) + 1,
        state_id=state.state_id,
        leir=state.leir,
        strategy=refusal.step.strategy,
        level=refusal.level,
        args=refusal.step.args,
        fact=refusal.facts[-1].name,
        facts=refusal.facts,
    )
