"""Fine-tunes a model on an export of a run, with TRL: LoRA or all weights, as the recipe says.

    steptp export runs/small --format sft --out export/sft
    python scripts/train_sft.py recipes/sft-qwen3-1.7b.yaml export/sft --out models/sft-qwen3-1.7b

The loss is of the answers alone. Ablations are exports: `--no-reasoning`, `--unfiltered`, `--answer step`,
`--text tir|cuda`. Needs the extra `train`. A run that was stopped goes on from its last checkpoint with --resume.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from stepTP.recipe import RecipeError, adapters, exported, lines, load_recipe, require_training, settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("export", type=Path, help="the folder that steptp export wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", help="another model than the recipe's")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    recipe = load_recipe(options.recipe)
    train = conversations(exported(options.export, "train"))
    require_training()
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    trainer = SFTTrainer(
        model=options.model or recipe.model,
        args=settings(SFTConfig, recipe, options.out),
        train_dataset=Dataset.from_list(train),
        peft_config=adapters(recipe),
    )
    trainer.train(resume_from_checkpoint=options.resume or None)
    trainer.save_model(str(options.out))
    (options.out / "log.json").write_text(json.dumps(trainer.state.log_history, indent=1) + "\n", encoding="utf-8")


def conversations(file: Path) -> list[dict[str, Any]]:
    """The examples as prompt and completion, so that TRL's loss is of the answer. Raises RecipeError."""
    found: list[dict[str, Any]] = []
    for number, entry in lines(file):
        messages = entry.get("messages")
        if not messages or messages[-1]["role"] != "assistant":
            raise RecipeError(f"{file}:{number}: no conversation that ends in an answer: export with --format sft")
        found.append({"prompt": messages[:-1], "completion": messages[-1:]})
    if not found:
        raise RecipeError(f"{file}: holds no examples: export a run with rows of the split train")
    return found


if __name__ == "__main__":
    try:
        main()
    except RecipeError as error:
        sys.exit(f"train_sft: {error}")
