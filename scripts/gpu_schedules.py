"""Measures the trajectories of `schedules/` on this machine's GPU at real sizes, several tilings each.

From the repository's root: PYTHONPATH=. python scripts/gpu_schedules.py [--json OUT] [--only NAME]

Every tiling is a process: what fails is printed, and the others go on. They compile side by side and take turns on the
GPU. Of each size the first tiling is timed state by state; the fastest of all stands in the table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from schedules.sizes import CASES, Case

TIMEOUT_S = 280  # of one process, waiting for its turn included


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", type=Path, help="where to write all reports")
    arguments.add_argument("--only", help="the name of one trajectory")
    arguments.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    options = arguments.parse_args()
    jobs = [
        (case, tiles, "last" if number else "all")
        for case in CASES
        if options.only in (None, case.name)
        for number, tiles in enumerate(case.tiles)
    ]
    jobs.sort(key=lambda job: job[2] == "all")  # what is quick first
    reports: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.workers) as pool:
        started = [pool.submit(run, *job, Path(folder), number) for number, job in enumerate(jobs)]
        for future in as_completed(started):
            reports.append(future.result())
            print(_line(reports[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps(reports, indent=1) + "\n")
    print_table(reports)
    return 1 if any("failed" in report for report in reports) else 0


def run(case: Case, tiles: dict[str, Any], which: str, folder: Path, number: int) -> dict[str, Any]:
    """The report of one process, or why there is none."""
    out = folder / f"{number}.json"
    command = [
        sys.executable, "-m", "schedules", case.name, "--size", *map(str, case.size), "--tiles", json.dumps(tiles),
        "--measure", which, "--lock", str(folder / "lock"), "--json", str(out),
    ]  # fmt: skip
    report: dict[str, Any] = {"name": case.name, "size": case.size, "tiles": tiles}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        report["failed"] = f"not done after {TIMEOUT_S} s"
    else:
        if out.is_file():
            report = json.loads(out.read_text())
            wrong = [state for state in report["measured"]["states"] if "error" in state]
            if wrong:
                report["failed"] = "\n".join(f"state {state['number']}: {state['error'][:500]}" for state in wrong)
        else:
            report["failed"] = done.stderr.strip()[-2000:]
    return report


def print_table(reports: list[dict[str, Any]]) -> None:
    """The fastest tiling of each size."""
    print("\n| operator | size | tiles | ms | over source | PyTorch ms | of PyTorch | of limit | limit |")
    print("|---|---|---|---|---|---|---|---|---|")
    best: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
    sources: dict[tuple[str, tuple[int, ...]], float] = {}
    for report in reports:
        if "seconds" in report.get("measured", {}):
            key = (report["name"], tuple(report["size"]))
            if key not in best or report["measured"]["seconds"] < best[key]["measured"]["seconds"]:
                best[key] = report
            if "seconds" in report["measured"]["source"]:
                sources[key] = report["measured"]["source"]["seconds"]
    for (name, size), report in best.items():
        found = report["measured"]
        over = f"{sources[name, size] / found['seconds']:.0f}x" if (name, size) in sources else "-"
        print(
            f"| {name} | {'x'.join(map(str, size))} | {json.dumps(report['tiles'])} | {found['seconds'] * 1e3:.4f} "
            f"| {over} | {found['eager_s'] * 1e3:.4f} | {found['over_eager']:.2f} | {found['of_limit']:.2f} "
            f"| {found['limit']} |"
        )


def _line(report: dict[str, Any]) -> str:
    head = f"{report['name']} {'x'.join(map(str, report['size']))} {json.dumps(report['tiles'])}"
    found = report.get("measured", {})
    if "seconds" in found:
        share = f"{found['over_eager']:.3f} of PyTorch, {found['of_limit']:.3f} of limit"
        head = f"{head}: {found['seconds'] * 1e3:.4f} ms, {share}"
    return f"{head}\nFAILED: {report['failed']}" if "failed" in report else head


if __name__ == "__main__":
    sys.exit(main())
