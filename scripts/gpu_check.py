"""Runs programs on this machine's GPU and compares them with the CPU.

From the repository's root: PYTHONPATH=. python scripts/gpu_check.py PROGRAMS.jsonl REPORT.json

Each line of the input is an object with `leir`, the program's text, and `seed` for its inputs (0 if absent). Programs
are compiled in batches, for both targets, and must agree as the tests' executions do: a program without transcendental
functions to the bit. Exit code 1 if any differs or fails.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from leir.lowering import CudaCompileError, compile_cuda, compile_llvm
from leir.parser import parse
from stepTP.verify.compare import same_bits
from tests.leir.agreement import differences
from tests.programs import random_inputs


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
        outputs = [declaration.tensor for declaration in program.outputs]
        apart = differences(program, {n: wanted[n] for n in outputs}, {n: found[n] for n in outputs})
        equal = all(same_bits(found[n], wanted[n]) for n in outputs)
        status = "differs" if apart else "equal" if equal else "close"
        results.append({"leir": row["leir"], "status": status, "message": "; ".join(apart)})
    return results


if __name__ == "__main__":
    sys.exit(main())
