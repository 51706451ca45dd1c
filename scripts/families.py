"""Prints what each family of source programs gives: how many programs differ, and what intake makes of them.

    python scripts/families.py                          # all families: twenty minutes of one core
    python scripts/families.py softmax scans --checked 40 --workers 1
    python scripts/families.py --judged 0 --checked 0   # without PyTorch: a minute

Of `--draws` draws of each family: *programs a second* of one core's processor time; *distinct* programs, by their
normal form (names numbered, sizes and docstrings left out); their *entropy* in bits, 0 where all draws are one program
and 10 where a thousand are all different. Of `--judged` of the distinct, which all run under PyTorch: how many intake
*refuses* as degenerate (a constant output, an input that nothing depends on). Of `--checked`: how many translations
compute what their modules do, and how many *structures* these have in LEIR.
"""

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from stepTP.sources import SourceProgram, draws, families
from stepTP.sources.normal import normal_form
from stepTP.verify.pool import Failure, Pool

PAGE = Path(__file__).parent.parent / "stepTP" / "sources" / "README.md"
HEAD = "| family | programs/s | drawn | distinct | entropy | refused |"
TRANSLATE = "stepTP.intake.translate"
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one family: counts of the programs that were `drawn`, `judged` and `checked`; `refused` by cause."""

    family: str
    per_second: float
    drawn: int
    distinct: int
    entropy: float
    judged: int
    refused: dict[str, int]
    checked: int
    verified: int
    structures: int
    problems: tuple[str, ...]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("family", nargs="*", help="all where none is named")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--draws", type=int, default=1_000)
    arguments.add_argument("--judged", type=int, default=1_000)
    arguments.add_argument("--checked", type=int, default=10)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--write", type=Path, help="the figures as JSON")
    arguments.add_argument("--page", action="store_true", help=f"puts the table at the end of {PAGE.name}")
    options = arguments.parse_args()
    known = [family.name for family in families()]
    if unknown := sorted(set(options.family) - set(known)):
        sys.exit(f"no family {', '.join(unknown)}; there are {', '.join(known)}")
    if options.draws < 1 or options.judged < 0 or options.checked < 0 or options.workers < 1:
        sys.exit("--draws and --workers must be at least 1, --judged and --checked at least 0")
    names = options.family or known
    with Pool(options.workers, TIMEOUT_S) as pool:
        found = [
            figures(name, options.seed, options.draws, options.judged, options.checked, pool)
            for name in tqdm(names, disable=None)
        ]
    if options.write:
        rows = [{name: getattr(each, name) for name in Figures.__slots__} for each in found]
        options.write.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    lines = "\n".join(table(found))
    if options.page:
        text, *_ = PAGE.read_text(encoding="utf-8").partition(HEAD)
        PAGE.write_text(f"{text.rstrip()}\n\n{lines}\n", encoding="utf-8")
    print(lines)
    for each in found:
        for problem in each.problems:
            print(f"- {problem}")


def figures(family: str, seed: int, drawn: int, judged: int, checked: int, pool: Pool) -> Figures:
    """What `drawn` draws of a family give, and what becomes of the first programs that differ."""
    start = time.process_time()
    programs = list(draws(family, seed, drawn))
    took = time.process_time() - start
    by_form: dict[str, list[SourceProgram]] = {}
    for program in programs:
        by_form.setdefault(normal_form(program.torch_code), []).append(program)
    distinct = [same[0] for same in by_form.values()]
    refused, problems = judgements(distinct[:judged])
    answers = list(_translated(distinct[:checked], pool))
    problems += [f"{name}: {a['message']}" for name, a in answers if a["status"] not in ("verified", "refused")]
    verified = [answer for _, answer in answers if answer["status"] == "verified"]
    return Figures(
        family=family,
        per_second=drawn / took if took else float("inf"),
        drawn=drawn,
        distinct=len(distinct),
        entropy=entropy([len(same) for same in by_form.values()]),
        judged=len(distinct[:judged]),
        refused=refused,
        checked=len(answers),
        verified=len(verified),
        structures=len({answer["structure"] for answer in verified}),
        problems=tuple(problems),
    )


def entropy(counts: Sequence[int]) -> float:
    """In bits, of draws that fell so often on each program."""
    total = sum(counts)
    return sum(count / total * math.log2(total / count) for count in counts)


def judgements(programs: Sequence[SourceProgram]) -> tuple[dict[str, int], list[str]]:
    """How many programs intake refuses, by cause, and what was raised by those that do not run."""
    if not programs:
        return {}, []
    import torch

    from stepTP.frontend import in_dtype, load_text
    from stepTP.frontend.reference import degenerate

    causes: Counter[str] = Counter()
    raised: list[str] = []
    for program in programs:
        try:
            loaded = load_text(program.torch_code, program.id)
            found = degenerate(*in_dtype(torch.float64, loaded.module, loaded.inputs))
        except Exception as error:  # a report of programs that do not run
            raised.append(f"{program.id}: {type(error).__name__}: {error}")
        else:
            causes.update([found.cause] if found else [])
    return dict(sorted(causes.items())), raised


def _translated(programs: Sequence[SourceProgram], pool: Pool) -> Iterator[tuple[str, dict[str, Any]]]:
    asked = [pool.submit(TRANSLATE, {"code": each.torch_code, "file": each.id}) for each in programs]
    for program, future in zip(programs, asked, strict=True):
        answer = future.result()
        failed = isinstance(answer, Failure)
        yield program.id, {"status": "error", "message": answer.message} if failed else answer


def table(found: Sequence[Figures]) -> Iterator[str]:
    """The figures as a Markdown table."""
    yield f"{HEAD} verified | structures |"
    yield "|---|---|---|---|---|---|---|---|"
    for each in found:
        yield (
            f"| {each.family} | {each.per_second:,.0f} | {each.drawn} | {each.distinct} | {each.entropy:.1f} "
            f"| {share(each)} | {each.verified} of {each.checked} | {each.structures} |"
        )
    drawn, distinct, judged, verified, checked = (
        sum(getattr(each, name) for each in found) for name in ("drawn", "distinct", "judged", "verified", "checked")
    )
    refused = sum(sum(each.refused.values()) for each in found)
    yield f"| {len(found)} families | | {drawn} | {distinct} | | {refused} of {judged} | {verified} of {checked} | |"


def share(each: Figures) -> str:
    """The refused of the judged, in per cent, with their causes."""
    if not each.refused:
        return "0%" if each.judged else ""
    causes = ", ".join(f"{count} {cause}" for cause, count in each.refused.items())
    return f"{sum(each.refused.values()) / each.judged:.1%}: {causes}"


if __name__ == "__main__":
    main()
