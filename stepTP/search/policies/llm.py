"""Asks a model for steps: any OpenAI-compatible endpoint, or a batch by files.

The prompt is that of training and evaluation (`stepTP.prompt`), with what a search knows besides: the strategies, the
steps so far, what the cost model says, the refusals at this state and why the last move from it failed. Each reply is
read as the dataset's answer (`stepTP.answer`); of a reply that holds none, or whose step is refused, the model is told
and asked again, `retries` times.

In a batch, `requests` gets one line a question, in the form of OpenAI's batch files, and the search ends; when
`replies` has the answers (lines with `custom_id` and `response`, or `custom_id` and `text`), the same search goes on.
Answers that an earlier call read are in the journal: `replies` need not keep them.
"""

import json
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepTP.answer import NotAnAnswer, read_answer
from stepTP.chat import ChatError, Endpoint
from stepTP.prompt import catalog_text, prompt
from stepTP.records import Step
from stepTP.search.asking import asked, offers, together
from stepTP.search.env import Environment
from stepTP.search.journal import done, key_of
from stepTP.search.protocol import Move, Node, Offer, Spent
from stepTP.walk import Refusal

_AT_ONCE = 16  # requests under way
_RETRIES = 4  # of a request that the server did not answer
_SHOWN = 5  # refusals of a state in a prompt
_GIVEN = "stepTP.search.work.given"


@dataclass(frozen=True, slots=True)
class Llm:
    """`count`: replies asked for at a state; `retries`: how often again where one is no legal step.

    `timeout_s`: of a request; where the search has less time left, it waits no longer than that.
    """

    url: str = ""
    model: str = ""
    count: int = 4
    retries: int = 2
    temperature: float | None = 0.8
    max_tokens: int | None = 4096
    timeout_s: float = 600.0
    requests: str = ""
    replies: str = ""
    name: str = "llm"

    def propose(self, env: Environment, nodes: Sequence[Node]) -> list[Offer]:
        found: list[list[Offer]] = [[] for _ in nodes]
        asking = [(n, seed, "") for n in range(len(nodes)) for seed in range(self.count)]
        for attempt in range(self.retries + 1):
            last = [env.failures.get(nodes[n].state.state_id, "") for n, _, _ in asking]
            questions = [
                (question(env, nodes[n], why or before), seed + attempt * self.count)
                for (n, seed, why), before in zip(asking, last, strict=True)
            ]
            texts = self._replies(env, questions)
            again: list[tuple[int, int, str]] = []
            steps: list[tuple[int, int, Step]] = []
            for (n, seed, _), text in zip(asking, texts, strict=True):
                step = read_step(text)
                if isinstance(step, Step):
                    steps.append((n, seed, step))
                else:
                    again.append((n, seed, step))
            payloads = [{**asked(env, nodes[n]), "steps": [[step.model_dump()]]} for n, _, step in steps]
            made = offers(env, _GIVEN, [nodes[n] for n, _, _ in steps], payloads)
            for (n, seed, step), offer in zip(steps, made, strict=True):
                found[n].append(offer)
                if not offer.moves:
                    again.append((n, seed, _refused(step, offer.around.refusals)))
            asking = sorted(again)
            if not asking:
                break
        return [_joined(parts) for parts in found]

    def _replies(self, env: Environment, questions: Sequence[tuple[list[dict[str, str]], int]]) -> list[str]:
        """The model's text for each question, asked once.

        Raises ChatError, and Spent where a batch has to be run or the time is over.
        """
        keys = [key_of("reply", [self.model, self.temperature, self.max_tokens, *question]) for question in questions]
        known: dict[str, dict[str, Any]] = {}
        if self.requests:
            known = _batch_replies(Path(self.replies))
            self._require_batch(env, known, keys, questions)

        def make(numbers: list[int]) -> list["Future[Any]"]:
            if self.requests:
                return [done(known[keys[n]]) for n in numbers]
            endpoint = self._endpoint(env.left().seconds)
            return [threads.submit(_complete, endpoint, *questions[n]) for n in numbers]

        try:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                answers = env.journal.ask_all(keys, make)
        except ChatError:
            env.require(0)  # of a server that is slow, the time may be over
            raise
        told = [answer["tokens"] for answer in answers if answer["tokens"] is not None]
        if told:
            env.tokens = (env.tokens or 0) + sum(told)
        return [answer["text"] for answer in answers]

    def _endpoint(self, left: float | None) -> Endpoint:
        hurried = left is not None and left < self.timeout_s
        return Endpoint(
            self.url,
            self.model,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            timeout_s=max(1.0, left) if left is not None and hurried else self.timeout_s,
            retries=0 if hurried else _RETRIES,
        )

    def _require_batch(
        self,
        env: Environment,
        known: dict[str, dict[str, Any]],
        keys: Sequence[str],
        questions: Sequence[tuple[list[dict[str, str]], int]],
    ) -> None:
        """Writes the questions that have no reply yet. Raises Spent where there are any."""
        missing = {
            key: question
            for key, question in zip(keys, questions, strict=True)
            if key not in known and not env.journal.knows(key)
        }
        if not missing:
            return
        lines = [
            json.dumps(
                {
                    "custom_id": key, "method": "POST", "url": "/v1/chat/completions",
                    "body": {"model": self.model, "messages": messages, "seed": seed, "temperature": self.temperature,
                             "max_tokens": self.max_tokens},
                }
            )
            for key, (messages, seed) in missing.items()
        ]  # fmt: skip
        Path(self.requests).write_text("\n".join(lines) + "\n", encoding="utf-8")
        raise Spent(f"{len(lines)} questions are in {self.requests}: answer them in {self.replies}, and search again")


def question(env: Environment, node: Node, failure: str) -> list[dict[str, str]]:
    """The messages that ask for a step at a state."""
    system, user = prompt(node.state.leir)
    parts = [user["content"]]
    if node.state.path:
        taken = "\n".join(json.dumps(step.model_dump()) for step in node.state.path)
        parts.append(f"Steps so far:\n{taken}")
    if node.predicted_s is not None:
        parts.append(
            f"The cost model predicts {node.predicted_s * 1e6:.4g} us on {env.settings.target}; the source program "
            f"takes {(env.root.predicted_s or 0) * 1e6:.4g} us."
        )
    refused = [r for state, r in env.refusals if state.state_id == node.state.state_id][:_SHOWN]
    if refused:
        facts = [(json.dumps(r.step.model_dump()), r.facts[-1]) for r in refused]
        parts.append("Refused here:\n" + "\n".join(f"{step}: {fact.name}: {fact.evidence}" for step, fact in facts))
    if failure:
        parts.append(f"The last answer failed: {failure}")
    strategies = f"The strategies:\n{catalog_text()}"
    return [{**system, "content": f"{system['content']}\n{strategies}"}, {**user, "content": "\n\n".join(parts)}]


def read_step(text: str) -> Step | str:
    """The step of a reply, or why there is none."""
    try:
        step = read_answer(text).step
    except NotAnAnswer as error:
        return f"{error.code}: {error.reason}"
    return step or "the answer names no strategy"


def _complete(endpoint: Endpoint, messages: list[dict[str, str]], seed: int) -> dict[str, Any]:
    found = endpoint.complete(messages, seed=seed)
    counts = [count for count in (found.prompt_tokens, found.completion_tokens) if count is not None]
    return {"text": found.text, "tokens": sum(counts) if counts else None}


def _batch_replies(file: Path) -> dict[str, dict[str, Any]]:
    """The replies of a batch file by the id of their question; none where there is no file. Raises ChatError."""
    if not file.is_file():
        return {}
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(file.read_bytes().splitlines(), 1):
        try:
            data = json.loads(line)
            text, tokens = data.get("text"), None
            if text is None:
                body = data["response"]["body"]
                text, tokens = body["choices"][0]["message"]["content"], (body.get("usage") or {}).get("total_tokens")
            found[str(data["custom_id"])] = {"text": str(text or ""), "tokens": tokens}
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise ChatError(
                f"{file}:{number}: is no reply of a batch: a line has custom_id, and response or text"
            ) from None
    return found


def _refused(step: Step, refusals: tuple[Refusal, ...]) -> str:
    if not refusals:
        return f"{step.strategy}: it cannot be read: see the strategies' arguments"
    fact = refusals[-1].facts[-1]
    return f"{step.strategy} is refused: {fact.name}: {fact.evidence}"


def _joined(parts: Sequence[Offer]) -> Offer:
    moves: dict[str, Move] = {}
    for move in (move for part in parts for move in part.moves):
        moves.setdefault(move.end, move)
    return Offer(tuple(moves.values()), together([part.around for part in parts]))


POLICY = Llm
