"""The examples of each format: keys are what the tool that reads them documents, and the JSON schemas are published."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Example(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Message(_Example):
    """A message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class ThoughtMessage(Message):
    """A message whose thought stands apart from its content; only an assistant's has one."""

    reasoning_content: str | None = None


class Turn(_Example):
    """A message in ShareGPT's words."""

    speaker: Literal["human", "gpt"] = Field(validation_alias="from", serialization_alias="from")
    value: str


class SftExample(_Example):
    """A conversation of one question and its answer. `id`: of the row."""

    id: str
    messages: tuple[Message, ...]


class ThoughtExample(_Example):
    """The same, with the reasoning as a key of its own."""

    id: str
    messages: tuple[ThoughtMessage, ...]


class ShareGptExample(_Example):
    """The same, in ShareGPT's words."""

    id: str
    system: str
    conversations: tuple[Turn, ...]


class StepwiseExample(_Example):
    """A chain of proposals with a verdict on each: all hold but perhaps the last. `id`: of the trajectory."""

    id: str
    prompt: str
    completions: tuple[str, ...]
    labels: tuple[bool, ...]


class VerlReward(_Example):
    """What verl hands to its reward function. `ground_truth`: the task as JSON."""

    style: Literal["rule"] = "rule"
    ground_truth: str


class RlExample(_Example):
    """A question without its answer, and what the verifier needs to judge any: columns of TRL's and of verl's rewards.

    `state` and `source` are those of `stepTP.rewards.tasks`; `data_source`, `reward_model` and `extra_info` are verl's.
    """

    id: str
    prompt: tuple[Message, ...]
    state: str
    source: str
    data_source: Literal["steptp"] = "steptp"
    reward_model: VerlReward
    extra_info: dict[str, Any]


Example = SftExample | ThoughtExample | ShareGptExample | StepwiseExample | RlExample


def to_line(example: Example) -> str:
    """The example as one line of JSON, ending in a line break; a thought that is not there has no key."""
    return example.model_dump_json(by_alias=True, exclude_none=True) + "\n"
