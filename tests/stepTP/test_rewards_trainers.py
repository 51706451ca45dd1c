"""The reward functions under the trainers that call them; each test runs where its library is installed."""

from pathlib import Path
from typing import Any

import pytest

from stepTP.answer import FORM
from stepTP.rewards.tasks import columns_of
from tests.stepTP.test_score import AFTER_SPLIT, NO_LOOP, SPLIT, TASK, reply

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

RIGHT = f"<think>...</think>{reply(SPLIT, AFTER_SPLIT)}"


def test_trl_trains_with_it(tmp_path: Path) -> None:
    """Two steps of GRPO on a tiny model of random weights, which is built here and downloaded from nowhere."""
    trl = pytest.importorskip("trl", reason="the extra `rewards` is not installed")
    from datasets import Dataset
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from stepTP.rewards.trl import step_reward

    letters = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<pad>", "<eos>"]
    byte_level = Tokenizer(models.BPE(vocab={letter: n for n, letter in enumerate(letters)}, merges=[]))
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level, pad_token="<pad>", eos_token="<eos>")
    config = LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=1024, pad_token_id=256, eos_token_id=257, bos_token_id=257,
    )  # fmt: skip
    rows = Dataset.from_list([{"prompt": f"{TASK.state}\n{FORM}", **columns_of(TASK)}] * 4)
    settings: dict[str, Any] = {
        "output_dir": str(tmp_path), "per_device_train_batch_size": 4, "num_generations": 4, "max_completion_length": 8,
        "max_steps": 2, "logging_steps": 1, "report_to": [], "use_cpu": True, "save_strategy": "no", "bf16": False,
    }  # fmt: skip
    trainer = trl.GRPOTrainer(
        model=LlamaForCausalLM(config), reward_funcs=step_reward, args=trl.GRPOConfig(**settings), train_dataset=rows,
        processing_class=tokenizer,
    )  # fmt: skip
    trainer.train()
    logged = [entry["rewards/step_reward/mean"] for entry in trainer.state.log_history if "reward" in entry]
    assert logged == [0.0, 0.0]
    # What the model would get for answers that it is too small to give, by the trainer's own accounting.
    answers = [RIGHT, reply(SPLIT), NO_LOOP, "no answer"]
    inputs = [{"prompt": "p", **columns_of(TASK)} for _ in answers]
    counted = trainer._calculate_rewards(inputs, ["p"] * 4, answers, [[1]] * 4)
    assert counted[:, 0].tolist() == pytest.approx([0.8, 0.8, 0.05, 0.0])


def test_verl_calls_it() -> None:
    """By its reward loop's manager, which loads the function from its file as a trainer's configuration says."""
    pytest.importorskip("verl", reason="verl is not installed")
    import asyncio

    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
    from verl.trainer.ppo.reward import get_custom_reward_fn

    import stepTP.rewards.verl as ours

    class Letters:
        """A tokenizer of characters."""

        def decode(self, ids: Any, skip_special_tokens: bool) -> str:
            assert skip_special_tokens
            return "".join(map(chr, ids.tolist()))

    custom = {"path": ours.__file__, "name": "compute_score"}
    settings = OmegaConf.create({"custom_reward_function": custom, "reward": {"custom_reward_function": custom}})
    function = get_custom_reward_fn(settings)
    assert function is not None
    ids = torch.tensor([[ord(letter) for letter in RIGHT]])
    prompt = torch.zeros((1, 1), dtype=torch.long)
    data = DataProto.from_dict(
        tensors={
            "prompts": prompt,
            "responses": ids,
            "attention_mask": torch.ones((1, ids.shape[1] + 1), dtype=torch.long),
        },
        non_tensors={
            "data_source": np.array(["steptp"], dtype=object),
            "reward_model": np.array([{"ground_truth": TASK.model_dump_json()}], dtype=object),
            "extra_info": np.array([{}], dtype=object),
        },
    )

    async def scored() -> dict[str, Any]:
        return await NaiveRewardManager(settings, Letters(), function).run_single(data)

    found = asyncio.run(scored())
    assert found["reward_score"] == pytest.approx(0.8)
    assert (found["reward_extra_info"]["acc"], found["reward_extra_info"]["legal"]) == (1.0, 1.0)


def test_verifiers_plugs_it_in() -> None:
    """As a task's configuration names it."""
    pytest.importorskip("verifiers", reason="verifiers is not installed")
    import asyncio

    import verifiers.v1 as vf
    from verifiers.v1.configs.task import RewardFunctionConfig, TaskConfig
    from verifiers.v1.trace import AgentInfo, Trace, TraceTask

    class Data(vf.TaskData):
        state: str
        source: str

    class Step(vf.Task[Data, vf.State, TaskConfig]):
        pass

    plugged = RewardFunctionConfig(fn="stepTP.rewards.verifiers:step_reward")
    task = Step(Data(prompt=FORM, **columns_of(TASK)), TaskConfig(rewards={"step": plugged}))
    trace = Trace[Data, vf.State, Any].model_construct(
        task=TraceTask.model_construct(data=task.data), agent=AgentInfo.model_construct(), root_reply=RIGHT, nodes=[],
        rewards={}, metrics={},
    )  # fmt: skip
    assert trace.last_reply == RIGHT
    asyncio.run(task.score(trace))
    step = trace.rewards["step"]
    assert step is not None
    assert step.value == pytest.approx(0.8)
