"""GRPO of a model with the verifier as reward, with TRL, as the recipe says.

    steptp export runs/small --format rl --out export/rl
    python scripts/train_grpo.py recipes/grpo-qwen3-1.7b.yaml export/rl --out models/grpo-qwen3-1.7b

The reward is `stepTP.rewards`: parsed, well-formed, legal, equal, each only after those before it. Needs the extra
`train`, and CPU cores for the workers that score.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from stepTP.recipe import RecipeError, adapters, exported, lines, load_recipe, require_training, settings
from stepTP.rewards.shaping import Shaping
from stepTP.rewards.trl import StepReward
from stepTP.verify.scorer import Scorer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("export", type=Path, help="the folder that steptp export --format rl wrote")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", help="another model than the recipe's")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    recipe = load_recipe(options.recipe)
    questions = prompts(exported(options.export, "train"))
    require_training()
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    with Scorer(recipe.reward.workers, recipe.reward.timeout_s) as scorer:
        trainer: Any = GRPOTrainer(
            model=options.model or recipe.model,
            reward_funcs=StepReward(Shaping(shared=recipe.reward.shared), scorer),
            args=settings(GRPOConfig, recipe, options.out),
            train_dataset=Dataset.from_list(questions),
            peft_config=adapters(recipe),
        )
        trainer.train(resume_from_checkpoint=options.resume or None)
        trainer.save_model(str(options.out))
    (options.out / "log.json").write_text(json.dumps(trainer.state.log_history, indent=1) + "\n", encoding="utf-8")


def prompts(file: Path) -> list[dict[str, Any]]:
    """The columns that the trainer and the reward look at. Raises RecipeError."""
    found: list[dict[str, Any]] = []
    for number, entry in lines(file):
        if missing := [key for key in ("prompt", "state", "source") if key not in entry]:
            raise RecipeError(f"{file}:{number}: no {missing[0]}: export with --format rl")
        found.append({key: entry[key] for key in ("prompt", "state", "source")})
    if not found:
        raise RecipeError(f"{file}: holds no questions: export a run with rows of the split train")
    return found


if __name__ == "__main__":
    try:
        main()
    except RecipeError as error:
        sys.exit(f"train_grpo: {error}")
