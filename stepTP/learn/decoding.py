"""Answers from a decoder: batches with a cache, free or held to the answer's form."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from stepTP.learn.examples import Example
from stepTP.learn.model import Cache, Decoder, in_blocks
from stepTP.learn.training import computing_on
from stepTP.learn.vocabulary import END, FRAME, LEIR, LINES, PAD, THINK, Vocabulary

Constraint = Literal["free", "schema", "leir"]

CHECK = 8  # steps between two looks at which answers are done
LEFT = 0.8  # of a batch's answers: with no more than these to do, the others leave it


class Automaton:
    """Which tokens may come next in an answer, by state; states are numbers.

    "schema": strategy, its arguments in order, text as values, then `<leir>` with lines and text, or the end.
    "leir": also, values are of tokens that training has seen in that argument, and text of those seen in programs.
    "free": anything.

    `masks` (states, vocabulary): whether a token may come; `moves`, of the same shape: the state after it.
    """

    def __init__(
        self, vocabulary: Vocabulary, constraint: Constraint, program: bool, seen: "Seen | None" = None
    ) -> None:
        if constraint == "leir" and seen is None:
            raise ValueError("tokens that training has seen are needed to hold answers to them")
        masks: list[Tensor] = []
        moves: list[Tensor] = []
        size = vocabulary.size
        if constraint != "leir":
            seen = None

        def state(allowed: Iterable[int], leads: dict[int, int]) -> int:
            mask = torch.zeros(size, dtype=torch.bool)
            mask[[*allowed, *leads]] = True
            after = torch.full((size,), len(masks))  # what leads nowhere stays here
            after[[*leads]] = torch.tensor([*leads.values()], dtype=torch.long)
            masks.append(mask)
            moves.append(after)
            return len(masks) - 1

        text = [token for token in range(size) if vocabulary.is_text(token)]
        done = state([PAD], {})
        if constraint == "free":
            self.start = state((t for t in range(size) if t != PAD), {END: done})
        else:
            lines = range(vocabulary.first_line, vocabulary.first_line + LINES)
            written = state([*lines, *(text if seen is None else seen.program)], {END: done})
            begins: dict[int, int] = {}
            for name, keys in vocabulary.arguments.items():
                then = {LEIR: written} if program else {END: done}
                for key in reversed(keys):
                    values = text if seen is None else seen.values.get((name, key), text)
                    more = state(values, then)
                    first = state((), dict.fromkeys(values, more))
                    then = {vocabulary.key_ids[key]: first}
                begins[vocabulary.strategy_ids[name]] = state((), then)
            thought = state(text, begins)
            self.start = state((), {THINK: thought, **begins})
        self.done = done
        self.masks, self.moves = torch.stack(masks), torch.stack(moves)


class Seen:
    """Which tokens training data has in programs' lines, and in each argument of each strategy."""

    def __init__(self, examples: Iterable[Example], vocabulary: Vocabulary) -> None:
        program: set[int] = set()
        values: dict[tuple[str, str], set[int]] = {}
        strategies = {token: name for name, token in vocabulary.strategy_ids.items()}
        keys = {token: key for key, token in vocabulary.key_ids.items()}
        for one in examples:
            tokens = one.tokens.tolist()
            program.update(t for t in tokens[: one.asked] if vocabulary.is_text(t))
            strategy = key = ""
            in_program = False
            for token in tokens[one.asked :]:
                if token in strategies:
                    strategy = strategies[token]
                elif token in keys and strategy:
                    key = keys[token]
                elif token == LEIR:
                    in_program = True
                elif token >= len(FRAME) and vocabulary.is_text(token):
                    if in_program:
                        program.add(token)
                    elif key:
                        values.setdefault((strategy, key), set()).add(token)
        # Names are exchanged in training: one that may be a tensor here may be any.
        pool = set(vocabulary.tensor_pool.tolist())
        self.program = sorted(program | pool | set(vocabulary.loop_pool.tolist()))
        self.values = {at: sorted(found | pool if found & pool else found) for at, found in values.items()}


@dataclass(frozen=True, slots=True)
class Answers:
    """Tokens of answers (each ends with `<end>` unless it was cut), what the model gave each in logarithms, and the
    automaton's state before each."""

    tokens: list[list[int]]
    logarithms: list[list[float]]
    states: list[list[int]]
    cut: list[bool]


@torch.no_grad()
def decode(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    automaton: Automaton,
    most: int,
    temperature: float = 0.0,
    generator: torch.Generator | None = None,
    batch: int = 256,
) -> Answers:
    """An answer of at most `most` tokens to each prompt; `temperature` 0: always the likeliest token.

    `logarithms` are of the distribution that was drawn from: at this temperature, over what the automaton allows.
    """
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    found = Answers([[] for _ in prompts], [[] for _ in prompts], [[] for _ in prompts], [True] * len(prompts))
    device = model.embedding.weight.device
    masks, moves = automaton.masks.to(device), automaton.moves.to(device)
    training = model.training
    model.eval()
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        with computing_on(device):  # around all steps: weights are cast once
            asked = [tuple(prompts[n]) for n in chosen]
            tokens, logarithms, states = _decode_batch(
                model, asked, automaton, masks, moves, most, temperature, generator
            )
        for n, answer, logs, before in zip(chosen, tokens, logarithms, states, strict=True):
            size = sum(state != automaton.done for state in before)
            found.tokens[n], found.logarithms[n], found.states[n] = answer[:size], logs[:size], before[:size]
            found.cut[n] = not size or answer[size - 1] != END
    model.train(training)
    return found


def _decode_batch(
    model: Decoder,
    prompts: Sequence[tuple[int, ...]],
    automaton: Automaton,
    masks: Tensor,
    moves: Tensor,
    most: int,
    temperature: float,
    generator: torch.Generator | None,
) -> tuple[list[list[int]], list[list[float]], list[list[int]]]:
    """Tokens, logarithms and states before, (prompts, steps). Nothing is asked of the device but now and then."""
    device = masks.device
    most = max(0, min(most, model.shape.longest - max(map(len, prompts))))
    if most == 0:
        return [[] for _ in prompts], [[] for _ in prompts], [[] for _ in prompts]
    hidden, cache, starts = _read(model, prompts, most)
    begun = cache.used
    places = torch.arange(cache.kept.shape[4], device=device)
    seen = (places >= starts[:, None]) & (places < begun)
    bias = torch.zeros_like(seen, dtype=cache.kept.dtype).masked_fill(~seen, float("-inf"))  # of what attention sees
    rows = torch.arange(len(prompts), device=device)  # that are not done
    state = torch.full_like(rows, automaton.start)
    tokens = torch.full((most, len(prompts)), PAD, device=device)
    logarithms = torch.zeros((most, len(prompts)), device=device)
    states = torch.full((most, len(prompts)), automaton.done, device=device)
    for step in range(most):
        logits = model.logits(hidden).float().masked_fill(~masks[state], float("-inf"))
        drawn, log = _drawn(logits, temperature, generator)
        tokens[step, rows], logarithms[step, rows], states[step, rows] = drawn, log, state
        state = moves[state, drawn]
        if step + 1 == most:
            break
        if (step + 1) % CHECK == 0:
            left = (state != automaton.done).nonzero()[:, 0]  # waits for the device
            if len(left) == 0:
                break
            if len(left) <= LEFT * len(rows):
                cache.take(left)
                rows, state, drawn, starts, bias = (part[left] for part in (rows, state, drawn, starts, bias))
        place = begun + step
        bias[:, place] = 0
        mask = bias[:, None, None, : in_blocks(place + 1)]
        hidden = model(drawn[:, None], (place - starts)[:, None], mask, cache)[:, -1]
    return tokens.T.tolist(), logarithms.T.tolist(), states.T.tolist()


def _read(model: Decoder, prompts: Sequence[tuple[int, ...]], most: int) -> tuple[Tensor, Cache, Tensor]:
    """The last hidden state of each prompt, a cache with room for `most` more tokens, and where each prompt begins.

    A prompt that is asked several times is read once.
    """
    device = model.embedding.weight.device
    distinct = {prompt: number for number, prompt in enumerate(dict.fromkeys(prompts))}
    width = in_blocks(max(map(len, distinct)))
    starts = torch.tensor([width - len(prompt) for prompt in distinct], device=device)
    ids = torch.tensor([[PAD] * (width - len(prompt)) + list(prompt) for prompt in distinct], device=device)
    places = torch.arange(width, device=device)
    real = places >= starts[:, None]  # (prompts, places): padding is never looked at
    causal = places[:, None] >= places
    # A padded place looks at itself, so that no row of the softmax is empty.
    mask = (causal & real[:, None]) | torch.eye(width, dtype=torch.bool, device=device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    cache = Cache(model.shape, len(distinct), width, device, dtype)
    hidden = model(ids, (places - starts[:, None]).clamp(min=0), mask[:, None], cache)[:, -1]
    rows = torch.tensor([distinct[prompt] for prompt in prompts], device=device)
    cache.take(rows, width + most)
    return hidden[rows], cache, starts[rows]


def _drawn(logits: Tensor, temperature: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """A token of each line, and its logarithm."""
    if temperature == 0:
        logs = logits.log_softmax(-1)
        drawn = logits.argmax(-1)
    else:
        logs = (logits / temperature).log_softmax(-1)
        # The first of independent exponential clocks, with the probabilities as rates: `multinomial` waits for checks.
        clocks = torch.empty_like(logs).exponential_(generator=generator).clamp_min_(1e-30)
        drawn = (logs.exp() / clocks).argmax(-1)
    return drawn, logs.gather(1, drawn[:, None])[:, 0]
