"""The reward for the verifiers library (v1): a function for a task's `rewards`, or to call in a `@vf.reward` method.

    [env.taskset.task.rewards.step]
    fn = "stepTP.rewards.verifiers:step_reward"

The task's data has the fields of `stepTP.rewards.tasks.columns_of`, `state` and `source`, beside its prompt.
"""

import asyncio
from typing import Any

from stepTP.rewards.shaping import reward
from stepTP.rewards.tasks import task_data
from stepTP.verify.scorer import score


async def step_reward(task: Any, trace: Any) -> float:
    """The reward of the trace's last reply, in [0, 1].

    Raises Unscored where it cannot be judged, through no fault of its own.
    """
    report = await asyncio.to_thread(score, trace.last_reply, task_data(task.state, task.source))
    return reward(report)
