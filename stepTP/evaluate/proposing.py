"""Answers of the policies of `stepTP.search`, so that they are judged beside models."""

from collections.abc import Mapping, Sequence

from stepTP.answer import write_answer
from stepTP.evaluate.questions import EvaluationError, Question, Reply
from stepTP.records import ProgramRow
from stepTP.search.env import Environment, SearchError
from stepTP.search.objectives import Predicted
from stepTP.search.protocol import Policy, Settings
from stepTP.walk import Jobs


def ask_policy(
    questions: Sequence[Question],
    programs: Mapping[str, ProgramRow],
    policy: Policy,
    settings: Settings,
    jobs: Jobs,
    samples: int = 1,
) -> list[Reply]:
    """The first step of each of the policy's first `samples` moves at each state, fewer where it has fewer.

    What it proposes is legal: a policy shows what is possible at these states, and what steps it favours. Where it has
    no move, the reply is empty. Raises EvaluationError.
    """
    replies: list[Reply] = []
    for question in questions:
        program = programs.get(question.source_id)
        if program is None:
            raise EvaluationError(f"{question.source_id}: its program row is missing: give the whole run")
        here = program.model_copy(update={"leir": question.task.state, "state_id": question.state_id})
        try:
            env = Environment(here, policy, Predicted(), settings, jobs)
            moves = env.moves(env.root)
        except SearchError as error:
            raise EvaluationError(str(error)) from None
        steps = list(dict.fromkeys((m.steps[0].step.strategy, m.steps[0].state_id) for m in moves))[:samples]
        first = {(m.steps[0].step.strategy, m.steps[0].state_id): m.steps[0] for m in reversed(moves)}
        texts = [write_answer(first[key].step, first[key].leir) for key in steps] or [""]
        replies += (Reply(question=question.id, sample=n, text=text) for n, text in enumerate(texts))
    return replies
