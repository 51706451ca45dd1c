"""Prints how many programs of `benchmarks/kernels` translate and are verified against PyTorch, level by level.

    python scripts/coverage.py                      # all levels; under an hour of one core
    python scripts/coverage.py level1 --workers 2
    python scripts/coverage.py --write coverage.json

Every program is made small to 200,000 iterations, translated, and run by the interpreter in float64 and in its own
dtype against its module; to 4 or 20 million where its structure allows no less, or where so few channels or pixels make
it degenerate. Times are processor time of loading, exporting and translating at those sizes, in a worker that has
translated before.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from stepTP.verify.pool import Failure, Pool

PROGRAMS = Path(__file__).parent.parent / "benchmarks" / "kernels"
LIMITS = (200_000, 4_000_000, 20_000_000)
BY_SIZE = ("too-large", "constant-output", "saturated-output", "ill-conditioned")  # causes that a size may bring about
TIMEOUT_S = 1800.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("part", nargs="*", default=["level1", "level2", "level3"], help="folders, or files by name")
    arguments.add_argument("--workers", type=int, default=1)
    arguments.add_argument("--write", type=Path, help="the reports of all programs as JSON")
    options = arguments.parse_args()
    files = [file for part in options.part for file in sorted(PROGRAMS.glob(f"{part}/*.py"))]
    files += [file for part in options.part for file in sorted(PROGRAMS.glob(f"*/{part}*.py"))]
    if not files:
        sys.exit(f"no program of {PROGRAMS} is called {', '.join(options.part)}")
    with Pool(options.workers, TIMEOUT_S) as pool:
        for _ in range(options.workers):
            pool.submit("stepTP.intake.translate", payload(files[0], LIMITS[0] // 4)).result()  # imports
        reports = dict(tqdm(checked(pool, files), total=len(files), disable=None))
    if options.write:
        options.write.write_text(json.dumps(reports, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(reports)))


def payload(file: Path, limit: int) -> dict[str, Any]:
    name = file.relative_to(PROGRAMS).as_posix()
    return {"code": file.read_text(encoding="utf-8"), "file": name, "fit": limit}


def checked(pool: Pool, files: list[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The report of each program, at the first limit at which its size is no reason against it."""
    asked = [pool.submit("stepTP.intake.translate", payload(file, LIMITS[0])) for file in files]
    for file, first in zip(files, asked, strict=True):
        answer = first.result()
        for limit in LIMITS[1:]:
            if not isinstance(answer, Failure) and answer["cause"] in BY_SIZE:
                answer = pool.submit("stepTP.intake.translate", payload(file, limit)).result()
        if isinstance(answer, Failure):
            answer = {"status": "error", "cause": answer.kind, "message": answer.message}
        yield file.relative_to(PROGRAMS).as_posix(), answer


def table(reports: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield "| level | programs | verified | wrong | refused, and why | max error (f64) | ms median | ms p95 |"
    yield "|---|---|---|---|---|---|---|---|"
    for level in sorted({name.split("/")[0] for name in reports}):
        own = [report for name, report in reports.items() if name.startswith(level + "/")]
        good = [report for report in own if report["status"] == "verified"]
        wrong = sum(report["status"] == "mismatch" for report in own)
        causes = Counter(report["cause"] for report in own if report["status"] not in ("verified", "mismatch"))
        why = ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items())) or "none"
        error = max((report["max_abs_error"] for report in good), default=0.0)
        times = sorted(report["translation_ms"] for report in good) or [0.0]
        yield (
            f"| {level} | {len(own)} | {len(good)} | {wrong} | {why} | {error:.1e} "
            f"| {median(times):.0f} | {times[int(0.95 * len(times))]:.0f} |"
        )
    yield ""
    for name, report in reports.items():
        if report["status"] != "verified":
            yield f"- {name}: {report['status']}: {report['message']}"


if __name__ == "__main__":
    main()
