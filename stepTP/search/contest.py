"""All searches with all policies on several programs at real sizes, side by side, on one device.

The first search with the first policy goes ahead on every program, so that each has a schedule that was timed before
any has its tenth; then torch.compile's times are taken, and all others go on. Workers compile side by side and take
turns on the device. Whatever was answered is in one journal: a state is timed once, each search is counted as if it
had asked itself, and the same call on the same folder goes on where the time was up.

    FOLDER/journal.jsonl   every answer
    FOLDER/rows.jsonl      programs, and every step to a state that was run and compared, as a dataset has them
    FOLDER/lock            held by who uses the device
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepTP import config
from stepTP.pipeline import Build, narrate
from stepTP.records import ProgramRow, RejectedRow, SourceRecord, StepRow, to_line
from stepTP.search import policy_of, search_of
from stepTP.search.env import Environment, SearchError, explore
from stepTP.search.journal import Journal, key_of
from stepTP.search.objectives import WRONG, Timed
from stepTP.search.protocol import Budget, Settings, Spent
from stepTP.verify.pool import Failure, PoolError
from stepTP.walk import Jobs, Walker, rejected
from strategies.index import names

TRANSLATE = "stepTP.intake.translate"
DEVICE = "stepTP.verify.measure.large"
_COMPILES = 6  # at once: torch.compile takes a core for long, and memory
_AHEAD = 0.5  # of the time: when the others begin at the latest

TEXT = """import torch
from torch import nn
from torch.nn import functional

{constants}


class Model(nn.Module):
    def forward(self, {names}):
        return {forward}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return []
"""


def text_of(program: dict[str, Any], small: bool) -> str:
    """A program of `configs/search.yaml` as a file in KernelBench's form."""
    letters = "abcdefgh"[: len(program["inputs"])]
    return TEXT.format(
        constants="\n".join(f"{name} = {value}" for name, value in program["small" if small else "sizes"].items()),
        names=", ".join(letters),
        forward=program["forward"],
        inputs=", ".join(f"torch.rand({shape})" for shape in program["inputs"]),
    )


@dataclass
class Program:
    """A program of the configuration, and what is known of it. `kept`: states whose rows are made."""

    name: str
    bound: str
    code: str
    row: ProgramRow | None = None
    problem: str = ""
    work: dict[str, Any] = field(default_factory=dict)
    baselines: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, None] = field(default_factory=dict)


@dataclass
class Run:
    """A search of a program: `ended` says why; empty while it runs."""

    program: Program
    search: str
    policy: str
    env: Environment | None = None
    ended: str = ""


class Ending:
    """Jobs that are taken until a moment; whoever asks later hears that the time is over."""

    def __init__(self, jobs: Jobs, ends: float) -> None:
        self._jobs, self._ends = jobs, ends

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        self._require()
        return self._jobs.submit(task, payload, near=near)

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        self._require()
        return self._jobs.submit_batch(task, payload, items, near=near)

    def _require(self) -> None:
        if time.monotonic() >= self._ends:
            raise Spent("the time is over")


class Contest:
    """The searches of a configuration; `runs` and `programs` tell what is known at any moment.

    `told`: `searches`, `policies`, `programs` and the budget, as `configs/search.yaml` has them.
    """

    def __init__(
        self, told: dict[str, Any], folder: Path, jobs: Jobs, target: config.Target, seconds: float, at_once: int
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.told, self.folder, self.pool = told, folder, jobs
        self.target: config.Target = target
        self.begun = time.monotonic()
        self.seconds = seconds
        self.jobs = Ending(jobs, self.begun + seconds)
        self.journal = Journal(folder / "journal.jsonl")
        self.shared = {"target": target, "lock": str(folder / "lock")}
        self.limits: dict[str, Any] = {}
        self.programs = [
            Program(each["name"], each["bound"], text_of(each, target == "llvm")) for each in told["programs"]
        ]
        pairs = [(search, policy) for policy in told["policies"] for search in told["searches"]]
        self.runs = [Run(program, *pair) for pair in pairs for program in self.programs]
        self._ahead = self.runs[: len(self.programs)]
        self._others = threading.Event()
        self._in_flight = threading.Semaphore(at_once)
        self._compiling = threading.Semaphore(_COMPILES)
        self._writing = threading.Lock()
        self._rows = (folder / "rows.jsonl").open("w", encoding="utf-8")
        self._threads = ThreadPoolExecutor(len(self.runs) + 4 * len(self.programs) + 2)

    def start(self) -> "list[Future[None]]":
        """Begins all of it; the futures are of its parts."""
        submit = self._threads.submit
        ready = {program.name: submit(self._prepare, program) for program in self.programs}
        ahead = [submit(self._run, run, ready[run.program.name]) for run in self._ahead]
        others = [submit(self._run, run, ready[run.program.name]) for run in self.runs[len(ahead) :]]
        baselines = [
            submit(self._baseline, program, ready[program.name], name)
            for name in ("work", "eager", "compiled")
            for program in self.programs
        ]
        return [submit(self._open, ahead), submit(self._measure_limits), *ahead, *others, *baselines]

    def rows(self) -> str:
        """The lines of `rows.jsonl`, whole ones."""
        with self._writing:
            return (self.folder / "rows.jsonl").read_text(encoding="utf-8")

    def close(self) -> None:
        """Ends it; threads that wait for jobs end when their pool is killed."""
        self._others.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.journal.close()
        self._rows.close()

    def _open(self, ahead: "list[Future[None]]") -> None:
        """Lets the others begin."""
        wait(ahead, timeout=max(0.0, self.begun + _AHEAD * self.seconds - time.monotonic()))
        self._others.set()

    def _ask(self, task: str, payload: dict[str, Any], near: str = "") -> Any:
        """The answer to a job, asked once, a Failure among them; None when the time is over."""
        try:
            (answer,) = self.journal.ask_all(
                [key_of(task, payload)], lambda _: [self.jobs.submit(task, payload, near=near)]
            )
        except (CancelledError, PoolError, Spent):
            return None
        return answer

    def _measure_limits(self) -> None:
        found = self._ask(f"{DEVICE}.time_limits", self.shared)
        self.limits.update({"error": found.message} if isinstance(found, Failure) else found or {})

    def _prepare(self, program: Program) -> None:
        """Translates a program."""
        answer = self._ask(TRANSLATE, {"code": program.code, "file": program.name, "check": False}, program.name)
        if answer is None or isinstance(answer, Failure) or answer["leir"] is None:
            told = answer["message"] if isinstance(answer, dict) else getattr(answer, "message", "no time left")
            program.problem = str(told)
            return
        source = SourceRecord(
            id=program.name, family="search", torch_code=program.code, torch_sha="", license="Apache-2.0"
        )
        program.row = ProgramRow(
            id=program.name, split="train", held_out=None, source=source, dtype=answer["dtype"], knobs={},
            names=answer["names"], program_signature=answer["leir"].split("\n", 1)[0], leir=answer["leir"],
            state_id=answer["state_id"], structure=answer["structure"], ops=tuple(answer["ops"]),
            nests=answer["nests"], iterations=answer["iterations"], max_abs_error=0.0, verification=(),
            tool_versions={},
        )  # fmt: skip

    def _baseline(self, program: Program, ready: "Future[None]", name: str) -> None:
        """What a program must do at least, or the time of its module."""
        ready.result()
        if program.row is None:
            return
        payload = {**self.shared, "code": program.code, "leir": program.row.leir}
        if name == "work":
            found = self._ask(f"{DEVICE}.least", payload)
            program.work = found if isinstance(found, dict) else {}
            return
        compiled = name == "compiled"
        if compiled:
            self._others.wait()
        with self._compiling if compiled else nullcontext():
            found = self._ask(f"{DEVICE}.time_module", {**payload, "compiled": compiled})
        if found is not None:
            failed = isinstance(found, Failure)
            program.baselines[name] = {"seconds": None, "error": found.message} if failed else found

    def _run(self, run: Run, ready: "Future[None]") -> None:
        """One search, to its end or that of the time; and its rows."""
        ready.result()
        if run not in self._ahead:
            self._others.wait()
        with self._in_flight:
            if run.program.row is None:
                run.ended = f"not begun: {run.program.problem}"
                return
            try:
                objective = Timed(self.target, self.shared["lock"])
                env = Environment(
                    run.program.row, policy_of(run.policy), objective, self._settings(), self.jobs, self.journal
                )
                run.env = env
                run.ended = explore(env, search_of(run.search))
                self._keep(run.program, env)
            except (SearchError, PoolError, CancelledError, Spent) as error:
                run.ended = f"failed: {error}" if isinstance(error, SearchError) else "the time is over"

    def _settings(self) -> Settings:
        told = self.told
        return Settings(
            strategies=tuple(sorted(names())),
            budget=Budget(told["evaluations"], None, told["measurements"]),
            seed=told["seed"],
            verify=None,
            target="cuda",  # whose costs are predicted, in a dry run too
            width=told["width"],
            depth=told["depth"],
            attempts=told["attempts"],
        )

    def _keep(self, program: Program, env: Environment) -> None:
        """Writes the rows of what the search was the first to find."""
        with self._writing:
            steps = [step for step in env.verified_steps() if step.taken.state_id not in program.kept]
            wrong = [
                node for node in env.nodes if node.note.startswith(WRONG) and node.state.state_id not in program.kept
            ]
            first = not program.kept
            program.kept |= dict.fromkeys([env.root.state.state_id, *(step.taken.state_id for step in steps)])
            program.kept |= dict.fromkeys(node.state.state_id for node in wrong)
        settings, source = env.settings, env.source
        described = config.Config(
            name="search", seed=settings.seed, sources=config.Sources(families="none"), tokens=False
        )
        rows: list[ProgramRow | StepRow | RejectedRow] = []
        if first:
            rows.append(source.model_copy(update={"verification": env.root.verification}))
        for row in narrate(Build(described, settings.strategies, self.pool), steps):
            assert isinstance(row, StepRow | RejectedRow)
            rows.append(row)
        walker = Walker(source, settings.seed, config.Walk(), described.verify, settings.strategies, self.jobs)
        for node in wrong:
            assert node.parent is not None and node.taken is not None
            rows.append(rejected(walker, node.parent.state, node.taken, "verify", "wrong-result", node.note))
        with self._writing:
            self._rows.writelines(map(to_line, rows))
            self._rows.flush()
