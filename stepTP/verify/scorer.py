"""Verification as a library: what becomes of a model's answer at a state, for evaluation and as a reward.

    with Scorer(workers=2, timeout_s=30) as scorer:
        report = scorer.score(reply, task)
        reports = scorer.score_many([(reply, task), ...])

Everything that touches the answer happens in worker processes, with limits of time and memory; the caller's process
imports no torch and no tvm, and keeps its directory, environment, signal handlers and standard output. A scorer may be
used from several threads, and after a fork: the child gets workers of its own. Nothing is raised: what an answer does
wrong is an outcome, what is not its doing is the report's `error`.

`score` and `score_many` of this module share one scorer, which starts with its first job and ends with the process.
"""

import atexit
import hashlib
import os
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from stepTP.records import FactRecord, Timing, Verdict
from stepTP.verify.measure.speedup import compare_timings
from stepTP.verify.pool import Failure, Pool, PoolError
from stepTP.verify.report import (
    Finding,
    Outcome,
    Problem,
    ScoreReport,
    Task,
    failed,
    not_reached,
    passed,
    short,
)

READ = "stepTP.verify.judge.read"
PLAIN = "stepTP.verify.judge.plain"
INSPECT = "stepTP.verify.judge.inspect"
TAKE = "stepTP.verify.judge.take"
LOWER = "stepTP.verify.judge.lower"
VERIFY = "stepTP.verify.task.verify_batch"
TIME = "stepTP.verify.measure.task.time_program"

BATCH = 8  # programs of one source that are compiled together
LONGEST_REPLY = 1 << 24  # characters that go to a worker
LONGEST_DETAIL = 4000  # characters of a traceback
# What a program that no strategy vouches for may do, unless the state before does a quarter of it.
_ITERATIONS = 1 << 24
_BYTES = 64 << 20
_SLACK = 4
_LOST = ("crash", "timeout", "memory", "device")

Answered = tuple[str, Task | Mapping[str, Any]]


class _NotItsDoing(Exception):
    """The answer cannot be judged, through no fault of its own."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(slots=True)
class _Case:
    """An answer on its way: its report so far, and the program to verify, if it got so far."""

    text: Any
    asked: Task | Mapping[str, Any]
    task: Task | None = None
    report: ScoreReport = field(default_factory=ScoreReport)
    to_verify: str | None = None
    bit_exact: bool = False

    def note(self, **fields: Any) -> None:
        self.report = self.report.model_copy(update=fields)


class Scorer:
    """Workers that score answers. `timeout_s`: for each job of an answer, of which it has four or so.

    `workers`: None is one a core that this process may use, as far as memory allows.
    """

    def __init__(self, workers: int | None = None, timeout_s: float = 30.0, memory_bytes: int = 4 << 30) -> None:
        self._workers, self._timeout_s, self._memory_bytes = workers, timeout_s, memory_bytes
        # By process: of a pool that a fork copied, neither the threads nor the state of its locks came along.
        self._pools: dict[int, Pool] = {}
        self._locks: dict[int, threading.Lock] = {}
        self._plain: dict[str, str] = {}
        self._closed = False

    def score(self, answer: str, task: Task | Mapping[str, Any], *, measure: bool = False) -> ScoreReport:
        """The report on one answer, the text of a model's reply. `measure`: time what is equal, on its first target."""
        return self.score_many([(answer, task)], measure=measure)[0]

    def score_many(self, answers: Iterable[Answered], *, measure: bool = False) -> list[ScoreReport]:
        """The reports on several answers, in their order; programs of one source are compiled together.

        `measure`: afterwards time each accepted program and its state, one at a time. Nothing else should run then.
        """
        cases = [_Case(text, asked) for text, asked in answers]
        if not cases:
            return []
        at_once = 2 * (self._workers or os.cpu_count() or 1) + 1
        with ThreadPoolExecutor(min(at_once, len(cases))) as threads:
            list(threads.map(lambda case: self._guarded(self._judge, [case]), cases))
            list(threads.map(lambda batch: self._guarded(self._verify, batch), _batches(cases)))
        for case in cases:
            if not case.report.accepted:
                continue
            if measure:
                self._guarded(self._measure, [case])
            else:
                case.note(speedup=not_reached("not-measured", "a measurement was not asked for"))
        return [case.report for case in cases]

    def close(self) -> None:
        """Ends the workers of this process. A closed scorer scores nothing more."""
        self._closed = True
        if pool := self._pools.pop(os.getpid(), None):
            pool.close()

    def __enter__(self) -> "Scorer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _guarded(self, work: "Callable[[list[_Case]], None]", cases: "list[_Case]") -> None:
        """Work on cases; what it raises becomes their reports' error, so that one answer never costs the others."""
        try:
            work(cases)
        except _NotItsDoing as error:
            problem = error.problem
        except Exception as error:  # a bug of ours, or a pool without workers: it must reach the report, and only it
            message = short(f"{type(error).__name__}: {error}")
            kind = "pool" if isinstance(error, PoolError | CancelledError) else "bug"
            problem = Problem(kind=kind, message=message, detail=short(traceback.format_exc(), LONGEST_DETAIL))
        else:
            return
        for case in cases:
            case.note(error=problem)

    def _pool(self) -> Pool:
        process = os.getpid()
        with self._locks.setdefault(process, threading.Lock()):
            if self._closed:
                raise _NotItsDoing(Problem(kind="pool", message="the scorer is closed"))
            if process not in self._pools:
                self._pools[process] = Pool(self._workers, self._timeout_s, self._memory_bytes, tasks=(READ, VERIFY))
            return self._pools[process]

    def _ask(self, job: str, payload: dict[str, Any], near: str) -> Any:
        return self._pool().submit(job, payload, near).result()

    def _judge(self, cases: "list[_Case]") -> None:
        """Text, program and step of one answer; settles what is to verify."""
        (case,) = cases
        try:
            case.task = task = case.asked if isinstance(case.asked, Task) else Task.model_validate(case.asked)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "task"
            raise _NotItsDoing(Problem(kind="task", message=short(f"{where}: {first['msg']}"))) from None
        answer = self._read(case, task)
        if answer is None:
            return
        written = self._inspect(case, task, answer["leir"]) if answer["leir"] is not None else None
        if answer["leir"] is not None and written is None:
            return
        taken = self._take(case, task, answer, written)
        program = written or taken
        if program is None:
            return
        if written is None:
            case.note(well_formed=passed("by-the-step", "the program is the one that the step gives"))
        case.note(leir=program["leir"], state_id=program["state_id"])
        if case.report.legal.status == "pass" or not (excess := _excess(program["work"])):
            case.to_verify = program["leir"]
        else:
            case.note(runs=failed("too-much-work", excess), lowers=not_reached("too-much-work"))

    def _read(self, case: _Case, task: Task) -> dict[str, Any] | None:
        if not isinstance(case.text, str):
            case.note(parsed=failed("not-text", f"the answer is a {type(case.text).__name__}"))
            return None
        if len(case.text) > LONGEST_REPLY:
            case.note(parsed=failed("too-long", f"{len(case.text)} characters, of {LONGEST_REPLY} that are read"))
            return None
        found = self._ask(READ, {"text": case.text}, task.source.id)
        if isinstance(found, Failure):
            case.note(parsed=self._lost(found))
            return None
        answer: dict[str, Any] | None = found["answer"]
        if answer is not None and answer["leir"] is None and task.needs_leir:
            case.note(parsed=failed("no-leir", "the program after the step is asked for"))
            return None
        case.note(parsed=Outcome(**found["outcome"]))
        if answer is not None and answer["strategy"] is not None:
            case.note(strategy=short(answer["strategy"]))
        return answer

    def _inspect(self, case: _Case, task: Task, leir: str) -> dict[str, Any] | None:
        """What is known of the answer's program; None where it is not well formed."""
        found = self._ask(INSPECT, {"state": task.state, "leir": leir}, task.source.id)
        if isinstance(found, Failure):
            case.note(well_formed=self._lost(found))
            return None
        diagnostics = tuple(Finding(**d) for d in found["diagnostics"])
        case.note(well_formed=Outcome(**found["outcome"]), diagnostics=diagnostics)
        return found if found["leir"] is not None else None

    def _take(
        self, case: _Case, task: Task, answer: dict[str, Any], written: dict[str, Any] | None
    ) -> dict[str, Any] | None:
        """What is known of the program that the step gives; None where there is no step, or no legal one."""
        if answer["strategy"] is None:
            case.note(legal=self._no_step(task, written))
            return None
        step = {"strategy": answer["strategy"], "args": answer["args"]}
        allowed = None if task.strategies is None else list(task.strategies)
        found = self._ask(TAKE, {"state": task.state, "step": step, "strategies": allowed}, task.source.id)
        if isinstance(found, Failure):
            case.note(legal=self._lost(found))
            return None
        legal = Outcome(**found["outcome"])
        case.note(facts=tuple(FactRecord(**fact) for fact in found["facts"]))
        if found["state_id"] is not None and written and written["state_id"] != found["state_id"]:
            message = f"the step gives state {found['state_id'][:8]}, the answer is {written['state_id'][:8]}"
            legal = failed("another-program", message)
        case.note(legal=legal)
        case.bit_exact = bool(found["bit_exact"]) and legal.status == "pass"
        return found if legal.status == "pass" else None

    def _no_step(self, task: Task, written: dict[str, Any] | None) -> Outcome:
        if task.needs_step:
            return failed("no-step", "a strategy and its arguments are asked for")
        state = self._ask(INSPECT, {"state": task.state, "leir": task.state}, task.source.id)
        if isinstance(state, Failure):
            raise _blame(state)
        if written is not None and written["state_id"] == state["state_id"]:
            return failed("changes-the-program", "the answer is the state before")
        return not_reached("no-step", "no step is asked for, and none is claimed")

    def _lost(self, failure: Failure) -> Outcome:
        """The outcome of a job on the answer that has no result; raises what is not the answer's doing."""
        if failure.kind in _LOST:
            return failed(failure.kind, failure.cause)
        raise _blame(failure)

    def _verify(self, batch: list[_Case]) -> None:
        """Compiles and runs the programs of a batch, which are of one task but for what it asks of the answer."""
        texts = list(dict.fromkeys(case.to_verify for case in batch if case.to_verify is not None))
        task = batch[0].task
        assert task is not None
        answers = dict(zip(texts, self._verdicts(task, texts), strict=True))
        for case in batch:
            answer = answers[case.to_verify or ""]
            if isinstance(answer, Failure):
                self._guarded(lambda _, case=case, answer=answer: self._note_failure(case, answer), [case])
            else:
                _note_verdicts(case, answer)

    def _verdicts(self, task: Task, texts: Sequence[str]) -> list[Any]:
        """The verification's answer on each program, or its Failure."""
        source = task.source
        payload = {
            "source": {"id": source.id, "torch_code": source.torch_code},
            "leir_source": self._plain_program(task),
            "targets": list(task.targets),
            "draws": task.draws,
            "seed": task.seed,
        }
        states = [{"leir": text, "parent": task.state, "bit_exact": False} for text in texts]
        return [future.result() for future in self._pool().submit_batch(VERIFY, payload, states, near=source.id)]

    def _plain_program(self, task: Task) -> str:
        """The plain program of the task's source."""
        source = task.source
        if source.leir is not None:
            return source.leir
        if not source.torch_code:
            raise _NotItsDoing(Problem(kind="task", message="source: neither torch_code nor leir is given"))
        key = hashlib.sha256(source.torch_code.encode("utf-8", "backslashreplace")).hexdigest()
        if key not in self._plain:
            found = self._ask(PLAIN, {"code": source.torch_code, "file": source.id}, source.id)
            if isinstance(found, Failure):
                raise _blame(found)
            self._plain[key] = found
        return self._plain[key]

    def _note_failure(self, case: _Case, failure: Failure) -> None:
        """Whose doing it is that a verification has no result: the task's if the state before has none either."""
        task, program = case.task, case.to_verify
        assert task is not None
        assert program is not None
        if failure.kind not in _LOST:
            raise _blame(failure)
        (control,) = self._verdicts(task, [task.state])
        if isinstance(control, Failure):
            raise _blame(control)
        lowered = self._ask(LOWER, {"leir": program, "targets": list(task.targets)}, task.source.id)
        if isinstance(lowered, Failure):
            case.note(lowers=self._lost(lowered))
        else:
            case.note(lowers=passed(), runs=failed(failure.kind, failure.cause))

    def _measure(self, cases: "list[_Case]") -> None:
        """Times an accepted program and the state before; verified code, compiled for speed, is verified again."""
        (case,) = cases
        task, program = case.task, case.to_verify
        assert task is not None
        assert program is not None
        timings: list[Timing] = []
        for text in (task.state, program):
            payload = {
                "source": {"id": task.source.id, "torch_code": task.source.torch_code},
                "leir_source": self._plain_program(task),
                "leir": text,
                "target": task.targets[0],
                "draws": task.draws,
                "seed": task.seed,
                "plan": {},
                "processors": sorted(os.sched_getaffinity(0)),
            }
            found = self._ask(TIME, payload, task.source.id)
            if isinstance(found, Failure):
                case.note(speedup=not_reached(found.kind, found.message))
                return
            if found["status"] != "ok":
                case.note(speedup=not_reached(found["status"], found["message"]))
                return
            timings.append(Timing(**found["timing"]))
        compared = compare_timings(*timings)
        message = f"{timings[0].median_us:g} us before, {timings[1].median_us:g} us after"
        if compared.within_noise:
            outcome = failed("within-noise", message)
        else:
            outcome = (passed if compared.ratio > 1 else failed)(compared.bin, message)
        case.note(speedup=outcome, speedup_vs_state=compared.ratio)


def _blame(failure: Failure) -> _NotItsDoing:
    """The error of a report, from a job that failed through no fault of the answer."""
    kind = "bug" if failure.kind == "bug" else "task"
    return _NotItsDoing(
        Problem(kind=kind, message=short(failure.message), detail=short(failure.detail, LONGEST_DETAIL))
    )


def _excess(work: dict[str, Any]) -> str:
    """What a program does far more of than the state before; empty where it does not."""
    for what, floor in (("iterations", _ITERATIONS), ("bytes", _BYTES)):
        mine, before = work[what]
        limit = max(floor, _SLACK * before)
        if mine > limit:
            return f"{mine} {what}, of {limit} that a program may have here"
    return ""


def _batches(cases: list[_Case]) -> list[list[_Case]]:
    """The cases to verify, those of one source and state together, `BATCH` different programs at most."""
    groups: dict[object, list[_Case]] = {}
    for case in cases:
        if case.to_verify is not None and (task := case.task) is not None:
            key = (task.source, task.state, task.targets, task.draws, task.seed)
            groups.setdefault(key, []).append(case)
    batches: list[list[_Case]] = []
    for group in groups.values():
        programs = list(dict.fromkeys(case.to_verify for case in group))
        for start in range(0, len(programs), BATCH):
            chosen = programs[start : start + BATCH]
            batches.append([case for case in group if case.to_verify in chosen])
    return batches


def _note_verdicts(case: _Case, answer: dict[str, Any]) -> None:
    verdicts = tuple(Verdict(**entry) for entry in answer["verdicts"])
    case.note(lowers=passed(), runs=passed(), verification=verdicts)
    if not answer["ok"]:
        case.note(equal=failed(answer["cause"], answer["message"]))
        return
    case.note(equal=passed())
    unlike = [verdict.target for verdict in verdicts if not verdict.bit_equal]
    if not unlike:
        case.note(bit_equal=passed())
    elif case.bit_exact:
        case.note(bit_equal=failed("not-bit-exact", f"{', '.join(unlike)}: the step claims to keep every bit"))
    else:
        case.note(bit_equal=failed("other-bits", f"{', '.join(unlike)}: within tolerance, with other bits"))


_default_lock = threading.Lock()
_default: Scorer | None = None


def default_scorer() -> Scorer:
    """The scorer that `score` and `score_many` share; it ends with the process."""
    global _default
    with _default_lock:
        if _default is None:
            _default = Scorer()
            atexit.register(_default.close)
        return _default


def score(answer: str, task: Task | Mapping[str, Any], *, measure: bool = False) -> ScoreReport:
    """The report on one answer, by the shared scorer."""
    return default_scorer().score(answer, task, measure=measure)


def score_many(answers: Iterable[Answered], *, measure: bool = False) -> list[ScoreReport]:
    """The reports on several answers, in their order, by the shared scorer."""
    return default_scorer().score_many(answers, measure=measure)
