"""What each tool documents of the files that it reads, checked on plain data: a list of what is wrong, empty for none.

Written from the documentation of TRL (dataset formats and types), ms-swift (custom datasets), Axolotl (`chat_template`
with `reasoning_content`), LLaMA-Factory (`dataset_info.json`, sharegpt) and verl (reward functions), not from the code
that makes the examples.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

_FILE_TYPES = (".json", ".jsonl", ".csv", ".parquet", ".arrow")  # that LLaMA-Factory reads
_COLUMNS = ("prompt", "query", "response", "history", "messages", "system", "tools", "images", "videos", "audios",
            "chosen", "rejected", "kto_tag")  # fmt: skip
_TAGS = ("role_tag", "content_tag", "user_tag", "assistant_tag", "observation_tag", "function_tag", "system_tag")


def trl_conversation(row: Row) -> list[str]:
    """TRL, language modelling, conversational: `messages`, the last of them what is learnt."""
    return [*_messages(row, "messages"), *_ends_with(row, "messages", "assistant"), *_one_of(row)]


def ms_swift_messages(row: Row) -> list[str]:
    """ms-swift's standard format: a system message at most first, then user and assistant in turn."""
    problems = [*_messages(row, "messages"), *_ends_with(row, "messages", "assistant")]
    if problems:
        return problems
    roles = [message["role"] for message in row["messages"]]
    spoken = roles[1:] if roles[0] == "system" else roles
    if spoken != ["user", "assistant"] * (len(spoken) // 2):
        problems.append(f"messages: user and assistant take turns, not {', '.join(roles)}")
    extra = [message for message in row["messages"] if set(message) - {"role", "content"}]
    return problems + [f"messages: keys are role and content, not {', '.join(m)}" for m in extra]


def axolotl_messages(row: Row) -> list[str]:
    """Axolotl, `type: chat_template`: a thought is `reasoning_content` of an assistant's message, not in its text."""
    problems = [*_messages(row, "messages"), *_ends_with(row, "messages", "assistant")]
    for message in row.get("messages", ()):
        thought = message.get("reasoning_content")
        if set(message) - {"role", "content", "reasoning_content"}:
            problems.append(f"messages: unknown keys in {', '.join(message)}")
        if thought is not None and (message["role"] != "assistant" or not isinstance(thought, str) or not thought):
            problems.append("reasoning_content: a text of the assistant's")
        if message.get("role") == "assistant" and "<think>" in str(message.get("content")):
            problems.append("content: holds a thought that reasoning_content should hold")
    return problems


def trl_stepwise(row: Row) -> list[str]:
    """TRL, stepwise supervision, standard: a prompt, completions, and as many labels."""
    problems = [] if _text(row.get("prompt")) else ["prompt: a text"]
    said, labels = row.get("completions"), row.get("labels")
    if not isinstance(said, list) or not said or not all(_text(text) for text in said):
        problems.append("completions: a list of texts, not empty")
    if not isinstance(labels, list) or not all(isinstance(label, bool) for label in labels):
        problems.append("labels: a list of true and false")
    elif isinstance(said, list) and len(labels) != len(said):
        problems.append(f"labels: {len(labels)} for {len(said)} completions")
    return problems


def trl_prompt_only(row: Row) -> list[str]:
    """TRL, prompt-only, conversational: the last message is the user's; columns beside it go to the reward function."""
    reserved = [key for key in ("completions", "completion_ids", "trainer_state") if key in row]
    problems = [*_messages(row, "prompt"), *_ends_with(row, "prompt", "user")]
    return problems + [f"{key}: the trainer's own name for an argument of a reward function" for key in reserved]


def verl_rule(row: Row) -> list[str]:
    """verl's RLHF rows: `prompt` as messages, `data_source`, and `reward_model` with its ground truth."""
    problems = [*_messages(row, "prompt"), *_ends_with(row, "prompt", "user")]
    if not _text(row.get("data_source")):
        problems.append("data_source: a text")
    reward = row.get("reward_model")
    if not isinstance(reward, dict) or reward.get("style") != "rule" or not _text(reward.get("ground_truth")):
        problems.append("reward_model: style rule, and a ground_truth")
    if not isinstance(row.get("extra_info", {}), dict):
        problems.append("extra_info: an object")
    return problems


def llama_factory_row(row: Row) -> list[str]:
    """LLaMA-Factory, sharegpt: human (or observation) in odd places, gpt (or function_call) in even ones."""
    turns = row.get("conversations")
    if not isinstance(turns, list) or not turns or len(turns) % 2:
        return ["conversations: a list of pairs, not empty"]
    problems: list[str] = []
    for place, turn in enumerate(turns):
        allowed = ("gpt", "function_call") if place % 2 else ("human", "observation")
        if set(turn) != {"from", "value"} or not _text(turn.get("value")):
            problems.append(f"conversations[{place}]: from and value, both texts")
        elif turn["from"] not in allowed:
            problems.append(f"conversations[{place}]: from is {' or '.join(allowed)}, not {turn['from']}")
    if not isinstance(row.get("system", ""), str):
        problems.append("system: a text")
    return problems


def llama_factory_folder(folder: Path) -> list[str]:
    """LLaMA-Factory: every entry of `dataset_info.json` names a file beside it, its columns and its tags."""
    info = json.loads((folder / "dataset_info.json").read_text(encoding="utf-8"))
    problems: list[str] = []
    for name, entry in info.items():
        file = entry.get("file_name")
        if not _text(file) or not (folder / file).is_file() or Path(file).suffix not in _FILE_TYPES:
            problems.append(f"{name}: file_name: no file of {', '.join(_FILE_TYPES)} beside it: {file}")
        if entry.get("formatting", "alpaca") != "sharegpt":
            problems.append(f"{name}: formatting: sharegpt, not {entry.get('formatting')}")
        problems += [
            f"{name}: columns: no such column {key}" for key in entry.get("columns", {}) if key not in _COLUMNS
        ]
        problems += [f"{name}: tags: no such tag {key}" for key in entry.get("tags", {}) if key not in _TAGS]
    return problems


# What is checked of each format's rows, and of its folder.
ROW_CHECKS: dict[str, tuple[Callable[[Row], list[str]], ...]] = {
    "sft": (trl_conversation, ms_swift_messages),
    "sft_reasoning_content": (axolotl_messages,),
    "sharegpt": (llama_factory_row,),
    "stepwise": (trl_stepwise,),
    "rl": (trl_prompt_only, verl_rule),
}
FOLDER_CHECKS: dict[str, Callable[[Path], list[str]]] = {"sharegpt": llama_factory_folder}


def problems_of(folder: Path, format_name: str) -> Iterator[str]:
    """What a tool would not take of an exported folder, with file and line."""
    for file in sorted(folder.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                row = json.loads(line)
                yield from (f"{file}:{number}: {p}" for check in ROW_CHECKS[format_name] for p in check(row))
    if format_name in FOLDER_CHECKS:
        yield from (f"{folder}: {problem}" for problem in FOLDER_CHECKS[format_name](folder))


def _messages(row: Row, key: str) -> Iterator[str]:
    messages = row.get(key)
    if not isinstance(messages, list) or not messages:
        yield f"{key}: a list of messages, not empty"
        return
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant"):
            yield f"{key}[{place}]: role is system, user or assistant"
        elif not _text(message.get("content")):
            yield f"{key}[{place}]: content: a text, not empty"
    roles = [message.get("role") for message in messages if isinstance(message, dict)]
    if "system" in roles[1:]:
        yield f"{key}: a system message stands first"
    yield from (f"{key}: two messages of {one} in a row" for one, other in pairwise(roles) if one == other)


def _ends_with(row: Row, key: str, role: str) -> Iterator[str]:
    messages = row.get(key) or [{}]
    if messages[-1].get("role") != role:
        yield f"{key}: the last message is the {role}'s"


def _one_of(row: Row) -> Iterator[str]:
    """TRL tells the type of a dataset by its columns: those of another type may not stand beside `messages`."""
    yield from (f"{key}: a column of another type of dataset" for key in ("prompt", "completion", "text") if key in row)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)
