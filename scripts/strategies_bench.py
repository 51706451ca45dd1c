"""Prints what the strategies do on the source families' programs, and how long it takes, strategy by strategy.

    python scripts/strategies_bench.py                                  # 4 programs a family, two steps deep
    python scripts/strategies_bench.py --per-family 1 --json strategies.json
    python scripts/strategies_bench.py --only apart together            # these alone, and walks of their steps

At each program, at the states that a walk of two steps from it leads to, and where the temporaries of the program are
inlined (one op of PyTorch is one nest, and identities need several), up to `--each` candidates of every strategy are
taken through `facts`, `rewrite`, the facts of any step and `terms`. Times are processor time a step in
milliseconds: of all candidates of a state, of the facts (value flow included) and the rewrite, and of the whole step.
The programs are translated first, which is not counted. Whatever is raised but a refusal ends in the list of crashes.
"""

import argparse
import gc
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from leir.edit import walk
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Equation, Program
from stepTP.draw import uniform
from stepTP.intake import translate
from stepTP.sources import families, generate
from strategies.base import Applied, Refused, Strategy
from strategies.catalog import names, print_step, strategies
from strategies.graph.compute_inline import ComputeInline

STEPS = 2  # from a program to the last of its states
INLINED = 24  # temporaries at most
WANTED = 5  # families in which a strategy must have legal steps
MOST_MS = 200.0  # that any stage of one step may take, and half of them a tenth of it
MEDIAN_MS = 20.0
STAGES = ("candidates", "facts", "rewrite", "facts+rewrite", "apply", "terms")


class Figures:
    """What was counted and timed, all by strategy."""

    def __init__(self, only: Sequence[str]) -> None:
        self.strategies = [cls for cls in strategies() if cls.name in only]
        self.states = 0
        self.candidates: Counter[str] = Counter()
        self.legal: Counter[str] = Counter()
        self.refused: dict[str, Counter[str]] = defaultdict(Counter)
        self.families: dict[str, Counter[str]] = defaultdict(Counter)
        self.times: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.slowest: dict[tuple[str, str], tuple[float, str]] = {}
        self.crashes: list[str] = []

    def timed(self, name: str, stage: str, at: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        try:
            return work()
        finally:
            self.took(name, stage, at, 1000 * (time.process_time() - start))

    def took(self, name: str, stage: str, at: str, ms: float) -> None:
        self.times[name, stage].append(ms)
        self.slowest[name, stage] = max(self.slowest.get((name, stage), (0.0, "")), (ms, at))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--per-family", type=int, default=4)
    arguments.add_argument("--each", type=int, default=2, help="candidates of a strategy that are tried at a state")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--families", nargs="*", default=[family.name for family in families()])
    arguments.add_argument("--only", nargs="+", default=names(), choices=names(), metavar="STRATEGY")
    arguments.add_argument("--seconds", type=float, help="stop taking up new programs after so long")
    arguments.add_argument("--json", type=Path, help="writes all figures there")
    options = arguments.parse_args()
    figures, end = Figures(options.only), time.monotonic() + (options.seconds or float("inf"))
    sources = generate(options.families, options.seed, options.per_family)
    sources = sorted(sources, key=lambda source: [s.id for s in sources if s.family == source.family].index(source.id))
    done = 0
    for source in sources:  # one of each family, then the next of each
        if time.monotonic() > end:
            break
        report = translate({"code": source.torch_code, "file": source.id, "check": False})
        if report["leir"] is None:
            sys.exit(f"{source.id} is not translated: {report['message']}")
        gc.collect()
        gc.freeze()  # what translating leaves behind is not for a step to look through
        try_states(figures, source.family, source.id, parse(report["leir"]), options.each)
        done += 1
    print(f"{done} programs of {len(options.families)} families, {figures.states} states\n")
    print("\n".join(table(figures)))
    print("\n".join(["", *spread(figures, options.families)]))
    if options.json:
        options.json.write_text(json.dumps(as_json(figures), indent=1) + "\n", encoding="utf-8")
    if figures.crashes:
        sys.exit("\n".join([f"{len(figures.crashes)} crashes", *figures.crashes]))


def try_states(figures: Figures, family: str, name: str, program: Program, each: int) -> None:
    """All strategies are tried at the program, at the states after one step and two, and at that with all inlined."""
    whole = inlined(program)
    if whole != program:
        try_state(figures, family, name, whole, each)
    for depth in range(STEPS + 1):
        legal = try_state(figures, family, name, program, each)
        if not legal:
            return
        _, program = min(legal, key=lambda pair: uniform(name, depth, print_step(pair[0])))


def try_state(figures: Figures, family: str, name: str, program: Program, each: int) -> list[tuple[Strategy, Program]]:
    """All strategies are tried at a state: the legal steps, and where they lead."""
    figures.states += 1
    legal: list[tuple[Strategy, Program]] = []
    for cls in figures.strategies:
        for step, applied in tried(figures, cls, program, name, each):
            figures.families[cls.name][family] += 1
            legal.append((step, applied.program))
    return legal


def inlined(program: Program) -> Program:
    """The program after up to `INLINED` steps of compute_inline, each the first that is legal."""
    for _ in range(INLINED):
        after = next(legal_inlines(program), None)
        if after is None:
            break
        program = after
    return program


def legal_inlines(program: Program) -> Iterator[Program]:
    for step in ComputeInline.candidates(program):
        try:
            yield step.apply(program).program
        except Refused:
            continue


def tried(
    figures: Figures, cls: type[Strategy], program: Program, name: str, each: int
) -> Iterator[tuple[Strategy, Applied]]:
    """The legal ones of up to `each` candidates of a strategy, drawn by their text."""
    shown = f"{cls.name} on {name}:\n{to_text(program)}"
    size = sum(isinstance(node, Equation) for _, node in walk(program))
    here = f"{name}, {size} equations"
    try:
        steps = figures.timed(cls.name, "candidates", here, lambda: list(cls.candidates(program)))
    except Exception as crash:  # a report of crashes
        figures.crashes.append(f"{type(crash).__name__}: {crash}, candidates of {shown}")
        return
    figures.candidates[cls.name] += len(steps)
    for step in sorted(steps, key=lambda step: uniform(name, print_step(step)))[:each]:
        at = f"{print_step(step)} on {here}"
        try:
            start = time.process_time()
            facts = figures.timed(cls.name, "facts", at, lambda step=step: held(step, program))
            if facts:
                figures.timed(cls.name, "rewrite", at, lambda step=step: step.rewrite(program))
                figures.took(cls.name, "facts+rewrite", at, 1000 * (time.process_time() - start))
            applied = figures.timed(cls.name, "apply", at, lambda step=step: step.apply(program))
            figures.timed(cls.name, "terms", at, lambda step=step, a=applied: step.terms(program, a.program))
        except Refused as refused:
            figures.refused[cls.name][refused.fact.name] += 1
        except Exception as crash:  # a report of crashes
            figures.crashes.append(f"{type(crash).__name__}: {crash}, {print_step(step)}, {shown}")
        else:
            figures.legal[cls.name] += 1
            yield step, applied


def held(step: Strategy, program: Program) -> bool:
    """Whether every fact of the strategy's own holds."""
    return all(fact.holds for fact in step.facts(program))


def quantiles(times: list[float]) -> str:
    """`median / 95th percentile / largest`."""
    ordered = sorted(times) or [0.0]
    return f"{median(ordered):.1f} / {ordered[int(0.95 * (len(ordered) - 1))]:.1f} / {ordered[-1]:.1f}"


def table(figures: Figures) -> Iterator[str]:
    yield "Milliseconds are median / 95th percentile / largest."
    yield ""
    yield f"| strategy | families | candidates | tried | legal | {' | '.join(f'{stage} ms' for stage in STAGES)} |"
    yield "|---" * (5 + len(STAGES)) + "|"
    for cls in figures.strategies:
        name = cls.name
        times = " | ".join(quantiles(figures.times[name, stage]) for stage in STAGES)
        legal, refused = figures.legal[name], figures.refused[name].total()
        counts = f"{len(figures.families[name])} | {figures.candidates[name]} | {legal + refused} | {legal}"
        yield f"| {name} | {counts} | {times} |"
    yield ""
    for cls in figures.strategies:
        refused_by = ", ".join(f"{n} {fact}" for fact, n in sorted(figures.refused[cls.name].items()))
        yield f"{cls.name}: refused by {refused_by or 'no fact'}"
    yield ""
    slow: dict[str, None] = {}
    for (name, stage), times in sorted(figures.times.items()):
        if times and (median(times) > MEDIAN_MS or max(times) > MOST_MS):
            slow[name] = None
            took, at = figures.slowest[name, stage]
            yield f"slow: {stage} of {name}, {median(times):.0f} ms in the median, {took:.0f} ms at most: {at}"
    yield f"{len(slow)} of {len(figures.strategies)} over {MEDIAN_MS:.0f} ms in the median, or {MOST_MS:.0f} ms at most"


def spread(figures: Figures, every_family: list[str]) -> Iterator[str]:
    """Legal steps by family (down) and strategy (across, numbered)."""
    every = [cls.name for cls in figures.strategies]
    yield "Legal steps by family, of all states; columns: " + ", ".join(f"{n} {s}" for n, s in enumerate(every))
    yield ""
    yield "| family | " + " | ".join(str(number) for number in range(len(every))) + " |"
    yield "|---" * (len(every) + 1) + "|"
    for family in every_family:
        yield f"| {family} | " + " | ".join(str(figures.families[name][family]) for name in every) + " |"
    few = [name for name in every if sum(n > 0 for n in figures.families[name].values()) < WANTED]
    yield ""
    yield f"in fewer than {WANTED} families: {', '.join(few) or 'none'}"


def as_json(figures: Figures) -> dict[str, Any]:
    return {
        cls.name: {
            "candidates": figures.candidates[cls.name],
            "legal": figures.legal[cls.name],
            "refused": dict(sorted(figures.refused[cls.name].items())),
            "families": dict(sorted(figures.families[cls.name].items())),
            "ms": {stage: sorted(ms) for (name, stage), ms in figures.times.items() if name == cls.name},
        }
        for cls in figures.strategies
    }


if __name__ == "__main__":
    main()
