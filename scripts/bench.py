"""How fast programs are verified on this machine, stage by stage, beside plain TVM.

    python scripts/bench.py                                  the quickstart's sources, a worker a core
    python scripts/bench.py --run runs/quickstart            the states of a run: verification alone
    python scripts/bench.py --targets cuda --workers 16      on the GPU, with verdicts compared to the CPU's
    python scripts/bench.py --config configs/small.yaml --limit 160    sources and walks of another configuration
    python scripts/bench.py --quick --json bench.json        two short walks, in seconds

The measurements, one after the other; each is printed, and in the JSON, before the next begins:

- *Whole*: sources are translated, walked and verified by a pool of workers, as in a build but without reasoning, tokens
  and rows. States a second of real time, start-up included, and from the first verdict on. A small corpus leaves many
  workers idle while the last sources end.
- *Agreement* (`cuda` only): the same states on the CPU, and how many verdicts are the same.
- *Stages*: the first sources again in this process, alone. Processor time and real time of each stage, `ld` included,
  nothing counted twice; nothing is kept from the first measurement. What waits for a GPU takes real time only.
- *Plain TVM*: some of those states, each by one `tvm.compile` a target with default settings, one run on one draw and
  one `allclose`, in this process. Real time and processor time. It checks less: no poison, no second run, one draw.
"""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bench_stages import Here, plain_tvm, stages
from bench_watch import Watch, processor_s

from stepTP import pipeline
from stepTP.config import Config, load_config
from stepTP.identity import tool_versions
from stepTP.pipeline import Build, Item
from stepTP.records import ProgramRow, StepRow
from stepTP.sources import SourceProgram
from stepTP.stats import run_rows
from stepTP.verify.devices import cuda_devices, open_gpu
from stepTP.verify.machine import usable_cores
from stepTP.verify.pool import Failure, Pool
from stepTP.walk import Check, VerifiedStep, verify_all

ROOT = Path(__file__).parent.parent
CONFIG = ROOT / "configs" / "quickstart.yaml"
PARTS = ("whole", "agreement", "stages", "plain")  # in this order
QUICK = {"depth": 1, "breadth": 1, "per_strategy": 1, "attempts": 2}


@dataclass(frozen=True, slots=True)
class Source:
    """Where states come from: a source to walk from, or a program with states of a run."""

    start: SourceProgram | ProgramRow
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Verified:
    """The states of one source: its program, what was checked, and the answers' causes (empty where all is well)."""

    program: ProgramRow
    checks: tuple[Check, ...]
    causes: tuple[str, ...]


def main() -> None:
    options = arguments()
    config = settings(options)
    sources = list(corpus(options, config))
    names = pipeline.chosen_strategies(config)
    targets = list(config.verify.targets)
    if "cuda" in targets and not cuda_devices():
        sys.exit("no CUDA device here: give --targets llvm")
    report: dict[str, Any] = {"machine": machine(), "targets": targets, "sources": len(sources)}

    def done(lines: Iterable[str]) -> None:
        print("\n".join((*lines, "")), flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")

    found, report["whole"] = whole(config, names, sources, options.workers)
    report["states_per_second"] = report["whole"]["states_per_second"]
    done(table_of_whole(report))
    wanted = PARTS[: PARTS.index(options.until) + 1]
    if "cuda" in targets and "agreement" in wanted:
        report["agreement"] = agreement(config, found, options.workers)
        done(table_of_agreement(report["agreement"]))
    if "stages" not in wanted:
        return

    def work(jobs: Here) -> int:
        build = Build(config, names, jobs)
        return sum(len(v.checks) for source in sources[: options.stages] for v in verified(build, source))

    if "cuda" in targets:
        open_gpu()
    by_stage, states = stages(work, code_of(sources[0]))
    report |= by_stage
    done(table_of_stages(report))
    if "plain" not in wanted:
        return
    report["plain_tvm"] = plain_tvm(states, options.plain or (10 if "cuda" in targets else 40), targets)
    report["ratio_to_plain_tvm"] = ratio(report["states_per_second"], report["plain_tvm"]["states_per_second"])
    own, plain = sum(report["stages_cpu_ms"].values()), report["plain_tvm"]["cpu_ms"]
    report["ratio_to_plain_tvm_one_core"] = ratio(plain, own)
    done(table_of_plain(report))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--run", type=Path, help="verify the states of this run, or published folder, instead of walking"
    )
    parser.add_argument("--config", type=Path, default=CONFIG, help="a configuration of a build: the quickstart's")
    parser.add_argument("--targets", nargs="+", choices=("llvm", "cuda"), default=["llvm"])
    parser.add_argument("--workers", type=int, help="one a core by default")
    parser.add_argument("--limit", type=int, help="so many sources at most")
    parser.add_argument("--stages", type=int, default=4, help="sources of the stages")
    parser.add_argument("--plain", type=int, help="states of plain TVM: 40, or 10 on cuda, where each takes a second")
    parser.add_argument("--until", choices=PARTS, default=PARTS[-1], help="the last measurement to make")
    parser.add_argument("--quick", action="store_true", help="two sources, a step or two from each")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    if options.quick:
        options.limit, options.stages, options.plain = options.limit or 2, 1, 3
    return options


def settings(options: argparse.Namespace) -> Config:
    """The configuration, on the targets that are asked for."""
    config = load_config(options.config)
    verify = config.verify.model_copy(update={"targets": tuple(options.targets)})
    walk = config.walk.model_copy(update=QUICK) if options.quick else config.walk
    return config.model_copy(update={"verify": verify, "walk": walk})


def corpus(options: argparse.Namespace, config: Config) -> Iterator[Source]:
    """The sources, those of many families first."""
    if options.run is None:
        planned = [source for shard in pipeline.planned_shards(config).values() for source in shard]
        families: dict[str, list[SourceProgram]] = {}
        for source in planned:
            families.setdefault(source.family, []).append(source)
        rounds = zip_longest(*families.values())
        ordered = [source for some in rounds for source in some if source is not None]
        yield from (Source(source) for source in ordered[: options.limit])
        return
    programs = [row for row in run_rows(options.run, "programs") if isinstance(row, ProgramRow)]
    steps = [row for row in run_rows(options.run, "steps") if isinstance(row, StepRow)]
    by_source: dict[str, list[StepRow]] = {program.id: [] for program in programs}
    for row in steps:
        by_source[row.source.id].append(row)
    for program in programs[: options.limit]:
        own = [Check(row.leir_after, row.leir_before, row.bit_exact) for row in by_source[program.id]]
        yield Source(program, (Check(program.leir, None, False), *own))


def code_of(source: Source) -> str:
    return source.start.source.torch_code if isinstance(source.start, ProgramRow) else source.start.torch_code


def verified(build: Build, source: Source) -> list[Verified]:
    """The states of a source, verified; none where its program is refused."""
    if isinstance(source.start, ProgramRow):
        config = build.config
        answers = list(verify_all(build.jobs, config.verify, config.seed, source.start, list(source.checks)))
        return [Verified(source.start, source.checks, tuple(map(cause, answers)))]
    items: Iterable[Item] = [source.start]
    for stage in (pipeline.translate, pipeline.verify_programs, pipeline.walk_from):
        items = stage(build, items)
    made = list(items)
    programs = [item for item in made if isinstance(item, ProgramRow)]
    if not programs:
        return []
    steps = [item for item in made if isinstance(item, VerifiedStep)]
    checks = [Check(s.taken.leir, s.before.leir, s.taken.bit_exact) for s in steps]
    checks.insert(0, Check(programs[0].leir, None, False))
    return [Verified(programs[0], tuple(checks), ("",) * len(checks))]


def cause(answer: Any) -> str:
    return answer.kind if isinstance(answer, Failure) else answer["cause"]


def whole(
    config: Config, names: tuple[str, ...], sources: Sequence[Source], workers: int | None
) -> tuple[list[Verified], dict[str, Any]]:
    """All sources by a pool of workers."""
    gpus = cuda_devices() if "cuda" in config.verify.targets else ()
    watch = Watch()
    before, begun = os.times(), time.perf_counter()
    with (
        watch,
        Pool(
            workers, config.verify.timeout_s, config.verify.memory_mb << 20, gpus=gpus, tasks=pipeline.TASKS, board=True
        ) as pool,
    ):
        jobs = FirstVerdict(pool)
        build = Build(config, names, jobs)
        with ThreadPoolExecutor(2 * pool.workers + 1) as threads:
            found = [v for some in threads.map(lambda source: verified(build, source), sources) for v in some]
        ended, at_end = time.perf_counter(), processor_s(os.getpid())
    after = os.times()  # once the workers are gone: their time counts then
    states = sum(len(v.checks) for v in found)
    cpu = sum(after[:4]) - sum(before[:4])
    warm = ended - (jobs.at or begun)
    busy = (at_end - jobs.processor_s) / warm if jobs.at and warm > 0 else 0.0
    return found, {
        "workers": pool.workers,
        "states": states,
        "seconds": round(ended - begun, 2),
        "seconds_to_first_verdict": round((jobs.at or ended) - begun, 2),
        "states_per_second": round(states / (ended - begun), 1),
        "states_per_second_from_first_verdict": round(states / warm, 1) if warm > 0 else 0.0,
        "cpu_ms": round(1000 * cpu / max(1, states), 2),
        "parent_cpu_ms": round(
            1000 * sum(b - a for a, b in zip(before[:2], after[:2], strict=True)) / max(1, states), 2
        ),
        "cores_busy_from_first_verdict": round(busy, 2),
        **watch.figures(),
    }


class FirstVerdict:
    """A pool that notes when the first program was verified."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.at: float | None = None
        self.processor_s = 0.0  # until then, of this process and all below it

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        return self.pool.submit(task, payload, near)

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        futures = self.pool.submit_batch(task, payload, items, near)
        futures[0].add_done_callback(self._note)
        return futures

    def _note(self, _: "Future[Any]") -> None:
        if self.at is None:
            self.at, self.processor_s = time.perf_counter(), processor_s(os.getpid())


def agreement(config: Config, found: Sequence[Verified], workers: int | None) -> dict[str, int]:
    """The same states verified on the CPU: how many verdicts are the same."""
    verify = config.verify.model_copy(update={"targets": ("llvm",)})
    same = total = 0
    with (
        Pool(workers, verify.timeout_s, verify.memory_mb << 20, tasks=pipeline.TASKS) as pool,
        ThreadPoolExecutor(2 * pool.workers + 1) as threads,
    ):
        checked = threads.map(lambda v: list(verify_all(pool, verify, config.seed, v.program, list(v.checks))), found)
        for one, answers in zip(found, checked, strict=True):
            total += len(answers)
            same += sum(cause(answer) == own for answer, own in zip(answers, one.causes, strict=True))
    return {"states": total, "same_verdict": same}


def ratio(one: float, other: float) -> float:
    return round(one / other, 2) if other else 0.0


def machine() -> dict[str, Any]:
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    model = next((line.split(":", 1)[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    return {
        "cores": usable_cores(),
        "processor": model or platform.processor(),
        "load": round(os.getloadavg()[0], 1),
        "python": platform.python_version(),
        **{name: tool_versions()[name] for name in ("apache-tvm", "islpy", "lark", "numpy", "torch")},
    }


def table_of_whole(report: dict[str, Any]) -> Iterator[str]:
    """The figures as Markdown."""
    shown, run, targets = report["machine"], report["whole"], ", ".join(report["targets"])
    yield f"{', '.join(f'{name} {value}' for name, value in shown.items())}"
    yield ""
    yield f"| whole path: {report['sources']} sources, verified on {targets} by {run['workers']} workers | |"
    yield "|---|---|"
    yield f"| states verified | {run['states']} in {run['seconds']} s |"
    yield f"| until the first verdict | {run['seconds_to_first_verdict']} s |"
    yield f"| states a second | {run['states_per_second']} |"
    yield f"| states a second from the first verdict on | {run['states_per_second_from_first_verdict']} |"
    yield f"| processor time a state, all processes, start-up too | {run['cpu_ms']} ms |"
    yield f"| of which this process | {run['parent_cpu_ms']} ms |"
    memory = run["memory_mb"]
    yield f"| peak memory | parent {memory['parent']} MB, largest worker {memory['largest_worker']} MB |"
    yield f"| busy cores, from the first verdict on | {run['cores_busy_from_first_verdict']} |"
    yield f"| busy cores of the machine, over the whole | {run['machine_cores_busy']} |"
    if run["gpu_percent"] is not None:
        yield f"| share of the time in which the GPU ran a kernel | {run['gpu_percent']}% |"


def table_of_agreement(found: dict[str, int]) -> Iterator[str]:
    yield "| the same states verified on llvm | |"
    yield "|---|---|"
    yield f"| verdicts that are the same | {found['same_verdict']} of {found['states']} |"


def table_of_stages(report: dict[str, Any]) -> Iterator[str]:
    processor, real = report["stages_cpu_ms"], report["stages_real_ms"]
    yield f"| one process alone, on {', '.join(report['targets'])} | |"
    yield "|---|---|"
    yield f"| states verified | {report['stages_states']} |"
    yield f"| nests compiled for them | {report['stages_nests_compiled']} |"
    yield ""
    yield "| stage, a state | processor ms | real ms |"
    yield "|---|---|---|"
    for name, cost in sorted(processor.items(), key=lambda pair: -pair[1]):
        yield f"| {name} | {cost:.2f} | {real[name]:.2f} |"
    yield f"| all | {sum(processor.values()):.2f} | {sum(real.values()):.2f} |"
    yield ""
    yield "| verification by size | states | processor ms a state |"
    yield "|---|---|---|"
    for row in report["classes"]:
        yield f"| {row['class']} | {row['states']} | {row['cpu_ms']:.2f} |"


def table_of_plain(report: dict[str, Any]) -> Iterator[str]:
    plain = report["plain_tvm"]
    yield f"| plain TVM, compiled for {' and '.join(plain['targets'])}, one process | |"
    yield "|---|---|"
    yield f"| states | {plain['states']} |"
    yield f"| states a second | {plain['states_per_second']} |"
    yield f"| processor time a state | {plain['cpu_ms']} ms |"
    yield f"| states a second of the whole path, times plain TVM's | {report['ratio_to_plain_tvm']} |"
    yield f"| plain TVM's processor time, times that of all stages above | {report['ratio_to_plain_tvm_one_core']} |"


if __name__ == "__main__":
    main()
