"""Steps judged by the thousand: each legal one keeps the meaning, replays from its JSON and can be told.

    python -m tests.strategies.judging --seed 7 --seconds 500 --legal 2000

walks over the patterns and random programs from a seed on until either limit is reached, and prints for each strategy
how many steps were legal and which facts refused the others. It stops at the first wrong step.
"""

import argparse
import time
from collections import Counter

from strategies.base import Refused, usable
from strategies.catalog import names, print_step, strategies
from tests.programs import random_program
from tests.strategies.meaning import why_not_same
from tests.strategies.walks import Trial, programs, walk


def judge(name: str, trials: list[Trial]) -> Counter[str]:
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
        assert all(fact.holds and fact.evidence for fact in outcome.facts)
        terms = step.terms(trial.program, outcome.program)
        assert all(usable(sentences, terms) for sentences in (step.choice, step.change, step.effect)), print_step(step)
        counts[f"{step.name} legal"] += 1
    return counts


def table(counts: Counter[str]) -> str:
    """The counts, a line a strategy, and its refusals by fact."""
    lines = [f"{sum(n for key, n in counts.items() if key.endswith(' legal')):7} legal steps"]
    for name in names():
        start = f"{name} refused, "
        refused = {key.removeprefix(start): n for key, n in sorted(counts.items()) if key.startswith(start)}
        facts = ", ".join(f"{n} {fact}" for fact, n in refused.items())
        lines.append(f"{counts[f'{name} legal']:7} {name}; refused: {facts or 'none'}")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--seconds", type=float, default=500.0)
    arguments.add_argument("--legal", type=int, default=2000)
    options = arguments.parse_args()
    end = time.monotonic() + options.seconds
    counts: Counter[str] = Counter()
    tried = 0
    for number in range(options.legal):
        patterns = list(programs(range(0))) if number % 10 == 0 else []
        for name, program in [*patterns, (f"seed {options.seed + number}", random_program(options.seed + number))]:
            if time.monotonic() > end or sum(n for key, n in counts.items() if key.endswith(" legal")) >= options.legal:
                print(f"{tried} programs from seed {options.seed}, {time.process_time():.0f} s of processor time")
                print(table(counts))
                return
            key = f"{options.seed} {number} {name}"
            for trial in walk(key, program, strategies(), depth=4, each=2):
                counts += judge(key, [trial])
            tried += 1


if __name__ == "__main__":
    main()
