"""Examples as tokens, and an answer back from tokens.

A state is its LEIR with a token before each line, its number. An answer is, after `<answer>`,

    [<think> reasoning] strategy, then each argument's token and its value as JSON [<leir> the program after] <end>

where a line of the program that is also one of the state is that line's token alone, and any other its text. So an
answer is some 80 tokens and not 320, and what a step leaves alone is copied by one token each: what has to be learnt is
the step. Reading it back gives the whole program, which is judged as any other answer.

Names are exchanged at random in training, another way in each epoch: a program means the same under other names.
"""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepTP.answer import write_answer
from stepTP.draw import digest
from stepTP.learn.vocabulary import ANSWER, BEGIN, END, LEIR, LINES, THINK, Vocabulary
from stepTP.prompt import Spelling
from stepTP.records import Step, StepRow

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """What an example holds. `program`: the answer writes the program after; only where the state is LEIR."""

    program: bool = True
    reasoning: bool = False
    spelling: Spelling = "leir"

    def __post_init__(self) -> None:
        if self.program and self.spelling != "leir":
            raise ValueError(f"an answer writes the program as LEIR: a state in {self.spelling} wants the step alone")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one kind in an example: those of its prompt, those that its answer adds, and what either may become."""

    asked: Array
    added: Array
    free: Array  # in the order in which new names are taken


@dataclass(frozen=True, slots=True)
class Example:
    """Tokens, of which the first `asked` are the prompt's; `where` names stand that may be exchanged, by kind."""

    tokens: Array
    asked: int
    where: Array
    names: tuple[Names, ...]


def prompt_tokens(state: str, vocabulary: Vocabulary, spelling: Spelling = "leir") -> list[int]:
    """The tokens that ask for a step at a state."""
    if spelling != "leir":
        return [BEGIN, *vocabulary.encode(state), ANSWER]
    ids = [BEGIN]
    for number, line in enumerate(state.rstrip("\n").split("\n")):
        if number < LINES:
            ids.append(vocabulary.first_line + number)
        ids += vocabulary.encode_line(line)
    return [*ids, ANSWER]


def answer_tokens(
    step: Step, state: str, after: str | None, reasoning: str | None, vocabulary: Vocabulary
) -> tuple[list[int], list[bool]]:
    """The tokens of an answer, and which of them may be loop variables: those of an argument's value are not."""
    thought = [] if reasoning is None else [THINK, *vocabulary.encode(reasoning)]
    claimed = [vocabulary.strategy_ids[step.strategy]]
    for key in vocabulary.arguments[step.strategy]:
        claimed += [vocabulary.key_ids[key], *vocabulary.encode(json.dumps(step.args[key], separators=(",", ":")))]
    program: list[int] = []
    if after is not None:
        before = {line: number for number, line in reversed([*enumerate(state.rstrip("\n").split("\n"))])}
        program.append(LEIR)
        for line in after.rstrip("\n").split("\n"):
            number = before.get(line, LINES)
            program += [vocabulary.first_line + number] if number < LINES else vocabulary.encode_line(line)
    loops = [True] * len(thought) + [False] * len(claimed) + [True] * (len(program) + 1)
    return [*thought, *claimed, *program, END], loops


def example(
    state: str, shown: str, step: Step, after: str, reasoning: str, vocabulary: Vocabulary, form: Form
) -> Example:
    """The example of a step; `shown` is the state in the form's spelling."""
    asked = prompt_tokens(shown, vocabulary, form.spelling)
    said, loops = answer_tokens(
        step, state, after if form.program else None, reasoning if form.reasoning else None, vocabulary
    )
    tokens = np.array([*asked, *said], dtype=np.int32)
    names = vocabulary.names_in(tokens)
    names[len(asked) :] &= np.array(loops) | vocabulary.names_in(tokens, loops=False)[len(asked) :]
    # English words that look like names, and TVMScript's module, stay as they are, in the whole example.
    fixed = [*(("A", "I", "a") if form.reasoning else ()), *(("T",) if form.spelling == "tir" else ())]
    names &= ~np.isin(tokens, [vocabulary.word_ids[name] for name in fixed])
    return marked(tokens, len(asked), np.flatnonzero(names), vocabulary)


def marked(tokens: Array, asked: int, where: Array, vocabulary: Vocabulary) -> Example:
    """The example of tokens that has names at these places."""
    kept = np.delete(tokens, where)
    kinds: list[Names] = []
    for pool in (vocabulary.tensor_pool, vocabulary.loop_pool):
        mine = np.isin(pool, tokens[where[where < asked]])
        added = np.isin(pool, tokens[where]) & ~mine
        kinds.append(Names(pool[mine], pool[added], pool[~np.isin(pool, kept)]))
    return Example(tokens, asked, where, tuple(kinds))


def examples_of(
    rows: Iterable[StepRow], vocabulary: Vocabulary, form: Form, shown: Mapping[str, str] | None = None
) -> list[Example]:
    """The examples of rows; `shown`: the state's text in another spelling, by its LEIR."""
    return [
        example(
            row.leir_before,
            row.leir_before if shown is None else shown[row.leir_before],
            Step(strategy=row.strategy, args=row.args),
            row.leir_after,
            row.reasoning,
            vocabulary,
            form,
        )
        for row in rows
    ]


def with_other_answers(examples: Sequence[Example], vocabulary: Vocabulary, seed: int = 0) -> list[Example]:
    """The control: each prompt with the answer of another example, by a random cycle through all of them."""
    rng = np.random.default_rng(int.from_bytes(digest("other-answers", seed)[:8], "big"))
    order = rng.permutation(len(examples))
    other = np.empty_like(order)
    other[order] = np.roll(order, -1)
    result: list[Example] = []
    for mine, n in zip(examples, other, strict=True):
        said = examples[n]
        tokens = np.concatenate([mine.tokens[: mine.asked], said.tokens[said.asked :]])
        later = said.where[said.where >= said.asked] - said.asked + mine.asked
        result.append(
            marked(tokens, mine.asked, np.concatenate([mine.where[mine.where < mine.asked], later]), vocabulary)
        )
    return result


def exchanged(given: Example, size: int, rng: np.random.Generator) -> Array:
    """The tokens with names exchanged for others. A name that is new in the answer takes the first that is free.

    `size`: of the vocabulary.
    """
    map_ = np.arange(size, dtype=np.int32)
    for kind in given.names:
        count = len(kind.asked)
        if len(kind.free) < count + len(kind.added):
            return given.tokens  # more names than there are to exchange them for
        order = rng.permutation(len(kind.free))
        map_[kind.asked] = kind.free[order[:count]]
        map_[kind.added] = kind.free[np.sort(order[count:])[: len(kind.added)]]
    tokens = given.tokens.copy()
    tokens[given.where] = map_[tokens[given.where]]
    return tokens


def batches(
    examples: Sequence[Example],
    vocabulary: Vocabulary,
    tokens: int,
    longest: int,
    key: int,
    keep_names: float = 0.25,
    prompt_weight: float = 0.1,
) -> Iterator[tuple[Array, Array]]:
    """One epoch: (ids, weights), both (examples, length), padded, of about `tokens` tokens each.

    `weights` are of a token as what is to be predicted: 1 in the answer, `prompt_weight` in the prompt. `keep_names`:
    the share of examples whose names stay. Examples beyond `longest` tokens are left out. `key` decides everything.
    """
    rng = np.random.default_rng(key)
    order = [n for n in rng.permutation(len(examples)) if len(examples[n].tokens) <= longest]
    bins: list[list[int]] = []
    for start in range(0, len(order), 4096):
        part = sorted(order[start : start + 4096], key=lambda n: len(examples[n].tokens))
        current: list[int] = []
        for n in part:
            if current and (len(current) + 1) * len(examples[n].tokens) > tokens:
                bins.append(current)
                current = []
            current.append(n)
        bins.append(current)
    for at in rng.permutation(len(bins)):
        chosen = [examples[n] for n in bins[at]]
        length = -(-max(len(e.tokens) for e in chosen) // 16) * 16
        ids = np.zeros((len(chosen), length), dtype=np.int64)
        weights = np.zeros((len(chosen), length), dtype=np.float32)
        for line, one in enumerate(chosen):
            size = len(one.tokens)
            ids[line, :size] = one.tokens if rng.random() < keep_names else exchanged(one, vocabulary.size, rng)
            weights[line, : one.asked] = prompt_weight
            weights[line, one.asked : size] = 1.0
        yield ids, weights


def reply_text(ids: Sequence[int], state: str, vocabulary: Vocabulary) -> str:
    """What an answer's tokens say, as a model's reply: one that is read as any other, right or not."""
    strategies = {token: name for name, token in vocabulary.strategy_ids.items()}
    thought, claimed, program = _parts(ids, strategies)
    said = f"<think>{vocabulary.decode(thought)}</think>" if thought is not None else ""
    keys = {token: key for key, token in vocabulary.key_ids.items()}
    if not claimed or claimed[0] not in strategies:
        return said + vocabulary.decode(claimed)
    args: dict[str, Any] = {}
    key, value = "", list[int]()
    for token in [*claimed[1:], None]:
        if token is None or token in keys:
            if key:
                try:
                    args[key] = json.loads(vocabulary.decode(value))
                except (json.JSONDecodeError, RecursionError):
                    return said + vocabulary.decode(claimed)
            key, value = keys.get(token, "") if token is not None else "", []
        else:
            value.append(token)
    step = Step(strategy=strategies[claimed[0]], args=args)
    return said + write_answer(step, None if program is None else program_text(program, state, vocabulary))


def program_text(ids: Sequence[int], state: str, vocabulary: Vocabulary) -> str:
    """The program that an answer's last part writes: lines of the state by number, others as text."""
    lines = state.rstrip("\n").split("\n")
    text: list[str] = []
    said: list[int] = []
    for token in ids:
        number = token - vocabulary.first_line
        if not 0 <= number < LINES:
            said.append(token)
            continue
        text.append(vocabulary.decode(said))
        said = []
        text.append(lines[number] + "\n" if number < len(lines) else f"# no line {number}\n")
    return "".join((*text, vocabulary.decode(said)))


def _parts(ids: Sequence[int], strategies: Container[int]) -> tuple[list[int] | None, list[int], list[int] | None]:
    """Thought, step and program of an answer's tokens, up to its end; a thought ends where a strategy is named."""
    tokens = list(ids)
    if END in tokens:
        tokens = tokens[: tokens.index(END)]
    program: list[int] | None = None
    if LEIR in tokens:
        place = tokens.index(LEIR)
        tokens, program = tokens[:place], tokens[place + 1 :]
    if not tokens or tokens[0] != THINK:
        return None, tokens, program
    place = next((n for n, token in enumerate(tokens) if token in strategies), len(tokens))
    return tokens[1:place], tokens[place:], program
