"""One build on many machines: datatrove runs the ranks, on this machine, by Slurm or by Ray.

    launch(config, folder, "local", Ranks(tasks=16, at_once=4))

A *rank* makes some of the raw shards, with a pool of workers of its own, and knows nothing of the engine. It writes a
shard whole, then its entry beside it; whoever builds in the folder next gathers the entries into the manifest, and the
second pass follows when all are there. So a run that was made by ranks holds the bytes of one that was not, and one
that stopped goes on by the same call. What datatrove itself thinks is done does not count.

Needs the extra `scale`; a plain build does not.
"""

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from stepTP.config import Config
from stepTP.identity import identity
from stepTP.manifest import RunError, open_run
from stepTP.pipeline import Report, build, build_rank, planned_shards

Executor = Literal["local", "slurm", "ray"]
LOGS = ".datatrove"  # in the run's folder


class NoExecutor(RuntimeError):
    """Ranks cannot be run here; the message says what to install or to give."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """How work is cut: `tasks` ranks, of which `at_once` run together, each with `workers` worker processes.

    For Slurm also the `partition`, the `time` of a rank as Slurm writes it, and a shell command that sets up Python.
    """

    tasks: int
    at_once: int = 1
    workers: int = 1
    memory_gb: float = 4.0
    partition: str = ""
    time: str = "04:00:00"
    environment: str = ""


@dataclass(frozen=True, slots=True)
class MakeShards:
    """What a rank does, as datatrove calls it."""

    config: str
    folder: str
    workers: int

    def __call__(self, _: Any, rank: int = 0, world_size: int = 1) -> None:
        settings = Config.model_validate_json(self.config)
        build_rank(settings, Path(self.folder), rank, world_size, self.workers)


@dataclass(frozen=True, slots=True)
class Finish:
    """What follows the ranks on Slurm: what is missing still, and the second pass."""

    config: str
    folder: str
    workers: int

    def __call__(self, _: Any, rank: int = 0, world_size: int = 1) -> None:
        assert (rank, world_size) == (0, 1)
        build(Config.model_validate_json(self.config), Path(self.folder), self.workers)


def launch(config: Config, folder: Path, executor: Executor, ranks: Ranks) -> Report | None:
    """Builds by ranks. None where they are queued (Slurm), and go on without this process.

    Raises NoExecutor, RunError (also where ranks failed: the message says where their logs are), ConfigError, OSError.
    """
    if executor == "slurm" and not ranks.partition:
        raise NoExecutor("slurm needs a partition: give --partition")
    for package in ("datatrove", "ray") if executor == "ray" else ("datatrove",):
        _require(package)
    folder = folder.absolute()
    plan = planned_shards(config)
    with open_run(folder, identity(config)) as run:
        run.plan(len(plan))
        run.gather()
        missing = [name for name in plan if not run.has(name)]
        work = MakeShards(config.model_dump_json(), str(folder), ranks.workers)
        if missing and executor != "slurm":
            _run(work, folder, executor, ranks)
            run.gather()
            missing = [name for name in plan if not run.has(name)]
            if missing:
                raise RunError(
                    f"{folder}: {len(missing)} of {len(plan)} shards were not made: read {folder / LOGS}, and run the "
                    "same build again"
                )
    if executor == "slurm":  # its jobs may begin at once, and need the folder
        _queue(work, folder, ranks)
        return None
    return build(config, folder, ranks.workers)


def _run(work: MakeShards, folder: Path, executor: Executor, ranks: Ranks) -> None:
    """Runs the ranks until they end."""
    common: dict[str, Any] = {
        "pipeline": [work],
        "tasks": ranks.tasks,
        "workers": ranks.at_once,
        "logging_dir": str(folder / LOGS),
        "skip_completed": False,
    }
    if executor == "local":
        from datatrove.executor import LocalPipelineExecutor  # pyright: ignore[reportMissingImports] (an extra)

        LocalPipelineExecutor(**common).run()
        return
    import ray  # pyright: ignore[reportMissingImports] (an extra)
    from datatrove.executor.ray import RayPipelineExecutor  # pyright: ignore[reportMissingImports] (an extra)

    own = not ray.is_initialized()
    if own and os.environ.get("RAY_ADDRESS"):
        ray.init(address="auto")
    elif own:
        ray.init(num_cpus=ranks.at_once * ranks.workers, include_dashboard=False)
    try:
        per_core = ranks.memory_gb / ranks.workers
        RayPipelineExecutor(**common, cpus_per_task=ranks.workers, mem_per_cpu_gb=per_core).run()
    finally:
        if own:
            ray.shutdown()


def _queue(work: MakeShards, folder: Path, ranks: Ranks) -> None:
    """Gives the ranks to Slurm, and a job after them that finishes the run, whether or not all of them did well."""
    from datatrove.executor import SlurmPipelineExecutor  # pyright: ignore[reportMissingImports] (an extra)

    common: dict[str, Any] = {
        "time": ranks.time,
        "partition": ranks.partition,
        "cpus_per_task": ranks.workers,
        "mem_per_cpu_gb": max(1, round(ranks.memory_gb / ranks.workers)),
        "env_command": ranks.environment or None,
        "skip_completed": False,
        "mail_type": "NONE",
    }
    made = SlurmPipelineExecutor(
        [work], ranks.tasks, workers=ranks.at_once, job_name="steptp", logging_dir=str(folder / LOGS), **common
    )
    finish = Finish(work.config, work.folder, work.workers)
    SlurmPipelineExecutor(
        [finish], 1, job_name="steptp-finish", depends=made, run_on_dependency_fail=True,
        logging_dir=str(folder / LOGS / "finish"), **common,
    ).run()  # fmt: skip


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise NoExecutor(f"{package} is not installed: pip install 'steptp[scale]'")
