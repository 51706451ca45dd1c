"""Chat completions from any OpenAI-compatible server: vLLM, SGLang, llama.cpp, a hosted model.

Optional: the extra `teacher` installs the client, which retries what may pass (429, 5xx, lost connections).
"""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


class ChatError(RuntimeError):
    """A server gives no completion; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's reply. `thought`: its reasoning where the server keeps that apart. Tokens are None where not told."""

    text: str
    thought: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float
    finish: str  # "stop", or "length" where the reply was cut


@dataclass(frozen=True)
class Endpoint:
    """A model of a server. `key_variable` is the environment variable that holds its key, if it wants one."""

    url: str
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    timeout_s: float = 600.0
    retries: int = 4
    key_variable: str = "OPENAI_API_KEY"
    extra: dict[str, Any] = field(default_factory=dict)  # other fields of the request's body

    @cached_property
    def _client(self) -> Any:
        try:
            import openai
        except ImportError:
            raise ChatError("an endpoint needs the package openai: pip install 'steptp[teacher]'") from None
        key = os.environ.get(self.key_variable) or "none"  # local servers take any
        return openai.OpenAI(base_url=self.url, api_key=key, timeout=self.timeout_s, max_retries=self.retries)

    def complete(self, messages: Sequence[dict[str, str]], seed: int | None = None) -> Completion:
        """One reply; may be called from several threads. Raises ChatError."""
        client = self._client
        import openai

        given = {"temperature": self.temperature, "max_tokens": self.max_tokens, "seed": seed}
        start = time.monotonic()
        try:
            found = client.chat.completions.create(
                model=self.model,
                messages=list(messages),
                extra_body=self.extra or None,
                **{name: value for name, value in given.items() if value is not None},
            )
        except openai.APIStatusError as error:
            raise ChatError(f"{self.url}: {error.status_code}: {_first_line(error.message)}") from None
        except openai.APIConnectionError as error:
            reason = error.__cause__ or error
            raise ChatError(f"{self.url}: no answer ({_first_line(str(reason))}): is the server up?") from None
        except ValueError as error:
            raise ChatError(
                f"{self.url}: the reply is no JSON ({_first_line(str(error))}): is the address right?"
            ) from None
        except openai.OpenAIError as error:
            raise ChatError(f"{self.url}: {_first_line(str(error))}") from None
        choices: Any = getattr(found, "choices", None)
        choice = choices[0] if isinstance(choices, list) and choices else None
        message = getattr(choice, "message", None)
        if message is None:
            raise ChatError(f"{self.url}: the reply holds no choice: is this a chat-completions server?")
        usage = getattr(found, "usage", None)
        return Completion(
            text=_text(message, "content"),
            thought=_text(message, "reasoning_content") or _text(message, "reasoning"),
            prompt_tokens=_count(usage, "prompt_tokens"),
            completion_tokens=_count(usage, "completion_tokens"),
            seconds=time.monotonic() - start,
            finish=_text(choice, "finish_reason"),
        )


# The client checks nothing of what a server sends: a field may be missing, or be anything.
def _text(holder: object, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def _count(holder: object, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) else None


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]
