"""Measures attention on this machine's GPU: 64 heads, 1,024 and 4,096 tokens, of 64 and 128, in f32 and f16.

From the repository's root: PYTHONPATH=. python scripts/gpu_attention.py [--seconds 300] [--out FOLDER] [--only TEXT]

Of each size: PyTorch's backends, the plain program and the one pass of flashattention_wo_tiling with a row a thread,
and the tiled trajectory with several tilings, of the first with every tenth state on the way. Every measurement is a
process; they build and compile side by side and take turns on the GPU. FOLDER (or $OUT) gets `attention.json`, written
anew after each, the most important first: what is there when the time is up stays there.
"""

import argparse
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

CASES = tuple(
    {"tokens": tokens, "width": width, "dtype": dtype, "causal": causal}
    for width, dtype, causal, tokens in product((64, 128), ("f32", "f16"), (False, True), (1024, 4096))
)
TILES: dict[int, tuple[dict[str, Any], ...]] = {
    64: (
        {"rows": 64, "columns": 32, "thread": [4, 4]},
        {"rows": 64, "columns": 64, "thread": [8, 4], "chunk": 16},
        {"rows": 64, "columns": 32, "thread": [8, 4]},
        {"rows": 64, "columns": 64, "thread": [4, 4], "chunk": 16},
        {"rows": 64, "columns": 32, "thread": [4, 2]},
    ),
    128: (
        {"rows": 64, "columns": 32, "thread": [4, 4], "chunk": 16},
        {"rows": 64, "columns": 32, "thread": [8, 4], "chunk": 16, "depth": 8},
        {"rows": 32, "columns": 64, "thread": [4, 4], "chunk": 16},
    ),
}
EVERY = 10  # steps between the states that are timed on the way


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=300.0, help="stop after so long")
    arguments.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    arguments.add_argument("--only", default="", help="only jobs whose JSON contains this text")
    arguments.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    arguments.add_argument("--job", help=argparse.SUPPRESS)
    arguments.add_argument("--lock", type=Path, help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.job:
        print(json.dumps(measured(json.loads(options.job), options.lock)))
        return 0
    end = time.monotonic() + options.seconds
    wanted = [job for job in jobs() if options.only in json.dumps(job)]
    options.out.mkdir(parents=True, exist_ok=True)
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        started = [pool.submit(run, job, Path(folder) / "lock", end) for job in wanted]
        for future in as_completed(started):
            reports.append(future.result())
            (options.out / "attention.json").write_text(json.dumps(reports, indent=1) + "\n")
            print(line(reports[-1]), flush=True)
    print_table(reports)
    return 1 if any("failed" in report for report in reports) else 0


def jobs() -> Iterator[dict[str, Any]]:
    """What is to be measured, the most important first."""
    yield {"what": "torch", "cases": list(CASES)}
    first, *others = sorted(
        CASES, key=lambda c: (c["width"] + c["causal"] * 60 + (c["dtype"] == "f16") * 70, c["tokens"])
    )
    for tiles in TILES[64][:3]:
        yield {"what": "tiled", "case": first, "tiles": tiles, "every": 0}
    yield {"what": "rows", "case": first, "outermost": False}
    yield {"what": "tiled", "case": first, "tiles": TILES[64][0], "every": EVERY}
    for case in others:
        yield {"what": "tiled", "case": case, "tiles": TILES[case["width"]][0], "every": 0}
        yield {"what": "rows", "case": case, "outermost": False}
    yield {"what": "rows", "case": first, "outermost": True}
    for number in range(1, 5):
        for case in (first, *others):
            if number < len(TILES[case["width"]]) and (case is not first or number > 2):
                yield {"what": "tiled", "case": case, "tiles": TILES[case["width"]][number], "every": 0}


def run(job: dict[str, Any], lock: Path, end: float) -> dict[str, Any]:
    """The report of one process, or why there is none."""
    left = end - time.monotonic()
    if left < 1:
        return {**job, "skipped": "the time was up"}
    command = [sys.executable, __file__, "--job", json.dumps(job), "--lock", str(lock)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
    except subprocess.TimeoutExpired:
        return {**job, "skipped": "the time was up"}
    if done.returncode:
        return {**job, "failed": done.stderr.strip()[-2000:]}
    return {**job, **json.loads(done.stdout.splitlines()[-1])}


def measured(job: dict[str, Any], lock: Path) -> dict[str, Any]:
    """The report of a job, in its own process."""
    import torch

    from schedules.measure_attention import Case, measure_rows, measure_tiled, measure_torch

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    if job["what"] == "torch":
        with turn(lock), torch.no_grad():
            backends = [{**case, **measure_torch(Case(**case))} for case in job["cases"]]
        return {"backends": backends, "device": torch.cuda.get_device_name(), "torch": torch.__version__}
    case = Case(**job["case"])
    if job["what"] == "rows":
        return measure_rows(case, turn(lock), outermost=job["outermost"])
    return measure_tiled(case, job["tiles"], job["every"], turn(lock))


@contextmanager
def turn(lock: Path) -> Iterator[None]:
    """Holds the lock of all processes that use the GPU."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def line(report: dict[str, Any]) -> str:
    """A report in short."""
    head = " ".join(str(report.get(key, "")) for key in ("what", "case", "tiles"))
    for key in ("failed", "skipped", "error"):
        if key in report:
            return f"{head} {key.upper()}: {report[key]}"
    if report["what"] == "torch":
        return f"torch: {len(report['backends'])} cases on {report['device']}"
    if report["what"] == "rows":
        shown = {key: report[key].get("seconds", report[key].get("error")) for key in report if key in STATES}
        return f"{head} {shown}"
    times = ", ".join(f"{s['number']}: {s.get('seconds', s.get('error'))}" for s in report["states"])
    return f"{head} {times}"


STATES = ("source", "plain", "one_pass")


def print_table(reports: list[dict[str, Any]]) -> None:
    """Milliseconds and MiB of each case: PyTorch's backends, the plain program, one pass, and the fastest tiling."""
    print("\n| case | math | memory-efficient | flash | source | plain | one pass | tiled | tiles |")
    print("|---|---|---|---|---|---|---|---|---|")
    backends = next((report["backends"] for report in reports if "backends" in report), [])
    for case in CASES:
        own = [report for report in reports if report.get("case") == case]
        found = next((b for b in backends if all(b[key] == value for key, value in case.items())), {})
        rows = {name: r[name] for r in own if r["what"] == "rows" for name in STATES if name in r}
        tiled = [r for r in own if r["what"] == "tiled" and "seconds" in r]
        best = min(tiled, key=lambda r: r["seconds"], default={})
        name = f"{case['tokens']}x{case['width']} {case['dtype']}{' causal' if case['causal'] else ''}"
        cells = [figure(found.get(key, {})) for key in ("math", "memory_efficient", "flash")]
        cells += [figure(rows.get(key, {})) for key in STATES] + [figure(best), json.dumps(best.get("tiles", ""))]
        print(f"| {name} | {' | '.join(cells)} |")


def figure(found: dict[str, Any]) -> str:
    """`0.700 ms, 16 MiB`, or a dash."""
    return f"{found['seconds'] * 1e3:.3f} ms, {found['bytes'] / 2**20:.0f} MiB" if "seconds" in found else "-"


if __name__ == "__main__":
    sys.exit(main())
