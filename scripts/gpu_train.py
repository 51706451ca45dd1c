"""What small decoders learn from a run in minutes of one GPU, against controls, and what reinforcement moves.

    PYTHONPATH=. python scripts/gpu_train.py runs/small --seconds 560  # again and again, until it says: done

One decoder learns to reason and answer, on the rows of families that are not held out, and answers at states of those
that are; beside it the same untrained, without reasoning, on answers of other states, and with states shown as TIR.
Then GRPO of the first. Each call does what is left, for `--seconds`; its state lies in `--folder`. To $OUT (or `--out`)
go few small files: train.json (every figure, with 95% intervals by program, for all and by held-out family),
answers.jsonl.gz, and weights in bf16 in parts, of the first decoder or, once there is one, of that after GRPO. Where
the folder is lost, `--restore` goes on from these, or from the parts alone; with `--stages grpo`, GRPO does.
"""

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepTP.export.programs import spelled
from stepTP.learn.carrying import TOLD, deliver, restore
from stepTP.learn.course import ORDER, Course, Settings
from stepTP.learn.examples import Example, Form, example
from stepTP.learn.trial import CANNOT_LEARN, read_parts
from stepTP.learn.vocabulary import Vocabulary
from stepTP.records import Step, StepRow
from stepTP.verify.scorer import Scorer


class Encoders:
    """Processes that make examples; forked before any thread is started and any GPU is used."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.pool: Any = multiprocessing.get_context("fork").Pool(count)

    def __call__(
        self, rows: Sequence[StepRow], vocabulary: Vocabulary, form: Form, shown: Mapping[str, str] | None
    ) -> list[Example]:
        entries = [
            (r.leir_before, shown[r.leir_before] if shown else "", r.strategy, r.args, r.leir_after, r.reasoning)
            for r in rows
        ]
        size = max(1, len(entries) // (4 * self.count) + 1)
        parts = [(entries[n : n + size], vocabulary.to_json(), form) for n in range(0, len(entries), size)]
        return [one for part in self.pool.imap(_encoded, parts) for one in part]


def _encoded(part: tuple[list[tuple[Any, ...]], dict[str, Any], Form]) -> list[Example]:
    entries, words, form = part
    vocabulary = Vocabulary.from_json(words)
    return [
        example(before, shown or before, Step(strategy=strategy, args=args), after, reasoning, vocabulary, form)
        for before, shown, strategy, args, after, reasoning in entries
    ]


def main() -> None:
    ends = time.monotonic()
    options = arguments()
    ends += options.seconds
    encoders = Encoders(options.encoders)
    settings = Settings(
        train_s=options.train, grpo_s=options.reinforce, stages=tuple(options.stages), pupil=options.pupil,
        size=options.size, questions=options.questions, batch_tokens=options.batch_tokens, longest=options.longest,
        most=options.most, states=options.states, samples=options.samples, programs=options.programs,
        shared=options.shared, steps=options.steps, device=options.device, workers=options.workers,
    )  # fmt: skip
    parts = read_parts(options.run, limit=options.rows, more=options.more)
    scorer = Scorer(options.workers, timeout_s=60.0)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.restore and not (options.folder / TOLD).is_file():
        restore(options.restore, options.folder, settings.pupil)
    course = Course(
        options.folder, parts, settings, scorer, encoders, lambda states: spelled(states, "tir", options.workers), ends
    )
    course.told["about"] = {
        "run": options.run.name, "more": [run.name for run in options.more],
        "rows": len(parts.learnt), "programs": len({r.source.id for r in parts.learnt}),
        "held_out_families": parts.families, "held_out_programs": len({r.source.id for r in parts.held_out}),
        "questions": len(course.questions), "size": options.size, "device": options.device, "cores": os.cpu_count(),
        "decoding": "schema, greedy; samples: temperature 0.8", "train_s": options.train, "grpo_s": options.reinforce,
        "shared": options.shared,
    }  # fmt: skip
    done = False
    try:
        done = course.run()
    finally:
        deliver(options.folder, options.out, settings.pupil)
        course.close()
        encoders.pool.terminate()
    scorer.close()
    print("done" if done else "not done: give the same command again", flush=True)
    os._exit(0 if done else 3)  # scores that are still asked for come again


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, or a file of its rows")
    parser.add_argument("--more", type=Path, nargs="+", default=(), metavar="RUN", help="runs to learn from, too")
    parser.add_argument("--folder", type=Path, default=Path("runs/gpu_train"), help="where the course is kept")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/gpu_train_out")))
    parser.add_argument("--seconds", type=float, default=560.0, help="of this call")
    parser.add_argument("--train", type=float, default=840.0, help="seconds of training of all decoders together")
    parser.add_argument("--reinforce", type=float, default=360.0, help="seconds of GRPO")
    parser.add_argument("--stages", nargs="*", choices=ORDER, default=ORDER)
    parser.add_argument("--pupil", choices=("reasoning", "leir"), default="reasoning", help="whom GRPO goes on from")
    parser.add_argument("--size", default="small")
    parser.add_argument("--questions", type=int, default=256, help="states of held-out families")
    parser.add_argument("--rows", type=int, help="so many rows to learn from")
    parser.add_argument("--steps", type=int, help="at most so many steps of each decoder")
    parser.add_argument("--batch-tokens", type=int, default=32768)
    parser.add_argument("--longest", type=int, default=1536, help="tokens of an example")
    parser.add_argument("--states", type=int, default=32, help="of a round of GRPO")
    parser.add_argument("--samples", type=int, default=8, help="answers to each of them")
    parser.add_argument("--programs", type=int, default=96, help="whose states GRPO practises on")
    parser.add_argument("--shared", action="store_true", help="answers of one strategy share what equality adds")
    parser.add_argument("--most", type=int, default=1000, help="tokens of an answer, at most")
    parser.add_argument("--workers", type=int, help="processes that score; one a core by default")
    parser.add_argument("--encoders", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--restore", type=Path, help="a folder with what such a call wrote to --out")
    return parser.parse_args()


if __name__ == "__main__":
    try:
        main()
    except CANNOT_LEARN as error:
        sys.exit(f"gpu_train: {error}")
