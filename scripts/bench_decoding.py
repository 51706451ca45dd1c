"""How long a token step of decoding takes: all of it, and what is not the decoder's own layers.

    PYTHONPATH=. python scripts/bench_decoding.py data/sample
    PYTHONPATH=. python scripts/bench_decoding.py runs/small --size small --device cuda --most 900

On a CPU the seconds are of the processor, so that other processes do not count; on a GPU they pass on a clock. The
weights are random, so few answers end by themselves: `--most` tokens are decoded of each.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

from stepTP.learn.decoding import Automaton, Constraint, Seen, decode
from stepTP.learn.examples import Form, examples_of
from stepTP.learn.model import SIZES, Decoder, Shape
from stepTP.learn.training import device_here
from stepTP.learn.trial import read_parts, vocabulary_of

CONSTRAINTS: tuple[Constraint, ...] = ("free", "schema", "leir")


def main() -> None:
    options = arguments()
    on_gpu = options.device == "cuda"
    if not on_gpu:
        torch.set_num_threads(1)
    parts = read_parts(options.run, limit=options.rows)
    form = Form(reasoning=True)
    vocabulary = vocabulary_of(parts.learnt, form)
    examples = examples_of(parts.learnt, vocabulary, form)
    seen = Seen(examples, vocabulary)
    prompts = [one.tokens[: one.asked].tolist() for one in examples if len(one.tokens) <= options.longest]
    prompts = [prompts[n // options.samples % len(prompts)] for n in range(options.batch)]
    torch.manual_seed(0)
    model = Decoder(Shape(vocabulary.size, **{**SIZES[options.size], "longest": 4096})).to(options.device).eval()
    print(f"{model.parameters_count()} parameters, {vocabulary.size} tokens, {len(prompts)} prompts")
    for constraint in CONSTRAINTS:
        automaton = Automaton(vocabulary, constraint, True, seen)
        decode(model, prompts, automaton, 2)  # warm
        for temperature in (0.0, 1.0):
            told = timed(model, prompts, automaton, options.most, temperature, on_gpu)
            print(f"{constraint:6} at {temperature}: {told}", flush=True)


def timed(
    model: Decoder, prompts: list[list[int]], automaton: Automaton, most: int, temperature: float, on_gpu: bool
) -> str:
    """Milliseconds a step, the prompts' own pass left out."""
    generator = torch.Generator(model.embedding.weight.device).manual_seed(1)
    passes: list[float] = []
    begun = 0.0

    def now() -> float:
        return time.perf_counter() if on_gpu else time.process_time()

    def before(*_: Any) -> None:
        nonlocal begun
        begun = now()

    def after(*_: Any) -> None:
        passes.append(now() - begun)

    hooks = [model.register_forward_pre_hook(before), model.register_forward_hook(after)]
    start = now()
    found = decode(model, prompts, automaton, most, temperature, generator)
    total = now() - start
    for hook in hooks:
        hook.remove()
    steps = max(map(len, found.tokens))
    layers, rest = sum(passes[1:]), total - sum(passes)
    return (
        f"{steps} steps of {len(prompts)} answers, {total:.2f} s; a step {1e3 * (total - passes[0]) / steps:.2f} ms: "
        f"{1e3 * layers / steps:.2f} in the layers{' (launched)' if on_gpu else ''}, {1e3 * rest / steps:.2f} around"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a run's folder, or a file of its rows")
    parser.add_argument("--rows", type=int, default=400, help="of the run")
    parser.add_argument("--batch", type=int, default=256, help="answers")
    parser.add_argument("--samples", type=int, default=8, help="answers to each state")
    parser.add_argument("--most", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--longest", type=int, default=1024, help="tokens of an example")
    parser.add_argument("--size", choices=sorted(SIZES), default="tiny")
    parser.add_argument("--device", default=device_here())
    return parser.parse_args()


if __name__ == "__main__":
    main()
