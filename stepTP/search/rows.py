"""What a search found, as a walk gives it to the pipeline: verified steps, rejected steps and refusals."""

from collections.abc import Collection, Iterator

from stepTP.records import RefusalRow, RejectedRow, Step
from stepTP.search.env import Environment
from stepTP.verify.pool import Failure
from stepTP.walk import VerifiedStep, Walker, cause_of, refusal_row, rejected, verdicts


def found_by(
    env: Environment, walker: Walker, seen: Collection[str] = ()
) -> Iterator[VerifiedStep | RejectedRow | RefusalRow]:
    """All of it, in order of arrival. `seen`: states that others have found, whose steps are left out."""
    for step in env.verified_steps():
        if step.taken.state_id not in seen:
            yield step
    for state, proposal, answer in env.rejected:
        if isinstance(answer, Failure):
            yield rejected(walker, state, proposal, "verify", cause_of(answer), answer.message)
        else:
            yield rejected(walker, state, proposal, "verify", answer["cause"], answer["message"], verdicts(answer))
    for state, failure in env.problems:
        asked = Step(strategy=env.policy.name, args={})
        yield rejected(walker, state, asked, "expand", cause_of(failure), failure.message)
    for state, refusal in env.refusals:
        yield refusal_row(walker, state, refusal)
