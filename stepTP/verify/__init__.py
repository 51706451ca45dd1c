"""Verification: does a program compute what its PyTorch source computes? See README.md.

As a library: `score(answer, task)` says what becomes of a model's answer.
"""

from stepTP.verify.report import STAGES, Outcome, Problem, ScoreReport, Task, TaskSource, task_of_row
from stepTP.verify.scorer import Scorer, score, score_many

__all__ = [
    "STAGES", "Outcome", "Problem", "ScoreReport", "Scorer", "Task", "TaskSource", "score", "score_many",
    "task_of_row",
]  # fmt: skip
