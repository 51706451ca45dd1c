"""Trains a decoder from scratch on a run's rows, on one GPU (or slowly on a CPU); no download.

    python scripts/train_small.py runs/small --out models/small --seconds 600 --budget 1200
    python scripts/train_small.py runs/small --out models/small --seconds 600            # the next slice
    python scripts/train_small.py runs/small --out models/small --seconds 0 --answers 200
    steptp eval single runs/small --held-out family --answers models/small/replies.jsonl --out evaluation

A slice ends after `--seconds`, and the next goes on from its checkpoint, to the end of `--budget`. `--answers` writes
the replies to states of families that are held out. stepTP/learn/README.md says what is learnt, and how.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from stepTP.evaluate.questions import EvaluationError
from stepTP.export.programs import spelled
from stepTP.learn.decoding import Automaton, Seen
from stepTP.learn.examples import Form, examples_of, with_other_answers
from stepTP.learn.model import SIZES, Shape
from stepTP.learn.training import Plan, Trainer, device_here
from stepTP.learn.trial import CANNOT_LEARN, read_parts, replies_of, vocabulary_of


def main() -> None:
    options = arguments()
    form = Form(program=not options.step_only, reasoning=options.reasoning, spelling=options.spelling)
    filtered = not options.unfiltered
    parts = read_parts(options.run, seed=options.seed, limit=options.rows, filtered=filtered, more=options.more)
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"{len(parts.learnt)} rows to learn from; held out: {', '.join(parts.families)}")
    states = [row.leir_before for row in (*parts.learnt, *parts.held_out)]
    shown = None
    if form.spelling != "leir":
        shown = spelled(states, form.spelling)
    device = options.device or device_here()
    if (options.out / "checkpoint.pt").is_file():
        trainer = Trainer.load(options.out, device)
        if options.budget or options.steps:
            trainer.plan = replace(trainer.plan, budget_s=options.budget, steps=options.steps)
    else:
        budget = options.budget or (None if options.steps else options.seconds) or None
        steps = options.steps or (None if budget else 1)  # of an untrained control, none is taken
        plan = Plan(budget, steps, batch_tokens=options.batch_tokens, longest=options.longest, seed=options.seed)
        vocabulary = vocabulary_of(parts.learnt, form, shown)
        trainer = Trainer(vocabulary, Shape(vocabulary.size, **SIZES[options.size]), plan, device)
    vocabulary = trainer.vocabulary
    if unknown := sorted({row.strategy for row in parts.learnt} - set(vocabulary.arguments)):
        raise EvaluationError(f"{options.out}: the decoder has no token for {unknown[0]}: give the rows it began with")
    examples = examples_of(parts.learnt, vocabulary, form, shown)
    if options.shuffled:
        examples = with_other_answers(examples, vocabulary, options.seed)
    left = sum(len(one.tokens) > trainer.plan.longest for one in examples)
    print(f"{trainer.model.parameters_count()} parameters, {vocabulary.size} tokens; {left} examples are too long")
    if options.seconds != 0:
        trainer.train(examples, options.seconds, told=lambda line: print(line, flush=True))
        trainer.save(options.out)
    (options.out / "losses.json").write_text(json.dumps(trainer.progress.losses))
    if options.answers:
        automaton = Automaton(vocabulary, options.decoding, form.program, Seen(examples, vocabulary))
        questions = parts.questions(options.answers, options.seed, form.program)
        most = 900 if form.reasoning else 400
        replies = replies_of(
            trainer.model, vocabulary, automaton, questions, most, form, options.samples, options.temperature, shown
        )
        file = options.out / "replies.jsonl"
        file.write_text("".join(reply.model_dump_json() + "\n" for reply in replies))
        print(f"{len(replies)} replies: {file}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, or a file of its rows")
    parser.add_argument("--more", type=Path, nargs="+", default=(), metavar="RUN", help="runs to learn from, too")
    parser.add_argument("--out", type=Path, required=True, help="the model's folder")
    parser.add_argument("--seconds", type=float, help="of this slice; without, to the plan's end")
    parser.add_argument("--budget", type=float, help="seconds of all slices together, where the rate reaches zero")
    parser.add_argument("--steps", type=int, help="steps of all slices together, instead")
    parser.add_argument("--size", choices=sorted(SIZES), default="small")
    parser.add_argument("--reasoning", action="store_true", help="learn to write the reasoning before the answer")
    parser.add_argument("--step-only", action="store_true", help="answer the step alone, without the program after it")
    parser.add_argument("--spelling", choices=("leir", "tir", "cuda"), default="leir", help="how states are shown")
    parser.add_argument("--shuffled", action="store_true", help="the control: answers of other states")
    parser.add_argument("--unfiltered", action="store_true", help="learn from what the run's filter left out, too")
    parser.add_argument("--rows", type=int, help="so many rows to learn from")
    parser.add_argument("--batch-tokens", type=int, default=32768)
    parser.add_argument("--longest", type=int, default=1536, help="tokens of an example")
    parser.add_argument("--answers", type=int, help="reply to so many states of held-out families")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--decoding", choices=("free", "schema", "leir"), default="schema")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device")
    options = parser.parse_args()
    if options.spelling != "leir" and not options.step_only:
        parser.error(f"--spelling {options.spelling} wants --step-only: an answer writes programs as LEIR")
    new = not (options.out / "checkpoint.pt").is_file()
    if new and options.seconds is None and not (options.budget or options.steps):
        parser.error("give --seconds, --budget or --steps")
    return options


if __name__ == "__main__":
    try:
        main()
    except CANNOT_LEARN as error:
        sys.exit(f"train_small: {error}")
