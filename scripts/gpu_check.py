"""Runs programs on this machine's GPU and compares them with the CPU.

From the repository's root: PYTHONPATH=. python scripts/gpu_check.py PROGRAMS.jsonl REPORT.json
                            PYTHONPATH=. python scripts/gpu_check.py --canaries REPORT.json

Each line of the input is an object with `leir`, the program's text, and `seed` for its inputs (0 if absent). Programs
are compiled in batches, for both targets, and must agree as the tests' executions do: a program without transcendental
functions to the bit. As verification compiles them for the GPU, they must give the very bits that they give when
compiled in full. Exit code 1 if any differs or fails.

With `--canaries`, the wrong programs of tests/stepTP/canaries.py and their twins are verified on both targets: each
wrong one must be refused and each twin accepted, on `cuda` as on `llvm`. `--targets llvm`, after REPORT.json, asks
the CPU alone.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from leir.lowering import CudaCompileError, compile_cuda, compile_llvm, compile_nests
from leir.parser import parse
from stepTP.verify.compare import same_bits
from stepTP.verify.pool import Failure, Pool
from tests.leir.agreement import differences
from tests.programs import random_inputs
from tests.stepTP.canaries import CANARIES


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("programs", type=Path, nargs="?")
    arguments.add_argument("report", type=Path)
    arguments.add_argument("--batch", type=int, default=16)
    arguments.add_argument("--canaries", action="store_true")
    arguments.add_argument("--targets", nargs="+", choices=("llvm", "cuda"), default=["llvm", "cuda"])
    options = arguments.parse_args()
    if options.canaries:
        return check_canaries(options.report, options.targets)
    if options.programs is None:
        arguments.error("PROGRAMS.jsonl is missing")
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
        on_gpu, quick = compile_cuda(programs, contraction=False), compile_nests(programs, "cuda")
    except CudaCompileError as error:
        if len(rows) > 1:
            return [result for row in rows for result in compare([row])]
        return [{"leir": rows[0]["leir"], "status": "failed", "message": str(error), "source": error.source}]
    results: list[dict[str, object]] = []
    for row, program, cuda, nests, llvm in zip(rows, programs, on_gpu, quick, compile_llvm(programs), strict=True):
        inputs = random_inputs(program, int(str(row.get("seed", 0))))
        found, wanted = cuda.new_buffers(inputs), llvm.new_buffers(inputs)
        again = [nests.new_buffers(inputs) for _ in range(3)]
        cuda.run(found)
        llvm.run(wanted)
        nests.run_each(again)
        outputs = [declaration.tensor for declaration in program.outputs]
        apart = differences(program, {n: wanted[n] for n in outputs}, {n: found[n] for n in outputs})
        if not all(same_bits(run[n], found[n]) for run in again for n in outputs):
            apart.append("other bits when compiled quickly")
        equal = all(same_bits(found[n], wanted[n]) for n in outputs)
        status = "differs" if apart else "equal" if equal else "close"
        results.append({"leir": row["leir"], "status": status, "message": "; ".join(apart)})
    return results


def check_canaries(report: Path, targets: list[str]) -> int:
    """Every canary and its twin, each target on its own and through the task of a worker."""
    results: list[dict[str, object]] = []
    with Pool(workers=1) as pool:
        asked = [
            (canary, kind, target, pool.submit("stepTP.verify.task.verify", payload, near=canary.source))
            for canary in CANARIES
            for kind, leir in (("twin", canary.twin), ("wrong", canary.wrong))
            for target in targets
            for payload in (
                {"source": {"id": "canary"}, "leir_source": canary.source, "leir": leir, "parent": None,
                 "bit_exact": False, "targets": [target], "draws": 1},
            )
        ]  # fmt: skip
        for canary, kind, target, future in asked:
            found = future.result()
            lost = isinstance(found, Failure) and found.kind != "refused"
            passed = not isinstance(found, Failure) and found["ok"]
            message = found.message if isinstance(found, Failure) else found["message"]
            right = not lost and passed == (kind == "twin")
            results.append({"canary": canary.name, "hole": canary.hole, "program": kind, "target": target,
                            "passed": passed, "right": right, "message": message})  # fmt: skip
    wrong = [result for result in results if not result["right"]]
    report.write_text(
        json.dumps({"verdicts": len(results), "not as they must be": wrong, "all": results}, indent=1) + "\n"
    )
    print(f"{len(CANARIES)} canaries with twins on {', '.join(targets)}: {len(wrong)} of {len(results)} verdicts wrong")
    for result in wrong:
        print(f"  {result['target']}: {result['program']} of {result['canary']!r}: {result['message'] or 'passes'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
