"""A recipe: which model is trained, how, and with what arguments of TRL. YAML, checked key by key."""

import importlib.util
import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError


class RecipeError(ValueError):
    """A recipe, or what it is used with, cannot be used; the message names the file, the key and the remedy."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Lora(_Section):
    """Sizes of the adapters, on all linear layers."""

    r: int = Field(default=32, ge=1)
    alpha: int = Field(default=64, ge=1)
    dropout: float = Field(default=0.05, ge=0, lt=1)


class Reward(_Section):
    """Of GRPO: how many processes score answers, the seconds of each part of it, and `shared` of the shaping."""

    workers: int | None = Field(default=None, ge=1)
    timeout_s: float = Field(default=60.0, gt=0)
    shared: bool = False


class Recipe(_Section):
    """`model`: a name of the hub or a folder. `arguments`: of TRL's SFTConfig or GRPOConfig, as they are there."""

    model: str = Field(min_length=1)
    method: Literal["full", "lora"] = "lora"
    lora: Lora = Lora()
    reward: Reward = Reward()
    arguments: dict[str, Any] = Field(default_factory=dict)


def load_recipe(file: Path) -> Recipe:
    """The recipe in a YAML file. Raises RecipeError."""
    try:
        data = yaml.safe_load(file.read_text(encoding="utf-8"))
        return Recipe.model_validate(data)
    except OSError as error:
        raise RecipeError(f"{file}: {error.strerror}: give a YAML file, like recipes/sft-qwen3-1.7b.yaml") from None
    except yaml.YAMLError as error:
        raise RecipeError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise RecipeError(f"{file}: {'.'.join(map(str, first['loc'])) or 'the recipe'}: {first['msg']}") from None


def exported(folder: Path, split: str) -> Path:
    """The file of a split of an export. Raises RecipeError."""
    file = folder / f"{split}.jsonl"
    if not file.is_file():
        raise RecipeError(f"{file}: no such file: write it with steptp export RUN --format sft (rl for GRPO)")
    return file


def lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The examples of a file, numbered from 1. Raises RecipeError."""
    with file.open(encoding="utf-8", errors="replace") as content:
        for number, line in enumerate(content, 1):
            try:
                entry = json.loads(line)
            except json.JSONDecodeError:
                entry = None
            if not isinstance(entry, dict):
                raise RecipeError(f"{file}:{number}: no JSON object: write it again with steptp export")
            yield number, entry


def require_training() -> None:
    """Raises RecipeError where a package of the extra `train` is not installed."""
    for package in ("trl", "peft"):
        if importlib.util.find_spec(package) is None:
            raise RecipeError(f"{package} is not installed: pip install 'steptp[train]'")


def settings(shape: Any, recipe: Recipe, out: Path) -> Any:
    """The recipe's arguments as TRL's configuration `shape`, a dataclass. Raises RecipeError where that lacks one."""
    known = {field.name for field in fields(shape)}
    if unknown := [name for name in recipe.arguments if name not in known]:
        raise RecipeError(f"arguments.{unknown[0]}: {shape.__name__} of TRL has none: is it the other script's recipe?")
    return shape(output_dir=str(out), report_to=[], **recipe.arguments)


def adapters(recipe: Recipe) -> Any:
    """PEFT's configuration of a LoRA recipe; None for one that trains everything."""
    if recipe.method == "full":
        return None
    from peft import LoraConfig  # pyright: ignore[reportMissingImports] (an extra)

    return LoraConfig(
        r=recipe.lora.r, lora_alpha=recipe.lora.alpha, lora_dropout=recipe.lora.dropout,
        target_modules="all-linear", task_type="CAUSAL_LM",
    )  # fmt: skip
