"""Steps judged by the thousand: each legal one keeps the meaning, replays from its JSON and can be told.

    python -m tests.strategies.judging --seed 7 --seconds 500 --legal 2000

walks over the patterns, the programs of the case files, disguised variants of them and random programs from a seed on
until either limit is reached, and prints for each strategy how many steps were legal and which facts refused the
others. It stops at the first wrong step. With `--only`, a few steps of other strategies lead from state to state, and
are not judged; with `--stress`, every step is judged on huge, zero, equal and denormal inputs too (`stress.py`), and
the walks begin from f16, bf16 and f64 versions of programs too. With `--families`, they begin from programs of
the source families instead, one family after the other, but for those whose outputs are not finite on the inputs drawn.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from leir.check import check
from leir.edit import with_dtypes
from leir.interp import interpret
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from stepTP.intake import translate
from stepTP.sources import draws, families
from strategies.base import Refused, usable
from strategies.catalog import names, print_step, strategies
from tests.programs import InputKind, keyed, random_inputs, random_program
from tests.strategies.cases import read_cases
from tests.strategies.disguises import disguised
from tests.strategies.meaning import why_not_same
from tests.strategies.stress import why_wrong_under_stress
from tests.strategies.walks import Trial, programs, walk

MOVERS = 6  # strategies that lead from state to state where others are looked at


def judge(name: str, trials: list[Trial], *, stress: bool = False) -> Counter[str]:
    """Asserts what holds for every trial, and counts them: by strategy, and by the fact that refused."""
    counts: Counter[str] = Counter()
    for trial in trials:
        step, outcome = trial.step, trial.outcome
        if isinstance(outcome, Refused):
            assert outcome.fact.evidence and not outcome.fact.holds
            counts[f"{step.name} refused, {outcome.fact.name}"] += 1
            continue
        problem = why_not_same(trial.program, step, outcome, name)
        assert not problem, f"{name}: {problem}"
        if stress and (problem := why_wrong_under_stress(trial.program, outcome, name)):
            shown = f"{print_step(step)} on\n{to_text(trial.program)}gives\n{to_text(outcome.program)}"
            raise AssertionError(f"{name}: {problem}: {shown}")
        assert all(fact.holds and fact.evidence for fact in outcome.facts)
        terms = step.terms(trial.program, outcome.program)
        assert all(usable(sentences, terms) for sentences in (step.choice, step.change, step.effect)), print_step(step)
        counts[f"{step.name} legal"] += 1
    return counts


def table(counts: Counter[str]) -> str:
    """The counts, a line a strategy, and its refusals by fact."""
    lines = [f"{sum(n for key, n in counts.items() if key.endswith(' legal')):7} legal steps"]
    for name in dict.fromkeys(key.split()[0] for key in sorted(counts)):
        start = f"{name} refused, "
        refused = {key.removeprefix(start): n for key, n in sorted(counts.items()) if key.startswith(start)}
        facts = ", ".join(f"{n} {fact}" for fact, n in refused.items())
        lines.append(f"{counts[f'{name} legal']:7} {name}; refused: {facts or 'none'}")
    return "\n".join(lines)


def starts(number: int, seed: int, stress: bool, looked_at: Sequence[str]) -> Iterator[tuple[str, Program]]:
    """The programs of one round: a random one, and a disguised variant of each strategy's pattern.

    Every tenth time the patterns and the programs of case files too.
    """
    found = [(f"{name}, variant {seed + number}", disguised(name, seed + number)[1].program) for name in looked_at]
    found.append((f"seed {seed + number}", random_program(seed + number)))
    if number % 10 == 0:
        cases = [(f"{name}: {case.title}", case.program()) for name in names() for case in read_cases(name)]
        found = [*programs(range(0)), *cases, *found]
    for name, program in found:
        yield name, program
        for dtype in ("f16", "bf16", "f64") if stress else ():
            other = with_dtypes(program, {"f32": dtype})
            if other != program and not check(other):
                yield f"{name} in {dtype}", other


def of_family(number: int, seed: int) -> Iterator[tuple[str, Program]]:
    """The `number`th program of the source families, one family after the other; none where it is left out."""
    every = families()
    family = every[number % len(every)].name
    *_, source = draws(family, seed, number // len(every) + 1)
    report = translate({"code": source.torch_code, "file": source.id, "check": False})
    if report["leir"] is None:
        sys.exit(f"{source.id} is not translated: {report['message']}")
    program = parse(report["leir"], source.id)
    kinds: tuple[InputKind, ...] = ("integers", "normal")
    found = [interpret(program, random_inputs(program, source.id, kind)) for kind in kinds]
    if all(np.all(np.isfinite(array.astype(np.float64))) for outputs in found for array in outputs.values()):
        yield source.id, program


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--seconds", type=float, default=500.0)
    arguments.add_argument("--legal", type=int, default=2000)
    arguments.add_argument("--each", type=int, default=2, help="steps of a strategy that are tried at a state")
    arguments.add_argument("--only", nargs="*", default=[], choices=names(), help="strategies that are looked at")
    arguments.add_argument("--stress", action="store_true")
    arguments.add_argument("--families", action="store_true")
    arguments.add_argument(
        "--first", type=int, default=0, help="the number of the first round: a family's, or a seed's"
    )
    options = arguments.parse_args()
    looked_at = options.only or names()
    others = [name for name in names() if name not in looked_at]
    end = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    tried = 0
    for number in range(options.first, options.first + options.legal):
        given = of_family(number, options.seed)
        if not options.families:
            given = starts(number, options.seed, options.stress, looked_at)
        for name, program in given:
            legal = sum(n for key, n in counts.items() if key.endswith(" legal"))
            if time.monotonic() > end or legal >= options.legal:
                print(f"{tried} programs from seed {options.seed}, {time.process_time():.0f} s of processor time")
                print(table(counts))
                return
            key = f"{options.seed} {number} {name}"
            movers = [*keyed("movers", key).sample(others, min(MOVERS, len(others)))]
            classes = tuple(cls for cls in strategies() if cls.name in movers or cls.name not in others)
            for trial in walk(key, program, classes, depth=4, each=options.each, once=movers):
                if trial.step.name not in others:
                    counts += judge(key, [trial], stress=options.stress)
            tried += 1


if __name__ == "__main__":
    main()
