"""Prints the figures that the README quotes, from a run: what its rows are and what they cost in tokens.

    python scripts/bench.py runs/quickstart

Needs the extra `tokens` and a built run. Programs are every distinct state of the run, each counted once.
"""

import sys
from pathlib import Path
from statistics import mean

from leir.lowering import cuda_source, tir_text, tvmscript_sblocks
from leir.parser import parse
from stepTP.records import ProgramRow, StepRow, read_rows
from stepTP.tokens import count_tokens


def states(run: Path) -> list[str]:
    """The text of every source program and of every state after a step, each state once, in order of the shards."""
    found: dict[str, str] = {}
    for shard in sorted((run / "raw").glob("*.jsonl")):
        for row in read_rows(shard):
            match row:
                case ProgramRow():
                    found.setdefault(row.state_id, row.leir)
                case StepRow():
                    found.setdefault(row.state_id_after, row.leir_after)
                case _:
                    pass
    return list(found.values())


def main() -> None:
    texts = states(Path(sys.argv[1]))
    if not texts:
        sys.exit(f"{sys.argv[1]} holds no programs: build it first")
    programs = [parse(text) for text in texts]
    own = mean(count_tokens(text) for text in texts)
    print(f"{len(texts)} programs, {own:.0f} tokens of compact LEIR on average")
    for name, spell in (
        ("plain-loop TIR", tir_text),
        ("TVMScript with SBlocks", tvmscript_sblocks),
        ("CUDA source", cuda_source),
    ):
        other = mean(count_tokens(spell(program)) for program in programs)
        print(f"{100 * (1 - own / other):.1f}% fewer than {name} ({other:.0f})")


if __name__ == "__main__":
    main()
