"""Builds on this machine's GPU and shows every step that verification rejects on `cuda` alone, with all that tells why.

    PYTHONPATH=. python scripts/gpu_rejections.py configs/small.yaml REPORT.jsonl [--per-family 1] [--run FOLDER]

The build goes to the folder beside the report (or FOLDER), and is continued if it was stopped. For each such step the
report has a line: source, strategy, arguments, the program before, the program after, the message (output, element,
value, expected, tolerance, inputs), and what the same program does when it is verified alone: once more on `cuda` in
a worker where nothing ran before, and on `llvm`, with the share of its bounds that it used there. A message that comes
again is the program's own; one that does not is the work of what ran beside it. Exit code 1 if there are any.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from stepTP.config import Config, load_config
from stepTP.pipeline import build
from stepTP.records import ProgramRow, RejectedRow, read_rows
from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Failure, Pool

VERIFY = "stepTP.verify.task.verify"
ALONE = 4  # cases that are verified once more at a time, each in workers of its own


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("report", type=Path)
    parser.add_argument("--per-family", type=int, help="sources of each family, instead of the configuration's")
    parser.add_argument("--run", type=Path, help="the folder of the build")
    parser.add_argument("--workers", type=int)
    options = parser.parse_args()
    if not cuda_devices():
        sys.exit("no CUDA device here: run this where there is a GPU")
    folder = options.run or options.report.with_suffix("")
    config = on_both(load_config(options.config), options.per_family)
    made = build(config, folder, options.workers)
    steps = made.rows["steps"] + sum(made.rejected.values())
    count = 0
    with options.report.open("w", encoding="utf-8") as report, ThreadPoolExecutor(ALONE) as threads:
        for found in threads.map(lambda case: {**case, "alone": alone(case, config, ("llvm", "cuda"))}, cases(folder)):
            report.write(json.dumps(found) + "\n")
            report.flush()
            print("\n".join(shown(found)), flush=True)
            count += 1
    print(f"{count} steps, of {steps} taken, are rejected on cuda alone")
    return 1 if count else 0


def on_both(config: Config, per_family: int | None) -> Config:
    """The configuration with both targets, and without what says nothing about them."""
    verify = config.verify.model_copy(update={"targets": ("llvm", "cuda")})
    sources = config.sources
    if per_family is not None:
        sources = sources.model_copy(update={"per_family": per_family})
    return config.model_copy(update={"verify": verify, "sources": sources, "tokens": False})


def cases(folder: Path) -> Iterator[dict[str, Any]]:
    """What verification rejected in a run, but for what `llvm` refused and sources that cannot be verified anywhere."""
    programs = {row.id: row for row in read_rows(folder / "programs.jsonl") if isinstance(row, ProgramRow)}
    for row in read_rows(folder / "rejected.jsonl"):
        assert isinstance(row, RejectedRow)
        if row.stage == "verify" and row.cause != "unverified" and not row.message.startswith("llvm: "):
            yield case_of(row, programs.get(row.source_id))


def case_of(row: RejectedRow, program: ProgramRow | None) -> dict[str, Any]:
    """A rejected step; or a program that was rejected as such, which has no row."""
    return {
        "id": row.id,
        "source": program.source.model_dump(mode="json") if program else {"id": row.source_id},
        "leir_source": program.leir if program else row.leir_after,
        "depth": row.depth,
        "strategy": row.step.strategy if row.step else "",
        "args": row.step.args if row.step else {},
        "cause": row.cause,
        "message": row.message,
        "before": row.leir_before,
        "after": row.leir_after,
    }


def alone(case: dict[str, Any], config: Config, targets: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What each target says of the program, and of the one before it, in a worker where nothing else ran."""
    found: dict[str, dict[str, Any]] = {}
    gpus = cuda_devices() if "cuda" in targets else ()
    for target in targets:
        for name in ("before", "after"):
            if case[name] is None:
                continue
            payload = {
                "source": case["source"], "leir_source": case["leir_source"], "leir": case[name], "parent": None,
                "bit_exact": False, "targets": [target], "draws": config.verify.draws, "seed": config.seed,
            }  # fmt: skip
            with Pool(1, config.verify.timeout_s, config.verify.memory_mb << 20, gpus=gpus) as pool:
                answer = pool.submit(VERIFY, payload).result()
            found[f"{name} on {target}"] = judged(answer)
    return found


def judged(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Failure):
        return {"message": answer.message, "bound_used": None}
    return {"message": answer["message"], "bound_used": answer["verdicts"][-1]["bound_used"]}


def shown(case: dict[str, Any]) -> Iterable[str]:
    """A case as people read it."""
    yield f"== {case['source']['id']}, depth {case['depth']}: {case['strategy']} {json.dumps(case['args'])}"
    yield f"{case['cause']}: {case['message']}"
    if case["before"] is not None:
        yield "-- before"
        yield case["before"].rstrip()
    yield "-- after"
    yield case["after"].rstrip()
    for name, found in case["alone"].items():
        yield f"-- {name}, alone: {found['message'] or 'accepted'}; bound used {found['bound_used']}"


if __name__ == "__main__":
    sys.exit(main())
