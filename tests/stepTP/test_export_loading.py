"""Exported files in the libraries that they are for; each test runs where its library is installed."""

import json
from pathlib import Path
from typing import Any

import pytest

from stepTP.export.formats import FORMATS, FormatName, Wanted
from stepTP.export.write import export_run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def loaded(folder: Path, cache: Path) -> Any:
    """All splits of an exported folder, as `datasets` reads them."""
    datasets = pytest.importorskip("datasets", reason="the extra `publish` is not installed")
    files = {file.stem: str(file) for file in sorted(folder.glob("*.jsonl"))}
    return datasets.load_dataset("json", data_files=files, cache_dir=str(cache))


@pytest.mark.parametrize("name", FORMATS)
def test_datasets_loads_every_format(small_run: Path, tmp_path: Path, name: FormatName) -> None:
    made = export_run(small_run, name, Wanted(), tmp_path / name)
    found = loaded(tmp_path / name, tmp_path / "cache")
    assert {split: len(rows) for split, rows in found.items()} == made.examples
    shape = FORMATS[name].shape
    for row in found["train"]:
        shape.model_validate(row)


def tiny_model() -> tuple[Any, Any]:
    """A decoder of random weights and a tokenizer of bytes, made here and downloaded from nowhere."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<pad>", "<eos>"]
    byte_level = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token="<pad>", eos_token="<eos>")
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: "
        "{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant: {% endif %}"
    )
    config = LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=256, eos_token_id=257, bos_token_id=257,
    )  # fmt: skip
    return LlamaForCausalLM(config), tokenizer


SETTINGS: dict[str, Any] = {
    "per_device_train_batch_size": 2, "max_steps": 2, "logging_steps": 1, "report_to": [], "use_cpu": True,
    "save_strategy": "no", "bf16": False,
}  # fmt: skip


@pytest.mark.parametrize("name", ["sft", "sft_reasoning_content"])
def test_trl_fine_tunes_on_it(small_run: Path, tmp_path: Path, name: FormatName) -> None:
    trl = pytest.importorskip("trl", reason="the extra `rewards` is not installed")
    export_run(small_run, name, Wanted(), tmp_path / name)
    rows = loaded(tmp_path / name, tmp_path / "cache")["train"].select(range(4))
    model, tokenizer = tiny_model()
    args = trl.SFTConfig(output_dir=str(tmp_path), max_length=512, **SETTINGS)
    trainer = trl.SFTTrainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer)
    text = tokenizer.decode(trainer.train_dataset[0]["input_ids"])
    assert "system: You optimise tensor programs" in text
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == 2
    assert all(0 < loss < 20 for loss in losses)


def test_trl_rewards_answers_to_it(small_run: Path, tmp_path: Path) -> None:
    """GRPO asks the exported questions; labels of the same rows earn what right answers earn."""
    trl = pytest.importorskip("trl", reason="the extra `rewards` is not installed")
    from stepTP.rewards.trl import step_reward

    export_run(small_run, "rl", Wanted(), tmp_path / "rl")
    export_run(small_run, "sft", Wanted(), tmp_path / "sft")
    questions = loaded(tmp_path / "rl", tmp_path / "cache")["train"].select(range(2))
    labels = {
        row["id"]: row["messages"][-1]["content"] for row in loaded(tmp_path / "sft", tmp_path / "cache")["train"]
    }
    model, tokenizer = tiny_model()
    args = trl.GRPOConfig(output_dir=str(tmp_path), num_generations=2, max_completion_length=8, **SETTINGS)
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=step_reward, args=args, train_dataset=questions, processing_class=tokenizer
    )
    trainer.train()
    # The run's modules are not what its programs compute (they are a stand-in's): the plain programs are the reference.
    inputs = [{**row, "source": without_module(row["source"])} for row in questions]
    answers = [[{"role": "assistant", "content": labels[row["id"]]}] for row in inputs]
    counted = trainer._calculate_rewards(inputs, [row["prompt"] for row in inputs], answers, [[1]] * len(inputs))
    assert counted[:, 0].tolist() == pytest.approx([0.8, 0.8])


def without_module(source: str) -> str:
    data = json.loads(source)
    data["source"]["torch_code"] = ""
    return json.dumps(data)


def test_trl_takes_chains_for_stepwise_supervision(small_run: Path, tmp_path: Path) -> None:
    """The type of dataset that TRL documents for reward models of processes: a prompt, completions and their labels."""
    export_run(small_run, "stepwise", Wanted(), tmp_path / "stepwise")
    datasets = pytest.importorskip("datasets", reason="the extra `publish` is not installed")
    rows = loaded(tmp_path / "stepwise", tmp_path / "cache")["train"]
    assert rows.features["labels"] == datasets.List(datasets.Value("bool"))
    assert rows.features["completions"] == datasets.List(datasets.Value("string"))
    assert {row["labels"][-1] for row in rows} == {True, False}
