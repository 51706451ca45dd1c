"""Runs programs on this machine's GPU and compares them with the CPU.

From the repository's root: PYTHONPATH=. python scripts/gpu_check.py PROGRAMS.jsonl REPORT.json

Each line of the input is an object with `leir`, the program's text, and `seed` for its inputs (0 if absent). Programs
are compiled in batches, for both targets; a program without transcendental functions must give equal bits, the others
agree within a tolerance. Exit code 1 if any differs or fails.
"""

import argparse
import json
import re
import sys
import time
from pathlib import Path

import numpy as np

from leir.lowering import CudaCompileError, compile_cuda, compile_llvm
from leir.parser import parse
from tests.programs import random_inputs

FUNCTIONS = re.compile(r"exp|log|erf|tanh|sin|cos|\*\*")
TOLERANCE = {"float16": 4e-3, "float32": 1e-4, "float64": 1e-10}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("programs", type=Path)
    arguments.add_argument("report", type=Path)
    arguments.add_argument("--batch", type=int, default=16)
    options = arguments.parse_args()
    rows = [json.loads(line) for line in options.programs.read_text().splitlines()]
    started = time.perf_counter()
    results = [found for at in range(0, len(rows), options.batch) for found in compare(rows[at : at + options.batch])]
    seconds = time.perf_counter() - started
    counts = {status: sum(r["status"] == status for r in results) for status in ("equal", "close", "differs", "failed")}
    options.report.write_text(json.dumps({"counts": counts, "seconds": seconds, "programs": results}, indent=1) + "\n")
    print(f"{len(results)} programs in {seconds:.1f} s: {counts}")
    return 1 if counts["differs"] or counts["failed"] else 0


def compare(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """One result a row. A batch that the compiler refuses is done again one by one, to name the program."""
    programs = [parse(str(row["leir"])) for row in rows]
    try:
        on_gpu = compile_cuda(programs, contraction=False)
    except CudaCompileError as error:
        if len(rows) > 1:
            return [result for row in rows for result in compare([row])]
        return [{"leir": rows[0]["leir"], "status": "failed", "message": str(error), "source": error.source}]
    results: list[dict[str, object]] = []
    for row, program, cuda, llvm in zip(rows, programs, on_gpu, compile_llvm(programs), strict=True):
        inputs = random_inputs(program, int(str(row.get("seed", 0))))
        found, wanted = cuda.new_buffers(inputs), llvm.new_buffers(inputs)
        cuda.run(found)
        llvm.run(wanted)
        exact = FUNCTIONS.search(str(row["leir"])) is None
        status = "equal"
        for declaration in program.outputs:
            a, b = found[declaration.tensor], wanted[declaration.tensor]
            if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                continue
            tolerance = TOLERANCE.get(str(b.dtype), 0.0)
            close = not exact and np.allclose(a, b, tolerance, tolerance, equal_nan=True)
            status = "close" if close and status != "differs" else "differs"
        results.append({"leir": row["leir"], "status": status})
    return results


if __name__ == "__main__":
    sys.exit(main())
