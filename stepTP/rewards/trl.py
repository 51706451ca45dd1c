"""The reward for TRL's GRPOTrainer and its like: `reward_funcs=step_reward`, or `StepReward(...)` with settings.

The training set has a `prompt` and the columns of `stepTP.rewards.tasks.columns_of`, `state` and `source`.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from stepTP.rewards.shaping import DEFAULT, Shaping, crowds, reward
from stepTP.rewards.tasks import task_data, text_of
from stepTP.verify.scorer import Scorer, default_scorer

_LOG = logging.getLogger(__name__)


class StepReward:
    """A reward function with settings of its own. Called as TRL calls them; other columns are not looked at.

    A shaping that shares looks at the answers of one call: a trainer's groups, where it scores whole ones at a time.
    An answer that cannot be scored, through no fault of its own, has the reward None, which TRL leaves out of the
    loss, and a warning says why.
    """

    __name__ = "step_reward"  # what TRL logs it under

    def __init__(self, shaping: Shaping = DEFAULT, scorer: Scorer | None = None) -> None:
        self._shaping, self._scorer = shaping, scorer

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        state: Sequence[str],
        source: Sequence[str | Mapping[str, Any]],
        **_: Any,
    ) -> list[float | None]:
        """One reward a completion: a string, or a conversation whose last message is the answer."""
        answered = [
            (text_of(c), task_data(before, program))
            for c, before, program in zip(completions, state, source, strict=True)
        ]
        reports = (self._scorer or default_scorer()).score_many(answered)
        rewards: list[float | None] = []
        for report, crowd in zip(reports, crowds(reports, state), strict=True):
            if report.error is not None:
                _LOG.warning("an answer has no reward: %s: %s", report.error.kind, report.error.message)
            rewards.append(None if report.error is not None else reward(report, self._shaping, crowd))
        return rewards


step_reward = StepReward()
