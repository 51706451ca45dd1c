"""Answers from a decoder: batches with a cache, free or held to the answer's form."""

from collections.abc import Iterable, Sequence
from typing import Literal

import torch
from torch import Tensor

from stepTP.learn.examples import Example
from stepTP.learn.model import Cache, Decoder
from stepTP.learn.training import autocast
from stepTP.learn.vocabulary import END, FRAME, LEIR, LINES, PAD, THINK, Vocabulary

Constraint = Literal["free", "schema", "leir"]


class Automaton:
    """Which tokens may come next in an answer, by state; states are numbers.

    "schema": strategy, its arguments in order, text as values, then `<leir>` with lines and text, or the end.
    "leir": also, values are of tokens that training has seen in that argument, and text of those seen in programs.
    "free": anything.
    """

    def __init__(
        self, vocabulary: Vocabulary, constraint: Constraint, program: bool, seen: "Seen | None" = None
    ) -> None:
        if constraint == "leir" and seen is None:
            raise ValueError("tokens that training has seen are needed to hold answers to them")
        self._next: list[dict[int, int]] = []  # of each state: token -> state; others stay in it
        masks: list[Tensor] = []
        size = vocabulary.size
        if constraint != "leir":
            seen = None

        def state(allowed: Iterable[int], moves: dict[int, int]) -> int:
            mask = torch.zeros(size, dtype=torch.bool)
            mask[[*allowed, *moves]] = True
            masks.append(mask)
            self._next.append(moves)
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
        self.masks = torch.stack(masks)

    def after(self, state: int, token: int) -> int:
        """The state after a token."""
        return self._next[state].get(token, state)


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


class Answers:
    """Tokens of answers (each ends with `<end>` unless it was cut), and what the model gave each in logarithms."""

    def __init__(self, tokens: list[list[int]], logarithms: list[list[float]], cut: list[bool]) -> None:
        self.tokens, self.logarithms, self.cut = tokens, logarithms, cut


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
    tokens: list[list[int]] = [[] for _ in prompts]
    logarithms: list[list[float]] = [[] for _ in prompts]
    cut = [False] * len(prompts)
    training = model.training
    model.eval()
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        found, logs = _decode_batch(model, [prompts[n] for n in chosen], automaton, most, temperature, generator)
        for n, answer, log in zip(chosen, found, logs, strict=True):
            tokens[n], logarithms[n] = answer, log
            cut[n] = not answer or answer[-1] != END
    model.train(training)
    return Answers(tokens, logarithms, cut)


def _decode_batch(
    model: Decoder,
    prompts: Sequence[Sequence[int]],
    automaton: Automaton,
    most: int,
    temperature: float,
    generator: torch.Generator | None,
) -> tuple[list[list[int]], list[list[float]]]:
    device = model.embedding.weight.device
    longest = max(map(len, prompts))
    most = min(most, model.shape.longest - longest)
    if most <= 0:
        return [[] for _ in prompts], [[] for _ in prompts]
    starts = torch.tensor([longest - len(p) for p in prompts], device=device)
    ids = torch.tensor([[PAD] * (longest - len(p)) + list(p) for p in prompts], device=device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    cache = Cache(model.shape, len(prompts), longest + most, device, dtype)
    places = torch.arange(longest + most, device=device)
    real = places[None] >= starts[:, None]  # (batch, place): padding is never looked at
    causal = places[:longest, None] >= places[None, :longest]
    # A padded place looks at itself, so that no row of the softmax is empty.
    own = torch.eye(longest, dtype=torch.bool, device=device)
    mask = ((causal & real[:, None, :longest]) | own)[:, None]
    masks = automaton.masks.to(device)
    states = [automaton.start] * len(prompts)
    answers: list[list[int]] = [[] for _ in prompts]
    logarithms: list[list[float]] = [[] for _ in prompts]
    positions = (places[None, :longest] - starts[:, None]).clamp(min=0)
    with autocast(device):
        hidden = model(ids, positions, mask, cache)[:, -1]
    for step in range(most):
        with autocast(device):
            logits = model.logits(hidden).float()
        logits = logits.masked_fill(~masks[torch.tensor(states, device=device)], float("-inf"))
        drawn, log = _drawn(logits, temperature, generator)
        told, logs = drawn.tolist(), log.tolist()
        for n, token in enumerate(told):
            if states[n] != automaton.done:
                answers[n].append(token)
                logarithms[n].append(logs[n])
                states[n] = automaton.after(states[n], token)
        if step + 1 == most or all(state == automaton.done for state in states):
            break
        place = longest + step
        with autocast(device):
            hidden = model(
                drawn[:, None], (place - starts)[:, None], real[:, None, None, : place + 1], cache
            )[:, -1]  # fmt: skip
    return answers, logarithms


def _drawn(logits: Tensor, temperature: float, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """A token of each line, and its logarithm."""
    if temperature == 0:
        logs = logits.log_softmax(-1)
        drawn = logits.argmax(-1)
    else:
        logs = (logits / temperature).log_softmax(-1)
        drawn = torch.multinomial(logs.exp(), 1, generator=generator)[:, 0]
    return drawn, logs.gather(1, drawn[:, None])[:, 0]
