"""One search of one program as a run: its folder is one that `steptp verify`, `replay`, `stats` and `show` read.

RUN/journal.jsonl   every answer that the search got; given the same command again, it goes on from there
RUN/search.json     settings, tree, best trajectory
RUN/raw, ...        the rows, made by the stages of a build
"""

import hashlib
import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from stepTP import config
from stepTP.draw import digest
from stepTP.given.files import GivenProgram
from stepTP.identity import identity, tool_versions
from stepTP.manifest import RunError, changes, open_run, write_whole
from stepTP.measurements import TABLE, Request, appending
from stepTP.pipeline import EXPLAIN, TRANSLATE, Build, compose, narrate, verify_programs
from stepTP.pipeline import translate as translate_stage
from stepTP.records import Objective, ProgramRow, RejectedRow, Row, SourceRecord, to_line
from stepTP.search import policy_of, search_of
from stepTP.search.env import Environment, SearchError, explore
from stepTP.search.journal import Journal
from stepTP.search.objectives import Measured, Predicted
from stepTP.search.protocol import Node, Settings
from stepTP.search.rows import found_by
from stepTP.second_pass import counts_of, second_pass
from stepTP.sources import SourceProgram
from stepTP.structure import structure
from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Pool
from stepTP.walk import VERIFY, Reached, VerifiedStep, Walker

TASKS = (TRANSLATE, VERIFY, EXPLAIN, "stepTP.search.work.rank")
SHARD = "raw/00000.jsonl"
TREE = "search.json"
_NO_MATTER = ("timeout_s", "requests", "replies")  # options of a policy that decide nothing


@dataclass(frozen=True, slots=True)
class Asked:
    """A search: of what, by what. `source`: a PyTorch program, or a LEIR program's row. `options`: the policy's."""

    source: SourceProgram | ProgramRow
    search: str
    policy: str
    settings: Settings
    measured: bool = False
    options: tuple[tuple[str, Any], ...] = ()

    def described(self) -> dict[str, Any]:
        return {
            "source": self.source.id, "search": self.search, "policy": self.policy, "measured": self.measured,
            **self.settings.described(), "options": {k: v for k, v in self.options if k not in _NO_MATTER},
        }  # fmt: skip

    @property
    def key(self) -> str:
        """Twelve digits that differ where the search does."""
        return digest(json.dumps(self.described(), sort_keys=True)).hex()[:12]


def leir_source(name: str, text: str) -> ProgramRow:
    """A LEIR program, well-formed, as a source: the reference is itself in float64."""
    from leir.canonical import state_id
    from leir.edit import iterations_around, walk
    from leir.parser import parse
    from leir.printer import to_text
    from leir.syntax import Alloc, Equation

    program = parse(text)
    shown = to_text(program)
    key = f"leir-{hashlib.sha256(shown.encode()).hexdigest()[:12]}"
    return ProgramRow(
        id=key,
        split="train",
        held_out=None,
        source=SourceRecord(id=key, family="leir", torch_code="", torch_sha="", license="unknown"),
        dtype=program.outputs[0].dtype,
        knobs={"file": name},
        names={},
        program_signature=shown.split("\n", 1)[0],
        leir=shown,
        state_id=state_id(program),
        structure=structure(program),
        ops=(),
        nests=sum(not isinstance(statement, Alloc) for statement in program.body),
        iterations=sum(iterations_around(program, path) for path, s in walk(program) if isinstance(s, Equation)),
        max_abs_error=0.0,
        verification=(),
        tool_versions=tool_versions(),
    )


def torch_source(name: str, code: str) -> GivenProgram:
    """A PyTorch file in KernelBench's form as a source."""
    return GivenProgram(
        id=f"given-{hashlib.sha256(code.encode()).hexdigest()[:12]}",
        family="given",
        torch_code=code,
        torch_sha=hashlib.sha256(code.encode()).hexdigest(),
        dtype="f32",
        knobs={"file": name},
        file=name,
        license="unknown",
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a search found. `ended`: why it ended."""

    env: Environment
    ended: str
    rows: dict[str, int]


def run_search(
    asked: Asked, folder: Path, workers: int | None = None, hear: Callable[[Environment], None] = lambda _: None
) -> Outcome:
    """Runs or continues a search in a folder, and writes its rows.

    Raises RunError where the folder is of another search, SearchError where none can begin, and what measuring raises.
    """
    settings = asked.settings
    verify = settings.verify or config.Verify()
    _require_same(folder / TREE, asked)
    described = config.Config(
        name=f"search-{asked.key}",
        seed=settings.seed,
        sources=config.Sources(families="none"),
        grid=settings.grid,
        verify=verify,
        tokens=False,
    )
    cuda = cuda_devices() if "cuda" in verify.targets or (asked.measured and settings.target == "cuda") else ()
    with ExitStack() as stack:
        run = stack.enter_context(open_run(folder, identity(described)))
        run.plan(1)
        journal = stack.enter_context(Journal(folder / "journal.jsonl"))
        pool = Pool(workers, verify.timeout_s, verify.memory_mb << 20, gpus=cuda, tasks=TASKS)
        stack.enter_context(pool)
        build = Build(described, settings.strategies, pool)
        source = _program(build, asked.source)
        objective = Predicted()
        if asked.measured:
            device = stack.enter_context(Pool(1, verify.timeout_s, gpus=cuda[:1]))
            objective = Measured(device, Request(settings.target, draws=verify.draws, seed=settings.seed))
        policy = policy_of(asked.policy, **dict(asked.options))
        env = Environment(source, policy, objective, settings, pool, journal, hear)
        ended = explore(env, search_of(asked.search))
        walker = Walker(source, settings.seed, config.Walk(), verify, settings.strategies, pool, grid=settings.grid)
        found = [source, *found_by(env, walker), *_reached(env)]
        rows: list[Row] = []
        for row in compose(build, narrate(build, found)):
            assert not isinstance(row, SourceProgram | VerifiedStep | Reached)
            rows.append(row)
        if settings.budget.seconds is not None or dict(asked.options).get("requests"):
            run.forget(SHARD)  # of a search that time or a batch ended, more may be known now
        run.write(SHARD, map(to_line, rows), {"sources": (source.id,), **counts_of(rows)})
        second_pass(run, described, [SHARD], run.raw_digest())
        if env.timings:
            with appending(folder / TABLE) as append:
                for timing in env.timings:
                    append(timing)
        tree = json.dumps({**asked.described(), "ended": ended, **tree_of(env)}, indent=1) + "\n"
        write_whole(folder / TREE, tree.encode())
        return Outcome(env, ended, {n: sum(e.counts.values()) for n, e in run.manifest.outputs.items()})


def _require_same(tree: Path, asked: Asked) -> None:
    """Raises RunError where a search that ended left its tree here, and was another one."""
    try:
        begun = json.loads(tree.read_bytes())
    except (OSError, ValueError):
        return  # none has ended here; one that was begun is told apart by the run's manifest
    wanted = json.loads(json.dumps(asked.described()))
    if keys := changes({key: begun.get(key) for key in wanted}, wanted):
        raise RunError(
            f"{tree.parent}: is of another search ({keys}): undo the change, or name a new folder with --out"
        )


def tree_of(env: Environment) -> dict[str, Any]:
    """The states of a search, and what was spent on them, as JSON holds it."""
    return {
        "evaluations": env.evaluations,
        "measurements": env.measurements,
        "tokens": env.tokens,
        "problems": [failure.message for _, failure in env.problems],
        "objective": env.objective.name,
        "visits_by_depth": {str(depth): count for depth, count in sorted(env.visits.items())},
        "best": env.best.number,
        "states": [_shown(node) for node in env.nodes],
    }


def _shown(node: Node) -> dict[str, Any]:
    finite = node.value_s is not None and math.isfinite(node.value_s)
    return {
        "number": node.number,
        "state_id": node.state.state_id,
        "parent": node.parent.number if node.parent else None,
        "step": node.taken.step.model_dump() if node.taken else None,
        "seconds": node.value_s if finite else None,
        "note": node.note,
    }


def _program(build: Build, source: SourceProgram | ProgramRow) -> ProgramRow:
    """The verified program of a source. Raises SearchError."""
    items = translate_stage(build, [source]) if isinstance(source, SourceProgram) else iter([source])
    (row,) = verify_programs(build, items)
    if isinstance(row, RejectedRow):
        raise SearchError(f"{source.id}: {row.stage}: {row.cause}: {row.message}")
    assert isinstance(row, ProgramRow)
    return row


def _reached(env: Environment) -> list[Reached]:
    """The way to the best state, where that is not the source."""
    best = env.best
    if best is env.root or env.root.value_s is None or best.value_s is None:
        return []
    taken = tuple((before.state.leir, after.state.path[-1]) for before, after in pairwise(env.trajectory(best)))
    name = f"{env.objective.name} seconds on {env.settings.target}"
    return [Reached(taken, Objective(name=name, before=env.root.value_s, after=best.value_s))]
