"""Delta debugging: from a subject that fails, ever smaller ones that fail the same way.

The method is ddmin (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 2002) on the
levels of the syntax tree, as in hierarchical delta debugging (Misherghi and Su, ICSE 2006): parts are left out in
chunks, large ones first, until no single one can be. Besides what is left out, `stepTP.minimise.reductions` has edits
of one place each. A candidate is taken only if it is smaller (`Size`), so that the search ends.

Candidates of one reduction are tried in their order, and the first that fails the same way is taken, whoever is done
first: the number of workers changes how many are tried at once, never which is taken, nor how many count as tried.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from stepTP.minimise.failing import Failing, Outcome, Trial
from stepTP.minimise.subject import Subject, size_of
from stepTP.records import Step


@dataclass(frozen=True, slots=True)
class Budget:
    """What a search may spend: candidates tried, and seconds, after which it begins no other."""

    trials: int
    seconds: float


class Spent(Exception):
    """The budget does not allow more; the message says which part of it."""


class Search:
    """`best` is the smallest subject so far, `outcome` what became of it, and `trials` how many were tried; `original`
    is what the search began with."""

    def __init__(
        self,
        trial: Trial,
        subject: Subject,
        outcome: Outcome,
        budget: Budget,
        at_once: int = 1,
        tell: Callable[["Search"], None] = lambda _: None,
    ) -> None:
        assert outcome.failing is not None
        self.original = self.best = subject
        self.outcome, self.size = outcome, size_of(subject)
        self.failing: Failing = outcome.failing
        self.trials = 0
        self.stopped = ""  # why the search ended before it was through; "" where nothing is left to try
        self.spent = False  # whether the budget is what stopped it
        self.at = ""  # the reduction that is tried
        self._trial, self._budget, self._at_once, self._tell = trial, budget, at_once, tell
        self._begun = time.monotonic()
        self._tried = {subject.text}
        self._known: dict[str, Future[Outcome]] = {}
        self._threads = ThreadPoolExecutor(at_once)

    def run(self, reductions: "Iterable[Callable[[Search], Iterator[Subject]]]") -> None:
        """Takes every reduction again and again until none gives anything smaller, or the budget is spent."""
        kinds = tuple(reductions)
        try:
            while True:
                before = self.best
                for reduction in kinds:
                    self.at = reduction.__name__.replace("_", " ")
                    self._exhaust(reduction)
                if self.best is before:
                    return
        except Spent as error:
            self.stopped, self.spent = str(error), True
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def states(self) -> tuple[str, ...]:
        """The programs before each of the best subject's steps."""
        return self._trial.states(self.best)

    def proposals(self) -> tuple[Step, ...]:
        """The steps that the strategy of the best subject's last step proposes where that is taken."""
        return self._trial.proposals(self.best)

    def _exhaust(self, reduction: "Callable[[Search], Iterator[Subject]]") -> None:
        """Takes candidates of one reduction; after each that fails, goes on at the same place of what it gives then."""
        place = 0
        while (found := self._first(islice(reduction(self), place, None))) is not None:
            place += found

    def _first(self, candidates: Iterator[Subject]) -> int | None:
        """The number of the first candidate that is smaller and fails the same way, which becomes the best."""
        waiting: deque[tuple[int, Subject, str, Future[Outcome]]] = deque()
        numbered = enumerate(candidates)
        try:
            while True:
                while len(waiting) < self._at_once and (found := self._next(numbered, waiting)):
                    waiting.append(found)
                if not waiting:
                    return None
                number, subject, text, future = waiting.popleft()
                self._pay(text)
                outcome = future.result()
                if self._is_same(outcome):
                    assert outcome.failing is not None
                    self.best, self.outcome, self.size = subject, outcome, size_of(subject)
                    self.failing = outcome.failing  # the same but for its message
                    self._tell(self)
                    return number
                self._tell(self)
        finally:
            for _, _, text, future in waiting:
                if future.cancel():
                    del self._known[text]

    def _next(
        self,
        candidates: Iterator[tuple[int, Subject]],
        waiting: Iterable[tuple[int, Subject, str, "Future[Outcome]"]],
    ) -> tuple[int, Subject, str, "Future[Outcome]"] | None:
        """The next candidate that is worth a trial, on its way."""
        ahead = {text for _, _, text, _ in waiting}
        for number, subject in candidates:
            text = subject.text
            if text in self._tried or text in ahead or not size_of(subject) < self.size:
                continue
            if text not in self._known:
                self._known[text] = self._threads.submit(self._trial.outcome, subject, self.failing)
            return number, subject, text, self._known[text]
        return None

    def _pay(self, text: str) -> None:
        """Counts a trial. Raises Spent."""
        if self.trials >= self._budget.trials:
            raise Spent("1 trial" if self.trials == 1 else f"{self.trials} trials")
        if time.monotonic() - self._begun > self._budget.seconds:
            raise Spent(f"{self._budget.seconds:g} s")
        self.trials += 1
        self._tried.add(text)

    def _is_same(self, outcome: Outcome) -> bool:
        """The failure that is sought, and no diagnostic that the original has not."""
        return outcome.failing == self.failing and outcome.codes <= self.outcome.codes
