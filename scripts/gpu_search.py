"""Searches on this machine's GPU: every search with every policy of a configuration, on its programs, at equal budgets.

From the repository's root: PYTHONPATH=. python scripts/gpu_search.py [--seconds 500] [--folder DIR] [--target llvm]

Ends within `--seconds`; the same command goes on in the same folder with all that was answered, as long as the machine
keeps it. The result is written every few seconds, so that a kill loses nothing, to $OUT (or `--out`): the figures to
gpu_search.json, every step to a state that was run and compared to gpu_search_rows.jsonl. `--target llvm` is a dry run
at the small sizes, on the CPU: its figures mean nothing.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import yaml

from stepTP.search.contest import DEVICE, TRANSLATE, Contest
from stepTP.search.standings import print_tables, report
from stepTP.verify.devices import cuda_devices
from stepTP.verify.pool import Pool

TASKS = (
    TRANSLATE,
    "stepTP.search.work.rank",
    "stepTP.search.experts.plans.plan",
    "stepTP.narrate.task.explain",
    f"{DEVICE}.time_program",
)
JOB_S = 300.0  # of one job, its turn on the device waited for
MARGIN_S = 20.0  # before the end, in which nothing new begins
WRITE_S = 4.0


def main() -> int:
    options = arguments()
    begun = time.monotonic()
    if not options.config.is_file():
        print(f"{options.config}: no such file: give a configuration like configs/search.yaml", file=sys.stderr)
        return 2
    told = yaml.safe_load(options.config.read_text())
    told["programs"] = [each for each in told["programs"] if not options.only or each["name"] in options.only]
    told["searches"] = options.searches or told["searches"]
    told["policies"] = options.policies or told["policies"]
    gpus = cuda_devices()[:1] if options.target == "cuda" else ()
    if options.target == "cuda" and not gpus:
        print("no CUDA device here: give --target llvm for a dry run", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    pool = Pool(options.workers, JOB_S, 8 << 30, gpus=gpus, tasks=TASKS)
    contest = Contest(told, options.folder, pool, options.target, options.seconds - MARGIN_S, 2 * options.workers + 4)
    parts = contest.start()
    try:
        while True:
            pending = wait(parts, timeout=WRITE_S).not_done
            write(options.out, contest, parts, time.monotonic() - begun)
            if not pending or time.monotonic() - begun > options.seconds:
                break
    finally:
        write(options.out, contest, parts, time.monotonic() - begun)
        pool.kill()
        contest.close()
    print_tables(json.loads((options.out / "gpu_search.json").read_text()))
    sys.stdout.flush()
    os._exit(0)  # threads that wait for the killed pool


def write(out: Path, contest: Contest, parts: "list[Future[None]]", seconds: float) -> None:
    """All that is known; both files are whole at any moment."""
    errors = [repr(error) for part in parts if part.done() and not part.cancelled() and (error := part.exception())]
    _put(out / "gpu_search.json", json.dumps(report(contest, seconds, errors), indent=1) + "\n")
    _put(out / "gpu_search_rows.jsonl", contest.rows())


def _put(file: Path, text: str) -> None:
    beside = file.with_suffix(".part")
    beside.write_text(text, encoding="utf-8")
    beside.replace(file)


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=Path("configs/search.yaml"))
    parser.add_argument("--seconds", type=float, default=500.0, help="of the whole, the start of workers included")
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu_search"), help="of the journal")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/gpu_search")))
    parser.add_argument("--target", choices=("cuda", "llvm"), default="cuda")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--only", nargs="+", default=[], help="programs by name")
    parser.add_argument("--searches", nargs="+", default=[])
    parser.add_argument("--policies", nargs="+", default=[])
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
