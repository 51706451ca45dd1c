"""The columns of a prompt's row that a reward needs, `state` and `source`, to tasks and back."""

import json
from collections.abc import Mapping
from typing import Any

from stepTP.verify.report import Task


def columns_of(task: Task) -> dict[str, str]:
    """`state`, the LEIR before the step, and `source`, all else of the task as JSON: text, which every format keeps."""
    rest = task.model_dump(mode="json", exclude={"state"}, exclude_defaults=True)
    return {"state": task.state, "source": json.dumps(rest, sort_keys=True)}


def task_data(state: str, source: str | Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the task that two columns hold, not checked yet. Raises ValueError for what is no JSON object."""
    rest = json.loads(source) if isinstance(source, str) else dict(source)
    if not isinstance(rest, dict):
        raise ValueError(f"source is a JSON object, not {type(rest).__name__}")
    return {**rest, "state": state}


def text_of(completion: Any) -> str:
    """The text of a completion: a string, or the last message's content of a conversation."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, list):  # parts of a message, of which texts count
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return content or ""
