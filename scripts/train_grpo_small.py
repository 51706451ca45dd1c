"""GRPO of a decoder that `scripts/train_small.py` trained, with the verifier as its reward, on one GPU.

    python scripts/train_grpo_small.py runs/small --model models/small --out models/small-grpo --seconds 600

An answer earns for being parsed, well-formed, legal and equal, each only after those before it; and, with `--timed N`,
for speed: of N states a round, what is equal is timed beside its state, on a machine that does nothing else then. No
speed counts without equality. Worker processes score on the CPU's cores. It goes on from `--out` where that has a
checkpoint, which is written every minute, with a line a round in `history.jsonl`. `steptp eval single` judges what
`scripts/train_small.py --answers` then writes from `--out`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from stepTP.evaluate.questions import EvaluationError
from stepTP.learn.course import SAVE_S
from stepTP.learn.decoding import Automaton, Seen
from stepTP.learn.examples import Form, examples_of
from stepTP.learn.reinforcement import GrpoPlan, Reinforcement
from stepTP.learn.training import Trainer, device_here
from stepTP.learn.trial import CANNOT_LEARN, read_parts
from stepTP.manifest import write_whole
from stepTP.rewards.shaping import Shaping
from stepTP.verify.scorer import Scorer


def main() -> None:
    options = arguments()
    place = options.out if (options.out / "checkpoint.pt").is_file() else options.model
    if not (place / "checkpoint.pt").is_file():
        raise EvaluationError(f"{place}: no checkpoint: train one with scripts/train_small.py")
    with Scorer(options.workers, timeout_s=60.0) as scorer:
        trainer = Trainer.load(place, options.device or device_here())
        parts = read_parts(options.run, seed=options.seed)
        form = Form(program=not options.step_only)
        known = [row for row in parts.learnt if row.strategy in trainer.vocabulary.arguments]
        examples = examples_of(known, trainer.vocabulary, form)
        automaton = Automaton(trainer.vocabulary, options.decoding, form.program, Seen(examples, trainer.vocabulary))
        plan = GrpoPlan(
            states=options.states, samples=options.samples, rate=options.rate, temperature=options.temperature,
            timed=options.timed, most=options.most, seed=options.seed, shaping=Shaping(shared=options.shared),
        )  # fmt: skip
        practice = parts.practice(None, options.seed, form.program)
        run = Reinforcement(trainer.model, trainer.vocabulary, automaton, practice, scorer, plan)
        options.out.mkdir(parents=True, exist_ok=True)
        file = options.out / "history.jsonl"
        if place == options.out and file.is_file():
            run.go_on([json.loads(line) for line in file.read_text().splitlines()], trainer.optimiser)
        trainer.optimiser = run.optimiser
        saved = time.monotonic()

        def keep() -> None:
            nonlocal saved
            trainer.save(options.out)
            write_whole(file, "".join(json.dumps(entry) + "\n" for entry in run.history).encode())
            saved = time.monotonic()

        def told(entry: object) -> None:
            print(json.dumps(entry), flush=True)
            if time.monotonic() - saved >= SAVE_S:
                keep()

        run.run(options.seconds, None if options.rounds is None else len(run.history) + options.rounds, told)
        keep()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, or a file of its rows")
    parser.add_argument("--model", type=Path, required=True, help="the folder of a trained decoder")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the decoder after")
    parser.add_argument("--seconds", type=float, help="of this slice")
    parser.add_argument("--rounds", type=int, help="of this slice")
    parser.add_argument("--states", type=int, default=32, help="a round")
    parser.add_argument("--samples", type=int, default=8, help="answers to each state")
    parser.add_argument("--timed", type=int, default=0, help="states a round whose answers are timed")
    parser.add_argument("--shared", action="store_true", help="answers of one strategy share what equality adds")
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--most", type=int, default=320, help="tokens of an answer, at most")
    parser.add_argument("--decoding", choices=("free", "schema", "leir"), default="schema")
    parser.add_argument("--step-only", action="store_true", help="the decoder answers the step alone")
    parser.add_argument("--workers", type=int, help="processes that score; one a core by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    options = parser.parse_args()
    if options.seconds is None and options.rounds is None:
        parser.error("give --seconds or --rounds")
    return options


if __name__ == "__main__":
    try:
        main()
    except CANNOT_LEARN as error:
        sys.exit(f"train_grpo_small: {error}")
