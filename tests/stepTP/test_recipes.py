"""Recipes: each is whole and is TRL's; and both scripts train a tiny model of random weights."""

import importlib.util
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from stepTP.answer import with_thought
from stepTP.prompt import prompt
from stepTP.recipe import Recipe, RecipeError, exported, load_recipe, require_training, settings
from stepTP.rewards.tasks import columns_of
from tests.stepTP.test_evaluate_single import RIGHT
from tests.stepTP.test_score import SOFTMAX, TASK

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes").glob("*.yaml"))
TEMPLATE = (
    "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_says_what_is_trained(file: Path) -> None:
    recipe = load_recipe(file)
    assert recipe.model.split("/")[-1].lower().removeprefix("sft-") == file.stem.partition("-")[2]
    assert (recipe.method == "lora") == ("lora" in yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: m\nmethd: full\n", "methd: Extra inputs"),
        ("method: full\n", "model: Field required"),
        ("model: m\nlora: {r: 0}\n", "lora.r: "),
        ("model: [", "not YAML"),
    ],
)
def test_a_recipe_that_is_wrong_is_told(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(RecipeError, match=message):
        load_recipe(file)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="like recipes/"):
        load_recipe(tmp_path / "none.yaml")
    with pytest.raises(RecipeError, match="steptp export"):
        exported(tmp_path, "train")
    file = tmp_path / "train.jsonl"
    file.write_text("")
    for name, read in (("train_sft", "conversations"), ("train_grpo", "prompts")):
        with pytest.raises(RecipeError, match="holds no"):
            getattr(script(name), read)(file)
    for text in ("{\n", "[]\n"):
        file.write_text(text)
        for name, read in (("train_sft", "conversations"), ("train_grpo", "prompts")):
            with pytest.raises(RecipeError, match=r"train.jsonl:1: no JSON object"):
                getattr(script(name), read)(file)
    file.write_text("{}\n")
    with pytest.raises(RecipeError, match=r"train.jsonl:1: no conversation"):
        script("train_sft").conversations(file)
    with pytest.raises(RecipeError, match=r"train.jsonl:1: no prompt"):
        script("train_grpo").prompts(file)


@pytest.mark.parametrize("package", ["trl", "peft"])
def test_a_package_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(RecipeError, match=rf"{package} is not installed: pip install 'steptp\[train\]'"):
        require_training()


@dataclass
class Configuration:
    """Of TRL's kind."""

    output_dir: str
    report_to: list[str]
    num_generations: int = 8


def test_an_argument_that_trl_lacks_is_told(tmp_path: Path) -> None:
    recipe = Recipe(model="m", arguments={"num_generations": 4})
    assert settings(Configuration, recipe, tmp_path) == Configuration(str(tmp_path), [], 4)
    other = Recipe(model="m", arguments={"assistant_only_loss": True})
    with pytest.raises(RecipeError, match=r"arguments.assistant_only_loss: Configuration of TRL has none"):
        settings(Configuration, other, tmp_path)


def test_the_loss_is_of_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    messages = [*prompt(SOFTMAX), {"role": "assistant", "content": RIGHT}]
    file.write_text(json.dumps({"id": "x", "messages": messages}) + "\n")
    (found,) = script("train_sft").conversations(file)
    assert found == {"prompt": messages[:2], "completion": messages[2:]}


def tiny_model(folder: Path) -> None:
    """A Llama of random weights with a tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<pad>", "<eos>"]
    byte_level = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=2048, pad_token_id=256, eos_token_id=257, bos_token_id=257,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def train(name: str, tmp_path: Path, method: str, arguments: dict[str, Any], rows: list[dict[str, Any]]) -> Any:
    """What a script logs that trains the tiny model on rows."""
    tiny_model(tmp_path / "model")
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    common = {"use_cpu": True, "bf16": False, "logging_steps": 1, "save_strategy": "no"}
    recipe = {"model": str(tmp_path / "model"), "method": method, "lora": {"r": 2}, "reward": {"workers": 1}}
    (tmp_path / "r.yaml").write_text(yaml.safe_dump({**recipe, "arguments": {**common, **arguments}}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, str(tmp_path / "r.yaml"), str(tmp_path), "--out", str(tmp_path / "out")])
        script(name).main()
    return json.loads((tmp_path / "out" / "log.json").read_text())


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipes_arguments_are_trls(file: Path, tmp_path: Path) -> None:
    """Each is a field of TRL's configuration, which takes all of them together, but for bf16 on a CPU."""
    trl = pytest.importorskip("trl", reason="the extra `train` is not installed")
    recipe = load_recipe(file)
    shape = trl.GRPOConfig if file.stem.startswith("grpo") else trl.SFTConfig
    given = {**recipe.arguments, "bf16": False, "use_cpu": True, "output_dir": str(tmp_path), "report_to": []}
    made = shape(**given)
    assert recipe.arguments["bf16"] is True
    for name, value in given.items():
        assert getattr(made, name) == value, name
    if shape is trl.GRPOConfig:
        batch = recipe.arguments["per_device_train_batch_size"] * recipe.arguments["gradient_accumulation_steps"]
        assert batch % recipe.arguments["num_generations"] == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", ["full", "lora"])
def test_sft_lowers_the_loss(tmp_path: Path, method: str) -> None:
    pytest.importorskip("trl", reason="the extra `train` is not installed")
    pytest.importorskip("peft", reason="the extra `train` is not installed")
    messages = [*prompt("in A"), {"role": "assistant", "content": with_thought("so", "yes " * 20)}]
    arguments = {"learning_rate": 0.03, "max_steps": 8, "per_device_train_batch_size": 2, "max_length": 1536}
    logged = train("train_sft", tmp_path, method, arguments, [{"id": "x", "messages": messages}] * 4)
    losses = [entry["loss"] for entry in logged if "loss" in entry]
    assert len(losses) == 8
    assert losses[-1] < losses[0] - (0.5 if method == "full" else 0.01), losses
    kept = "adapter_model.safetensors" if method == "lora" else "model.safetensors"
    assert (tmp_path / "out" / kept).is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_grpo_asks_the_verifier(tmp_path: Path) -> None:
    pytest.importorskip("trl", reason="the extra `train` is not installed")
    pytest.importorskip("peft", reason="the extra `train` is not installed")
    arguments = {"max_steps": 1, "per_device_train_batch_size": 2, "num_generations": 2, "max_completion_length": 4}
    row = {"id": "x", "prompt": prompt("in A"), **columns_of(TASK)}
    logged = train("train_grpo", tmp_path, "full", arguments, [row] * 2)
    assert [entry["rewards/step_reward/mean"] for entry in logged if "reward" in entry] == [0.0]
