"""GRPO of a decoder with the verifier as its reward (Shao et al. 2024): groups of answers to one state, compared.

Each round asks for `samples` answers to each of some states, has them scored, and moves the decoder towards the answers
that are better than their group. The loss is a mean over tokens; a group whose answers are all worth the same says
nothing and is left out. Answers are used once, so all that is off the policy is a round's later updates, and they are
clipped. Nothing ties the decoder to what it was before (as in Yu et al. 2025): the reward is a check, not a model.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch.nn.functional as F

from stepTP.draw import digest
from stepTP.evaluate.metrics import RATES, reached
from stepTP.evaluate.questions import Question
from stepTP.filter import entropy
from stepTP.learn.decoding import Automaton, decode
from stepTP.learn.examples import prompt_tokens, reply_text
from stepTP.learn.model import Decoder
from stepTP.learn.training import computing_on, optimiser
from stepTP.learn.vocabulary import PAD, Vocabulary
from stepTP.rewards.shaping import DEFAULT, Shaping, crowds, reward
from stepTP.verify.report import ScoreReport

_LAST = 3  # rounds that tell how long the next may take


class Scores(Protocol):
    """What a scorer does, as far as it is needed here."""

    def score_many(self, answers: Any, *, measure: bool = False) -> list[ScoreReport]: ...


@dataclass(frozen=True, slots=True)
class GrpoPlan:
    """`timed`: of so many states a round, accepted answers are timed, and speed counts; let nothing else run then."""

    states: int = 32
    samples: int = 8
    updates: int = 2  # optimiser steps a round, each on a part of its states
    temperature: float = 1.0
    most: int = 320  # tokens of an answer
    rate: float = 1e-4
    clip: float = 0.2
    batch_tokens: int = 32768
    timed: int = 0
    seed: int = 0
    shaping: Shaping = field(default=DEFAULT)


@dataclass(slots=True)
class _Sample:
    question: int
    prompt: list[int]
    answer: list[int]
    logarithms: list[float]
    states: list[int]
    text: str
    report: ScoreReport | None = None
    reward: float = 0.0
    advantage: float = 0.0


class Reinforcement:
    """A decoder under GRPO: `run` goes on until its time or its rounds are over."""

    def __init__(
        self,
        model: Decoder,
        vocabulary: Vocabulary,
        automaton: Automaton,
        questions: Sequence[Question],
        scorer: Scores,
        plan: GrpoPlan,
    ) -> None:
        if not questions:
            raise ValueError("reinforcement needs states to ask about")
        self.model, self.vocabulary, self.automaton = model, vocabulary, automaton
        self.questions, self.scorer, self.plan = questions, scorer, plan
        self.optimiser = optimiser(model, plan.rate, 0.0)
        self.history: list[dict[str, Any]] = []
        self._known: dict[tuple[int, str, bool], ScoreReport] = {}

    def go_on(self, history: Sequence[dict[str, Any]], kept: torch.optim.Optimizer) -> None:
        """Goes on after the rounds of `history`, with the moments that the optimiser had; rates are the plan's."""
        self.history = list(history)
        self.optimiser.load_state_dict({**self.optimiser.state_dict(), "state": kept.state_dict()["state"]})

    def run(
        self,
        seconds: float | None = None,
        rounds: int | None = None,
        told: Callable[[dict[str, Any]], None] | None = None,
    ) -> list[dict[str, Any]]:
        """The history: of each round its mean reward, the share of answers that reach each stage, and times."""
        start = time.monotonic()
        while rounds is None or len(self.history) < rounds:
            if seconds is not None and time.monotonic() - start + self.expected_s > seconds:
                break  # a round that would not end in time is not begun
            entry = self._round(len(self.history))
            self.history.append(entry)
            if told:
                told(entry)
        return self.history

    @property
    def expected_s(self) -> float:
        """What a round may take."""
        return expected_s(self.history)

    def _round(self, number: int) -> dict[str, Any]:
        times = [time.monotonic()]
        samples = self._sample(number)
        times.append(time.monotonic())
        self._score(samples)
        times.append(time.monotonic())
        fair = [s for s in samples if s.report is not None and s.report.error is None]
        used = self._compare(fair)
        loss, clipped = self._update(used) if used else (0.0, 0.0)
        times.append(time.monotonic())
        stages = [reached(s.report) for s in fair if s.report is not None]
        strategies = Counter(s.report.strategy for s in fair if s.report and s.report.strategy)
        return {
            "round": number,
            "answers": len(fair),
            "errors": len(samples) - len(fair),
            "reward": round(sum(s.reward for s in fair) / max(1, len(fair)), 4),
            **{rate: round(sum(s[rate] for s in stages) / max(1, len(stages)), 4) for rate in RATES},
            "used": len(used),
            "loss": round(loss, 5),
            "clipped": round(clipped, 4),
            "tokens": round(sum(len(s.answer) for s in samples) / len(samples), 1),
            "strategy_entropy_bits": round(entropy(strategies.values()), 3),
            "seconds": {
                name: round(end - begin, 2)
                for name, begin, end in zip(("decode", "score", "update"), times, times[1:], strict=False)
            },
        }

    def _sample(self, number: int) -> list[_Sample]:
        plan = self.plan
        count = min(plan.states, len(self.questions))
        turns = range(number * count, (number + 1) * count)
        # Each pass over the states takes another order, drawn by hashes.
        chosen = [self._order(turn // len(self.questions))[turn % len(self.questions)] for turn in turns]
        prompts = [prompt_tokens(self.questions[n].task.state, self.vocabulary) for n in chosen]
        asked = [prompt for prompt in prompts for _ in range(plan.samples)]
        device = self.model.embedding.weight.device
        generator = torch.Generator(device).manual_seed(int.from_bytes(digest("samples", plan.seed, number)[:7], "big"))
        found = decode(self.model, asked, self.automaton, plan.most, plan.temperature, generator)
        result: list[_Sample] = []
        for n, (tokens, logs, states) in enumerate(zip(found.tokens, found.logarithms, found.states, strict=True)):
            question = chosen[n // plan.samples]
            text = reply_text(tokens, self.questions[question].task.state, self.vocabulary)
            result.append(_Sample(question, asked[n], tokens, logs, states, text))
        return result

    def _order(self, turn: int) -> list[int]:
        return sorted(
            range(len(self.questions)), key=lambda n: digest("turn", self.plan.seed, turn, self.questions[n].id)
        )

    def _score(self, samples: list[_Sample]) -> None:
        """Reports and rewards; an answer that was given to the state before is not scored again."""
        timed = list(dict.fromkeys(sample.question for sample in samples))[: self.plan.timed]
        for measure in (False, True):
            asked = {
                (s.question, s.text): None
                for s in samples
                if (s.question, s.text, measure) not in self._known
                and (not measure or (s.question in timed and s.report is not None and s.report.accepted))
            }
            reports = self.scorer.score_many(
                [(text, self.questions[question].task) for question, text in asked], measure=measure
            )
            for key, report in zip(asked, reports, strict=True):
                if report.error is None:
                    self._known[(*key, measure)] = report
            failed = {key: r for key, r in zip(asked, reports, strict=True) if r.error is not None}
            for sample in samples:
                key = (sample.question, sample.text)
                sample.report = self._known.get((*key, measure), failed.get(key, sample.report))
        found = [(sample, sample.report) for sample in samples if sample.report and sample.report.error is None]
        together = crowds([report for _, report in found], [sample.question for sample, _ in found])
        for (sample, report), crowd in zip(found, together, strict=True):
            sample.reward = reward(report, self.plan.shaping, crowd)

    def _compare(self, samples: list[_Sample]) -> list[_Sample]:
        """The samples whose group differs, each with its advantage: how many deviations it is above the group."""
        groups: dict[int, list[_Sample]] = {}
        for sample in samples:
            groups.setdefault(sample.question, []).append(sample)
        used: list[_Sample] = []
        for group in groups.values():
            for sample, advantage in zip(group, advantages([s.reward for s in group]), strict=True):
                sample.advantage = advantage
            if any(sample.advantage for sample in group):
                used += group
        return used

    def _update(self, samples: list[_Sample]) -> tuple[float, float]:
        """The mean loss, and the share of tokens whose probability had left the range that counts."""
        self.model.eval()  # without dropout, as the answers were drawn
        losses: list[float] = []
        left = torch.zeros((), device=self.model.embedding.weight.device)
        questions = list(dict.fromkeys(sample.question for sample in samples))
        for part in range(self.plan.updates):
            mine = set(questions[part :: self.plan.updates])
            chosen = sorted((s for s in samples if s.question in mine), key=lambda s: len(s.prompt) + len(s.answer))
            if not chosen:
                continue
            total = sum(len(s.answer) for s in chosen)
            self.optimiser.zero_grad(set_to_none=True)
            loss = 0.0
            for group in self._in_batches(chosen):
                value, outside = self._loss(group)
                value = value / total
                value.backward()
                loss += value.item()
                left += outside
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimiser.step()
            losses.append(loss)
        count = sum(len(s.answer) for s in samples)
        return sum(losses) / max(1, len(losses)), left.item() / count

    def _in_batches(self, samples: list[_Sample]) -> list[list[_Sample]]:
        result: list[list[_Sample]] = [[]]
        for sample in samples:  # the longest come last
            size = len(sample.prompt) + len(sample.answer)
            if result[-1] and (len(result[-1]) + 1) * size > self.plan.batch_tokens:
                result.append([])
            result[-1].append(sample)
        return result

    def _loss(self, samples: list[_Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """The clipped objective, negated, summed over the answers' tokens; and how many are outside the range."""
        device = self.model.embedding.weight.device
        longest = max(len(s.prompt) + len(s.answer) for s in samples)
        ids = torch.full((len(samples), longest), PAD, dtype=torch.long)
        for line, sample in enumerate(samples):
            both = [*sample.prompt, *sample.answer]
            ids[line, : len(both)] = torch.tensor(both)
        lines = torch.tensor([line for line, s in enumerate(samples) for _ in s.answer], device=device)
        places = torch.tensor([len(s.prompt) + n for s in samples for n in range(len(s.answer))], device=device)
        states = torch.tensor([state for s in samples for state in s.states], device=device)
        old = torch.tensor([log for s in samples for log in s.logarithms], device=device)
        advantage = torch.tensor([s.advantage for s in samples for _ in s.answer], device=device)
        ids = ids.to(device)
        with computing_on(device):
            hidden = self.model(ids[:, :-1])[lines, places - 1]
            logits = self.model.logits(hidden)
        allowed = self.automaton.masks.to(device)[states]
        logs = F.log_softmax((logits.float() / self.plan.temperature).masked_fill(~allowed, float("-inf")), -1)
        new = logs.gather(1, ids[lines, places][:, None])[:, 0]
        ratio = (new - old).exp()
        clipped = ratio.clamp(1 - self.plan.clip, 1 + self.plan.clip)
        return -torch.minimum(ratio * advantage, clipped * advantage).sum(), (ratio.detach() != clipped).sum()


def expected_s(history: Sequence[dict[str, Any]]) -> float:
    """What a round may take after these: as long as the longest of the last ones."""
    return max((sum(entry["seconds"].values()) for entry in history[-_LAST:]), default=0.0)


def advantages(rewards: Sequence[float]) -> list[float]:
    """How far each reward is above the group's mean, in standard deviations of the group; 0 where all are equal."""
    count = len(rewards)
    middle = sum(rewards) / max(1, count)
    deviation = (sum((r - middle) ** 2 for r in rewards) / max(1, count)) ** 0.5
    if deviation < 1e-6:
        return [0.0] * count
    return [(r - middle) / deviation for r in rewards]
