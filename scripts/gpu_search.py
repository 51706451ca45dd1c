"""Searches on this machine's GPU: every search with every policy of a configuration, on its programs, at equal budgets.

From the repository's root: PYTHONPATH=. python scripts/gpu_search.py [--seconds 400] [--json OUT] [--target llvm]

Workers compile side by side, on all cores, and take turns on the device. Searches of one program share what was
answered (a state is timed once), and each is counted as if it had asked itself. The result is written every few
seconds, so that a kill loses nothing. `--target llvm` is a dry run at the small sizes, on the CPU: its figures mean
nothing.
"""

import argparse
import json
import math
import os
import sys
import tempfile
import threading
import time
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stepTP.records import ProgramRow, SourceRecord
from stepTP.search import policy_of, search_of
from stepTP.search.env import Environment, SearchError, explore
from stepTP.search.journal import Journal
from stepTP.search.objectives import Timed
from stepTP.search.protocol import Budget, Settings
from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Failure, Pool, PoolError
from strategies import catalog

TRANSLATE = "stepTP.intake.translate"
DEVICE = "stepTP.verify.measure.large"
TASKS = (TRANSLATE, "stepTP.search.work.rank", "stepTP.search.experts.plans.plan", f"{DEVICE}.time_program")
JOB_S = 150.0  # of one job: torch.compile, and schedules of convolutions
MARGIN_S = 12.0  # before the end, in which nothing new begins
WRITE_S = 4.0
COMPILES = threading.Semaphore(3)
BUDGET = ("evaluations", "measurements", "width", "depth", "attempts", "seed")

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


@dataclass
class Program:
    """A program of the configuration, and what is known of it."""

    name: str
    bound: str
    code: str
    row: ProgramRow | None = None
    problem: str = ""
    work: dict[str, Any] = field(default_factory=dict)
    baselines: dict[str, Any] = field(default_factory=dict)
    journal: Journal = field(default_factory=Journal)


@dataclass
class Run:
    """A search of a program: `ended` says why; empty while it runs."""

    program: Program
    search: str
    policy: str
    env: Environment | None = None
    ended: str = ""


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--config", type=Path, default=Path("configs/search.yaml"))
    arguments.add_argument("--seconds", type=float, default=400.0, help="of the whole, the start of workers included")
    arguments.add_argument("--json", type=Path, default=Path(os.environ.get("OUT", ".")) / "gpu_search.json")
    arguments.add_argument("--target", choices=("cuda", "llvm"), default="cuda")
    arguments.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    arguments.add_argument("--only", nargs="+", default=[], help="programs by name")
    arguments.add_argument("--searches", nargs="+", default=[])
    options = arguments.parse_args()
    begun = time.monotonic()
    config = yaml.safe_load(options.config.read_text())
    small = options.target == "llvm"
    asked = [each for each in config["programs"] if not options.only or each["name"] in options.only]
    programs = [Program(each["name"], each["bound"], text_of(each, small)) for each in asked]
    names = options.searches or config["searches"]
    runs = [Run(p, search, policy) for policy in config["policies"] for search in names for p in programs]
    gpus = cuda_devices()[:1] if options.target == "cuda" else ()
    if options.target == "cuda" and not gpus:
        print("no CUDA device here: give --target llvm for a dry run", file=sys.stderr)
        return 2
    limits: dict[str, Any] = {}
    stopping = threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        pool = Pool(options.workers, JOB_S, 8 << 30, gpus=gpus, tasks=TASKS)
        lock = str(Path(folder) / "lock")
        threads = ThreadPoolExecutor(len(runs) + 3 * len(programs) + 1)
        shared = {"target": options.target, "lock": lock}
        started = [threads.submit(_limits, pool, limits, shared)]
        ready = {p.name: threads.submit(_prepared, pool, p, shared) for p in programs}
        budget = Budget(config["evaluations"], options.seconds - MARGIN_S, config["measurements"])
        in_flight = threading.Semaphore(max(4, 2 * options.workers))
        started += [
            threads.submit(_run, run, config, budget, pool, shared, ready[run.program.name], in_flight, stopping)
            for run in runs
        ]
        try:
            while True:
                pending = wait(started, timeout=WRITE_S).not_done
                write(options.json, programs, runs, limits, config, time.monotonic() - begun)
                if not pending or time.monotonic() - begun > options.seconds:
                    break
        finally:
            stopping.set()
            write(options.json, programs, runs, limits, config, time.monotonic() - begun)
            pool.kill()
            threads.shutdown(wait=False, cancel_futures=True)
    print_tables(json.loads(options.json.read_text()))
    sys.stdout.flush()
    os._exit(0)  # threads that wait for the killed pool


def text_of(program: dict[str, Any], small: bool) -> str:
    """The program as a file in KernelBench's form."""
    names = "abcdefgh"[: len(program["inputs"])]
    return TEXT.format(
        constants="\n".join(f"{name} = {value}" for name, value in program["small" if small else "sizes"].items()),
        names=", ".join(names),
        forward=program["forward"],
        inputs=", ".join(f"torch.rand({shape})" for shape in program["inputs"]),
    )


def _limits(pool: Pool, limits: dict[str, Any], shared: dict[str, Any]) -> None:
    found = pool.submit(f"{DEVICE}.time_limits", shared).result()
    limits.update({"error": found.message} if isinstance(found, Failure) else found)


def _prepared(pool: Pool, program: Program, shared: dict[str, Any]) -> None:
    """Translates a program, and asks for the times of its module."""
    payload = {"code": program.code, "file": program.name, "check": False}
    answer = pool.submit(TRANSLATE, payload, near=program.name).result()
    if isinstance(answer, Failure) or answer["leir"] is None:
        program.problem = answer.message if isinstance(answer, Failure) else answer["message"]
        return
    source = SourceRecord(id=program.name, family="search", torch_code=program.code, torch_sha="", license="Apache-2.0")
    program.row = ProgramRow(
        id=program.name, split="train", held_out=None, source=source, dtype=answer["dtype"], knobs={},
        names=answer["names"], program_signature=answer["leir"].split("\n", 1)[0], leir=answer["leir"],
        state_id=answer["state_id"], structure=answer["structure"], ops=tuple(answer["ops"]), nests=answer["nests"],
        iterations=answer["iterations"], max_abs_error=0.0, verification=(), tool_versions={},
    )  # fmt: skip
    payload = {**shared, "code": program.code, "leir": answer["leir"]}
    threading.Thread(target=_baselines, args=(pool, program, payload), daemon=True).start()


def _baselines(pool: Pool, program: Program, payload: dict[str, Any]) -> None:
    """Asks for the module's times; torch.compile takes a worker for long, so that few do at once."""
    asked = (("work", f"{DEVICE}.least", {}), ("eager", f"{DEVICE}.time_module", {"compiled": False}))
    for name, task, more in (*asked, ("compiled", f"{DEVICE}.time_module", {"compiled": True})):
        try:
            with COMPILES if name == "compiled" else nullcontext():
                found = pool.submit(task, {**payload, **more}).result()
        except (CancelledError, PoolError):  # the time is over
            return
        answer = {"seconds": None, "error": found.message} if isinstance(found, Failure) else found
        if name == "work":
            program.work = answer
        else:
            program.baselines[name] = answer


def _run(
    run: Run,
    config: dict[str, Any],
    budget: Budget,
    pool: Pool,
    shared: dict[str, Any],
    ready: "Future[None]",
    in_flight: threading.Semaphore,
    stopping: threading.Event,
) -> None:
    """One search, to its end or that of the time."""
    ready.result()
    with in_flight:
        if run.program.row is None or stopping.is_set():
            run.ended = f"not begun: {run.program.problem or 'no time left'}"
            return
        settings = Settings(
            strategies=tuple(sorted(catalog.names())),
            budget=budget,
            seed=config["seed"],
            verify=None,
            target="cuda",  # whose costs are predicted, in a dry run too
            width=config["width"],
            depth=config["depth"],
            attempts=config["attempts"],
        )
        try:
            objective = Timed(shared["target"], shared["lock"])
            env = Environment(run.program.row, policy_of(run.policy), objective, settings, pool, run.program.journal)
            run.env = env
            run.ended = explore(env, search_of(run.search))
        except (SearchError, PoolError, CancelledError) as error:
            run.ended = f"failed: {error}"


def write(
    file: Path, programs: list[Program], runs: list[Run], limits: dict[str, Any], config: dict[str, Any], seconds: float
) -> None:
    """All that is known, as JSON; the file is whole at any moment."""
    described = [_described(run, limits) for run in runs]
    report = {
        "seconds": round(seconds, 1),
        "limits": limits,
        "budget": {name: config[name] for name in BUDGET},
        "programs": [
            {"name": p.name, "bound": p.bound, "problem": p.problem, "baselines": dict(p.baselines), "work": p.work,
             "leir": p.row.leir if p.row else None}
            for p in programs
        ],
        "runs": described,
        "table": table(described),
    }  # fmt: skip
    temporary = file.with_suffix(".tmp")
    temporary.write_text(json.dumps(report, indent=1) + "\n")
    temporary.replace(file)


def _described(run: Run, limits: dict[str, Any]) -> dict[str, Any]:
    program, env = run.program, run.env
    found: dict[str, Any] = {
        "program": program.name,
        "bound": program.bound,
        "search": run.search,
        "policy": run.policy,
    }
    found["ended"] = run.ended or "running"
    if env is None:
        return found
    nodes = list(env.nodes)
    valued = [node for node in nodes if node.value_s is not None and math.isfinite(node.value_s)]
    if not valued:
        return found
    best = min(valued, key=lambda node: (node.value_s, node.number))
    assert best.value_s is not None
    source = nodes[0].value_s
    found |= {
        "evaluations": env.evaluations, "measurements": env.measurements, "visits": dict(env.visits),
        "source_s": source, "best_s": best.value_s, "best_steps": best.depth,
        "over_source": (source or 0) / best.value_s,
        "steps": [step.model_dump() for step in best.state.path], "best_leir": best.state.leir,
        "not_timed": len(nodes) - len(valued),
        "problems": [f"{node.depth} steps: {node.note}" for node in nodes if node.note][:5],
    }  # fmt: skip
    for name, baseline in program.baselines.items():
        if baseline.get("seconds"):
            found[f"over_{name}"] = baseline["seconds"] / best.value_s
    if "bytes_per_s" in limits and program.work.get("bytes"):
        limit = max(program.work["bytes"] / limits["bytes_per_s"], program.work["flops"] / limits["flops_per_s"])
        found["of_limit"] = limit / best.value_s
    return found


MEASURES = ("over_source", "over_eager", "over_compiled", "of_limit")


def table(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each search and policy, and for the best of all: of each ratio the number, best, mean and geometric mean."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for run in runs:
        if "best_s" in run:
            groups.setdefault((run["search"], run["policy"]), []).append(run)
    best: dict[str, dict[str, Any]] = {}
    for run in (run for group in groups.values() for run in group):
        if run["program"] not in best or run["best_s"] < best[run["program"]]["best_s"]:
            best[run["program"]] = run
    groups["best of all", "all programs"] = list(best.values())
    groups["best of all", "memory-bound"] = [run for run in best.values() if run["bound"] == "memory"]
    groups["best of all", "compute-bound"] = [run for run in best.values() if run["bound"] == "compute"]
    return [
        {"search": search, "policy": policy, "programs": len(group)} | {name: _means(group, name) for name in MEASURES}
        for (search, policy), group in groups.items()
    ]


def _means(group: list[dict[str, Any]], name: str) -> dict[str, float] | None:
    values = [run[name] for run in group if run.get(name)]
    if not values:
        return None
    return {
        "count": len(values),
        "best": max(values),
        "mean": sum(values) / len(values),
        "geomean": math.exp(sum(map(math.log, values)) / len(values)),
    }


def print_tables(report: dict[str, Any]) -> None:
    """What the searches reached, and for each program the best of all."""
    print("| search | policy | programs | " + " | ".join(f"{name} geomean (mean, best)" for name in MEASURES) + " |")
    print("|---|---|---|" + "---|" * len(MEASURES))
    for line in report["table"]:
        cells = [
            f"{found['geomean']:.3g} ({found['mean']:.3g}, {found['best']:.3g})" if (found := line[name]) else "-"
            for name in MEASURES
        ]
        print(f"| {line['search']} | {line['policy']} | {line['programs']} | {' | '.join(cells)} |")
    print("\n| program | bound | ms | over source | over eager | over torch.compile | of limit | by | steps |")
    print("|---|---|---|---|---|---|---|---|---|")
    for program in report["programs"]:
        found = [run for run in report["runs"] if run["program"] == program["name"] and "best_s" in run]
        if not found:
            print(f"| {program['name']} | {program['bound']} | {program['problem'] or 'not timed'} | | | | | | |")
            continue
        run = min(found, key=lambda run: run["best_s"])
        ratios = " | ".join(f"{run[name]:.3g}" if name in run else "-" for name in MEASURES)
        by = f"{run['search']}, {run['policy']}"
        head = f"| {program['name']} | {program['bound']} | {run['best_s'] * 1e3:.4f}"
        print(f"{head} | {ratios} | {by} | {run['best_steps']} |")
    for run in report["runs"]:
        if run["search"] == "mcts" and run.get("visits"):
            print(f"mcts visits by depth, {run['program']}, {run['policy']}: {run['visits']}")
    ended: dict[str, int] = {}
    for run in report["runs"]:
        ended[run["ended"][:60]] = ended.get(run["ended"][:60], 0) + 1
    print(f"{report['seconds']} s; " + "; ".join(f"{count} {why}" for why, count in ended.items()))


if __name__ == "__main__":
    sys.exit(main())
