"""The environment of every search: it applies, verifies and values; keeps every state once; counts what is spent.

*A state* is in the table of transpositions by its `state_id`, and is verified once, whoever leads to it. *An
evaluation* is a state that was not there before; a move of five steps costs five. *A value* is the seconds that the
objective gives a state, predicted or measured; only the state at the end of a move has one. Where the budget does not
allow what is asked for, `Spent` is raised before any of it is done. All searches are counted so, and compare.

What is asked of workers, devices and models goes through a journal (`stepTP.search.journal`), and every choice is a
draw by hash: a search is a function of its settings and the answers, and one that was killed goes on as if it had not
been.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from stepTP.draw import digest
from stepTP.records import MeasurementRow, ProgramRow, Verdict
from stepTP.search.journal import Journal, done, key_of
from stepTP.search.protocol import Budget, Move, Node, Objective, Offer, Policy, Settings, Spent
from stepTP.verify.pool import Failure
from stepTP.walk import Check, Jobs, Proposal, Refusal, State, VerifiedStep, cause_of, verdicts, verify_all

PREDICT = "stepTP.search.work.predict"


class SearchError(RuntimeError):
    """A search cannot begin; the message says why."""


class Environment:
    """One search's world; see the module's description. `hear` is called whenever something new is known."""

    def __init__(
        self,
        source: ProgramRow,
        policy: Policy,
        objective: Objective,
        settings: Settings,
        jobs: Jobs,
        journal: Journal | None = None,
        hear: "Callable[[Environment], None]" = lambda _: None,
    ) -> None:
        self.source, self.policy, self.objective, self.settings = source, policy, objective, settings
        self.jobs, self.journal, self.hear = jobs, journal or Journal(), hear
        self.evaluations = self.measurements = 0
        self.tokens: int | None = None  # of a model's prompts and replies, as far as its server tells
        self.nodes: list[Node] = []  # in order of arrival
        self.table: dict[str, Node] = {}  # by state
        self.predicted: dict[str, float] = {}  # seconds by state, of all that was proposed
        self.offers: dict[str, Offer] = {}  # by state
        self.refusals: list[tuple[State, Refusal]] = []
        self.rejected: list[tuple[State, Proposal, Any]] = []  # what does not hold, with the verifier's answer
        self.problems: list[tuple[State, Failure]] = []  # where a policy could not propose
        self.failures: dict[str, str] = {}  # by state: why the last move from there led nowhere
        self.timings: list[MeasurementRow] = []
        self.visits: dict[int, int] = {}  # by depth in moves, of a search that counts them
        self._wrong: dict[str, str] = {}  # by state, of those rejected
        (answer,) = self.ask_all(PREDICT, [{"leir": source.leir, "target": settings.target}])
        if isinstance(answer, Failure):
            raise SearchError(f"{source.id}: {answer.message}")
        state = State(source.leir, source.state_id)
        self.root = self._arrive(state, None, None, answer["seconds"], source.verification)
        self._value([self.root])
        if self.root.value_s is None or math.isinf(self.root.value_s):
            raise SearchError(f"{source.id}: the source has no value: {self.root.note}")

    @property
    def best(self) -> Node:
        """The state of the least value; of equal ones the first."""
        return min((n for n in self.nodes if n.value_s is not None), key=lambda n: (n.value_s, n.number))

    def gain(self, node: Node) -> float:
        """How many times as fast as the source, as a power of two; minus infinity where there is no value."""
        if node.value_s is None or math.isinf(node.value_s) or not self.root.value_s:
            return -math.inf
        return math.log2(self.root.value_s / node.value_s)

    def trajectory(self, node: Node) -> list[Node]:
        """The states from the source to a node."""
        found, at = [node], node
        while at.parent is not None:
            at = at.parent
            found.append(at)
        return found[::-1]

    def draw(self, *key: str | int) -> bytes:
        """A hash of the seed, the source and the key, to order by."""
        return digest(self.settings.seed, self.source.id, *key)

    def verified_steps(self) -> Iterator[VerifiedStep]:
        """Every step that led to a new state that was run, in order of arrival, as the pipeline takes them.

        Where `settings.verify` is None, these are the states that the objective compared.
        """
        for node in self.nodes:
            if node.parent is not None and node.taken is not None and node.verification:
                around = self.offers.get(node.parent.state.state_id, Offer()).around
                yield VerifiedStep(self.source, node.parent.state, node.taken, around, node.verification)

    def left(self) -> Budget:
        """What is left of the budget."""
        of = self.settings.budget
        return Budget(
            None if of.evaluations is None else of.evaluations - self.evaluations,
            None if of.seconds is None else of.seconds - self.journal.seconds(),
            None if of.measurements is None else of.measurements - self.measurements,
        )

    def require(self, evaluations: int = 1, measurements: int = 0) -> None:
        """Raises Spent where less is left."""
        left = self.left()
        for name, need in (("evaluations", evaluations), ("measurements", measurements)):
            available = getattr(left, name)
            if available is not None and available < need:
                raise Spent(f"{available} {name} left of {getattr(self.settings.budget, name)}, {need} needed")
        if left.seconds is not None and left.seconds <= 0:
            raise Spent(f"the {self.settings.budget.seconds:g} seconds are over")

    def ask_all(self, task: str, payloads: Sequence[dict[str, Any]]) -> list[Any]:
        """The answers of a pool's task, each asked for once: results, or Failures."""

        def make(numbers: list[int]) -> list["Future[Any]"]:
            return [self.jobs.submit(task, payloads[n], near=self.source.id) for n in numbers]

        return self.journal.ask_all([key_of(task, payload) for payload in payloads], make)

    def moves(self, node: Node) -> tuple[Move, ...]:
        """What the policy proposes at a node, the most promising first. Raises Spent."""
        return self.moves_of([node])[0]

    def moves_of(self, nodes: Sequence[Node]) -> list[tuple[Move, ...]]:
        """The same for several nodes, asked for at once."""
        self.require(1, int(self.objective.measures))
        unknown = [node for node in dict.fromkeys(nodes) if node.state.state_id not in self.offers]
        for node, offer in zip(unknown, self.policy.propose(self, unknown), strict=True):
            self.offers[node.state.state_id] = offer
            self.refusals += [(node.state, refusal) for refusal in offer.around.refusals]
        return [self.offers[node.state.state_id].moves for node in nodes]

    def take(self, node: Node, move: Move) -> Node | None:
        """Takes a move; None where it leads to nothing that holds. Raises Spent."""
        return self.take_all([(node, move)])[0]

    def take_all(self, moves: Sequence[tuple[Node, Move]]) -> list[Node | None]:
        """Takes moves, verified and valued together: for each the node at its end, or None where a step does not hold.

        Of the moves, the first that the budget allows are taken. Raises Spent where it does not allow the first.
        """
        wanted = self._affordable(moves)
        fresh: dict[str, tuple[str, Proposal]] = {}  # by state: the program before, and the step
        for node, move in wanted:
            befores = (node.state.leir, *(step.leir for step in move.steps[:-1]))
            for before, step in zip(befores, move.steps, strict=True):
                if self._is_new(step):
                    fresh.setdefault(step.state_id, (before, step))
        answers = dict(zip(fresh, self._verify(list(fresh.values())), strict=True))
        self.evaluations += len(fresh)
        ends = [self._follow(node, move, answers) for node, move in wanted]
        self._value([end for end in dict.fromkeys(ends) if end is not None and end.value_s is None])
        self.hear(self)
        return [*ends, *[None] * (len(moves) - len(wanted))]

    def _is_new(self, step: Proposal) -> bool:
        return step.state_id not in self.table and step.state_id not in self._wrong

    def _affordable(self, moves: Sequence[tuple[Node, Move]]) -> list[tuple[Node, Move]]:
        """The first moves that the budget allows together. Raises Spent where it does not allow the first."""
        new: set[str] = set()
        valued: set[str] = set()
        for number, (_, move) in enumerate(moves):
            new.update(step.state_id for step in move.steps if self._is_new(step))
            end = self.table.get(move.end)
            if self.objective.measures and move.end not in self._wrong and (end is None or end.value_s is None):
                valued.add(move.end)
            try:
                self.require(len(new), len(valued))
            except Spent:
                if number == 0:
                    raise
                return list(moves[:number])
        return list(moves)

    def _verify(self, asked: list[tuple[str, Proposal]]) -> list[Any]:
        """The verifier's answers on new states."""
        verify = self.settings.verify
        if verify is None:
            return [_PROVED] * len(asked)
        how = [self.source.state_id, self.source.source.torch_sha, self.settings.seed, verify.targets, verify.draws]

        def make(numbers: list[int]) -> list["Future[Any]"]:
            checks = [Check(asked[n][1].leir, asked[n][0], asked[n][1].bit_exact) for n in numbers]
            return [done(a) for a in verify_all(self.jobs, verify, self.settings.seed, self.source, checks)]

        keys = [key_of("verify", [*how, before, step.leir, step.bit_exact]) for before, step in asked]
        return self.journal.ask_all(keys, make)

    def _follow(self, node: Node, move: Move, answers: dict[str, Any]) -> Node | None:
        """The node at the end of a move, or None where one of its states does not hold."""
        at = node
        for step in move.steps:
            if self._is_new(step):
                answer = answers[step.state_id]
                if isinstance(answer, Failure) or not answer["ok"]:
                    self.rejected.append((at.state, step, answer))
                    self._wrong[step.state_id] = _problem(answer)
                else:
                    state = State(step.leir, step.state_id, (*at.state.path, step.step))
                    predicted = self.predicted.get(step.state_id)
                    self._arrive(state, at, step, predicted, verdicts(answer))
            if step.state_id in self._wrong:
                self.failures[node.state.state_id] = f"{step.step.strategy}: {self._wrong[step.state_id]}"
                return None
            at = self.table[step.state_id]
        return at

    def _arrive(
        self,
        state: State,
        parent: Node | None,
        taken: Proposal | None,
        predicted: float | None,
        found: tuple[Verdict, ...],
    ) -> Node:
        node = Node(len(self.nodes), state, parent, taken, predicted, found)
        self.nodes.append(node)
        self.table[state.state_id] = node
        return node

    def _value(self, nodes: list[Node]) -> None:
        """Asks the objective. The source's value is needed by every search, and is not of the budget."""
        for node, found in zip(nodes, self.objective.value_all(self, nodes), strict=True):
            node.value_s, node.note = found.seconds, found.note
            node.verification = found.verification or node.verification
            self.timings += found.rows
            self.measurements += int(self.objective.measures and node is not self.root)


_PROVED: dict[str, Any] = {"ok": True, "cause": "", "message": "", "verdicts": []}


def explore(env: Environment, search: Callable[[Environment], None]) -> str:
    """Runs a search until it ends or its budget does: why it ended."""
    try:
        search(env)
    except Spent as spent:
        return str(spent)
    return "nothing is left to try"


def _problem(answer: Any) -> str:
    if isinstance(answer, Failure):
        return f"{cause_of(answer)}: {answer.message}"
    return f"{answer['cause']}: {answer['message']}"
