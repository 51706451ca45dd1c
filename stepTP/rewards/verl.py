"""The reward for verl: `custom_reward_function.path=.../stepTP/rewards/verl.py`, `name=compute_score`.

A row's `reward_model.ground_truth` is the task as JSON (`Task.model_dump_json()`), or the task's fields.
"""

import json
from collections.abc import Mapping
from typing import Any

from stepTP.rewards.shaping import reward
from stepTP.verify.scorer import score


def compute_score(
    data_source: str,  # noqa: ARG001 (verl gives it)
    solution_str: str,
    ground_truth: str | Mapping[str, Any],
    extra_info: Mapping[str, Any] | None = None,  # noqa: ARG001 (verl gives it)
    **_: Any,
) -> dict[str, float]:
    """`score`, the reward, and what verl logs: `acc` (accepted) and each stage of it, 1 or 0.

    Raises Unscored where the answer cannot be judged, through no fault of its own.
    """
    task = json.loads(ground_truth) if isinstance(ground_truth, str) else ground_truth
    report = score(solution_str, task)
    value = reward(report)
    stages = {
        name: float(report.outcome(name).status == "pass") for name in ("parsed", "well_formed", "legal", "equal")
    }
    return {"score": value, "acc": float(report.accepted), **stages}
