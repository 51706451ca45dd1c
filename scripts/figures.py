"""Prints the figures that the README quotes, measured on a built run, and writes them there if asked.

    python scripts/figures.py runs/quickstart
    python scripts/figures.py runs/quickstart --bench bench.json --write-readme

The run must be whole and the extra `tokens` installed. Tokens are means over every distinct program of the run, each
counted once. Times are the best of three runs of the command. `bench.json` is what `scripts/bench.py --json` wrote on
the same machine.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from leir.lowering import cuda_source, tir_text, tvmscript_sblocks
from leir.parser import parse
from stepTP.records import ProgramRow, Row, StepRow, read_rows
from stepTP.tokens import count_tokens

README = Path(__file__).parent.parent / "README.md"
STEPTP = [sys.executable, "-m", "stepTP.cli"]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("run", type=Path)
    arguments.add_argument("--bench", type=Path, help="adds the throughput that bench.py measured")
    arguments.add_argument("--write-readme", action="store_true")
    options = arguments.parse_args()
    files = [options.run / f"{name}.jsonl" for name in ("programs", "steps")]
    if missing := [file for file in files if not file.is_file()]:
        sys.exit(f"{missing[0]} is not there: build the run first")
    rows = [row for file in files for row in read_rows(file)]
    steps = [row for row in rows if isinstance(row, StepRow)]
    if not steps:
        sys.exit(f"{options.run} holds no steps: build it first")
    throughput = ["", *bench(json.loads(options.bench.read_text(encoding="utf-8")))] if options.bench else []
    figures = "\n".join([*kept(steps), "", *tokens(rows), "", *times(options.run, rows), *throughput])
    print(figures)
    if options.write_readme:
        shown = subprocess.run([*STEPTP, "show", f"{options.run}#{example(steps).id}"], capture_output=True, check=True)
        text = README.read_text(encoding="utf-8")
        text = between(text, "row", f"```text\n{shown.stdout.decode()}```")
        README.write_text(between(text, "figures", figures), encoding="utf-8")


def kept(steps: list[StepRow]) -> Iterator[str]:
    """How many rows each strategy has, from how many families, and how many claim equal bits."""
    yield "| strategy | verified rows | families | bit for bit |"
    yield "|---|---|---|---|"
    for name, count in sorted(Counter(row.strategy for row in steps).items()):
        own = [row for row in steps if row.strategy == name]
        families = len({row.source.family for row in own})
        yield f"| `{name}` | {count} | {families} | {sum(row.bit_exact for row in own)} |"


def tokens(rows: list[Row]) -> Iterator[str]:
    """What compact LEIR costs in tokens beside the other texts of the same programs."""
    found: dict[str, str] = {}
    for row in rows:
        match row:
            case ProgramRow():
                found.setdefault(row.state_id, row.leir)
            case StepRow():
                found.setdefault(row.state_id_after, row.leir_after)
            case _:
                pass
    programs = [parse(text) for text in found.values()]
    own = mean(count_tokens(text) for text in found.values())
    yield f"| tokens a program ({len(found)} programs) | mean | compact LEIR takes |"
    yield "|---|---|---|"
    yield f"| compact LEIR | {own:.0f} | |"
    for name, spell in (
        ("TIR, plain loops", tir_text),
        ("TVMScript with SBlocks", tvmscript_sblocks),
        ("CUDA source, kernels only", cuda_source),
    ):
        other = mean(count_tokens(spell(program)) for program in programs)
        yield f"| {name} | {other:.0f} | {100 * (1 - own / other):.0f}% fewer |"


def bench(report: dict[str, Any]) -> Iterator[str]:
    """How fast programs are verified, from the report of bench.py."""
    run, plain = report["whole"], report["plain_tvm"]
    yield f"| verification ({report['machine']['cores']} cores, {', '.join(report['targets'])}) | |"
    yield "|---|---|"
    yield f"| states a second, from PyTorch to verdict | {report['states_per_second']} |"
    yield f"| processor time a state, start-up of workers too | {run['cpu_ms']:.0f} ms |"
    yield f"| plain `tvm.compile`, a run and `allclose`: states a second | {plain['states_per_second']} |"
    yield f"| times plain TVM | {report['ratio_to_plain_tvm']} |"


def times(run: Path, rows: list[Row]) -> Iterator[str]:
    """How long commands take, start-up included."""
    yield "| command | seconds |"
    yield "|---|---|"
    with TemporaryDirectory() as folder:
        texts = [row.leir for row in rows if isinstance(row, ProgramRow)]
        files = [Path(folder) / f"{number:03}.leir" for number in range(100)]
        for number, file in enumerate(files):
            file.write_text(texts[number % len(texts)], encoding="utf-8")
        for shown, command, attempts in (
            ("steptp --help", ["--help"], 3),
            ("steptp strategies list", ["strategies", "list"], 3),
            ("steptp check, 100 files", ["check", *map(str, files)], 3),
            ("steptp replay, every row of the run", ["replay", str(run)], 1),
            ("steptp verify, every row of the run", ["verify", str(run)], 1),
        ):
            yield f"| `{shown}` | {min(seconds(command) for _ in range(attempts)):.1f} |"


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run([*STEPTP, *command], capture_output=True, check=True)
    return time.perf_counter() - start


def example(steps: list[StepRow]) -> StepRow:
    """The shortest first step that takes a softmax in one pass."""
    own = [row for row in steps if row.strategy == "online_softmax" and row.depth == 1]
    return min(own, key=lambda row: (len(row.leir_before), row.id))


def between(text: str, name: str, new: str) -> str:
    """The text with what stands between the markers of `name` replaced."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    found = re.search(f"{begin}\n.*?{end}", text, re.DOTALL)
    if found is None:
        sys.exit(f"{README} has no place for the {name}")
    return text[: found.start()] + f"{begin}\n{new}\n{end}" + text[found.end() :]


if __name__ == "__main__":
    main()
