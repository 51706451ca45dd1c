"""Whether a subject fails, and how: stage, cause, target, and for a bug the function that raised it.

Two failures are the same where all of these are equal. Messages do not count: they name tensors and values.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leir.printer import to_text
from stepTP.minimise.subject import Subject
from stepTP.records import Step
from stepTP.verify.pool import Failure
from stepTP.walk import Jobs, cause_of

TASKS = "stepTP.minimise.task"
Stage = Literal["check", "step", "lower", "run", "narrate"]
Target = Literal["llvm", "cuda", "interpreter"]
RUNS = "the interpreter runs it"


@dataclass(frozen=True, slots=True)
class Failing:
    """`stage`: "check" (the checker), "step" (a strategy takes a step), "lower" (compiling), "run" (running, and
    comparing results), "narrate" (explaining the step).

    `cause`: a diagnostic's code, `wrong-result`, `not-bit-exact`, `crash`, `timeout`, `memory`, the name of an error,
    or `bug-` and the error's name. `target`: of "lower" and "run", else None. `where`: how a worker was lost, or the
    function that raised; of a diagnostic `RUNS`, where the interpreter runs the program all the same.
    """

    stage: Stage
    cause: str
    target: Target | None
    where: str
    message: str = field(compare=False)

    def __str__(self) -> str:
        place = ", ".join(part for part in (self.target or "", self.where) if part)
        return f"{self.stage}: {self.cause}{f' ({place})' if place else ''}: {self.message}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a subject: how it fails, or why it does not. `codes`: all diagnostics. `states`: the programs that
    its steps lead through, as far as it was tried."""

    failing: Failing | None
    why: str = ""
    codes: frozenset[str] = frozenset()
    states: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """How subjects are tried: by whom, and on which targets, one after the other, until they fail on one."""

    jobs: Jobs
    targets: tuple[Target, ...] = ("llvm",)

    def outcome(self, subject: Subject, sought: Failing | None = None, code: str = "") -> Outcome:
        """How the subject fails. With `sought`, nothing is tried that cannot be that failure. `code`: the diagnostic
        that matters, if there are several; the first otherwise.

        Raises PoolError where there are no workers.
        """
        taken = self._ask("take", subject, _payload(subject))
        if isinstance(taken, Failure):
            checked = self._ask("check", subject, _payload(subject)) if subject.steps else taken
            return Outcome(_failure("check" if isinstance(checked, Failure) else "step", taken, None))
        if codes := taken["codes"]:
            asked = code if sought is None else sought.cause
            found = asked if asked in codes else next(iter(codes))
            where = self._meaning(subject) if sought is None or (sought.where == RUNS and asked in codes) else ""
            return Outcome(Failing("check", found, None, where, codes[found]), codes=frozenset(codes))
        states = tuple(taken["states"])
        if taken["problem"] or len(states) <= len(subject.steps):
            return Outcome(None, taken["problem"] or "no step that the strategy proposes fails", states=states)
        if sought is not None and sought.stage in ("check", "step"):
            return Outcome(None, "another stage", states=states)
        if subject.narrated is not None:
            return self._narrated(subject, states)
        said: list[str] = []
        for target in self.targets if sought is None or sought.target is None else (sought.target,):
            outcome = self._on_target(subject, states, taken["bit_exact"], target, sought)
            if outcome.failing is not None:
                return outcome
            said.append(outcome.why)
        return Outcome(None, ", ".join(said), states=states)

    def states(self, subject: Subject) -> tuple[str, ...]:
        """The programs before each step, as far as the steps can be taken."""
        taken = self._ask("take", subject, _payload(replace(subject, steps=subject.steps[:-1])))
        return () if isinstance(taken, Failure) else tuple(taken["states"])

    def proposals(self, subject: Subject) -> tuple[Step, ...]:
        """The steps that the strategy of the last step proposes where that is taken; none where it fails to."""
        states = self.states(subject)
        if len(states) < len(subject.steps):
            return ()
        answer = self._ask("propose", subject, {"strategy": subject.steps[-1].strategy, "leir": states[-1]})
        return () if isinstance(answer, Failure) else tuple(Step.model_validate(step) for step in answer)

    def _meaning(self, subject: Subject) -> str:
        """`RUNS` where an ill-formed program has a meaning all the same, else "".

        A diagnostic that is wrong is not to be exchanged for one that is right: `0%0` is no small case of `i%8`.
        """
        return "" if isinstance(self._ask("meaning", subject, _payload(subject)), Failure) else RUNS

    def _narrated(self, subject: Subject, states: tuple[str, ...]) -> Outcome:
        payload = {"id": subject.narrated, "leir": states[-2], "step": subject.steps[-1].model_dump()}
        answer = self._ask("explain", subject, payload)
        if isinstance(answer, Failure):
            return Outcome(_failure("narrate", answer, None), states=states)
        return Outcome(None, "the step is explained", states=states)

    def _on_target(
        self, subject: Subject, states: tuple[str, ...], bit_exact: bool, target: Target, sought: Failing | None
    ) -> Outcome:
        against = (to_text(subject.against),) if subject.against is not None else ()
        lowering = {"programs": list(dict.fromkeys((*against, *states))), "target": target}
        if sought is None or sought.stage == "lower":
            answer = self._ask("lower", subject, lowering)
            if isinstance(answer, Failure):
                return Outcome(_failure("lower", answer, target), states=states)
            if sought is not None:
                return Outcome(None, "it compiles", states=states)
        programs = [*against, *(states if len(states) < 3 else (states[0], *states[-2:]))]
        exact = subject.bit_exact if against else bit_exact
        running = {**subject.inputs.model_dump(), "bit_exact": exact, "target": target}
        answer = self._ask("run", subject, {**running, "programs": programs})
        if isinstance(answer, Failure):
            if answer.error == "Unverified":
                return Outcome(None, f"its results cannot be judged: {answer.cause}", states=states)
            # Compiled apart, a program that cannot be compiled says so; what was sought at "run" must get that far.
            apart = self._ask("lower", subject, lowering) if sought is not None else None
            stage = "lower" if isinstance(apart, Failure) else "run"
            return Outcome(_failure(stage, answer, target), states=states)
        if not answer["cause"]:
            return Outcome(None, f"{target}: {answer['message']}", states=states)
        return Outcome(Failing("run", answer["cause"], target, "", answer["message"]), states=states)

    def _ask(self, task: str, subject: Subject, payload: dict[str, Any]) -> Any:
        """A task's answer; what is asked about one program goes to one worker, which has compiled it."""
        return self.jobs.submit(f"{TASKS}.{task}", payload, near=to_text(subject.program)).result()


def _payload(subject: Subject) -> dict[str, Any]:
    return {
        "leir": to_text(subject.program),
        "against": None if subject.against is None else to_text(subject.against),
        "steps": [step.model_dump() for step in subject.steps],
    }


def _failure(stage: Stage, failure: Failure, target: Target | None) -> Failing:
    where = ""
    if failure.kind == "crash":
        where = failure.cause
    elif failure.kind == "bug":
        raised = re.findall(r'^  File "[^"]*?([^/"]+)", line \d+, in (\S+)', failure.detail, re.MULTILINE)
        where = "{1} in {0}".format(*raised[-1]) if raised else ""
    return Failing(stage, cause_of(failure), target, where, failure.message)
