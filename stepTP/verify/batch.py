"""Verifying several programs of one source in one job: compiled together they cost less than half.

The parent's side of `task.verify_many`; it imports nothing heavy. A job that fails as a whole, by a crash or by one
program's error, is done again one program a job, so that each program answers for itself alone.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from stepTP.verify.pool import Failure, Pool

VERIFY = "stepTP.verify.task.verify"
VERIFY_MANY = "stepTP.verify.task.verify_many"
LARGEST_BATCH = 16  # programs in one job; more gain nothing and share one time limit


def verify_states(
    pool: Pool, common: dict[str, Any], states: Sequence[dict[str, Any]], near: str = ""
) -> "list[Future[Any]]":
    """One future a state, each as `verify` alone would give: an answer or a Failure.

    `common`: the payload of `task.verify` but for "leir", "parent" and "bit_exact", which each of `states` has.
    """
    futures: list[Future[Any]] = [Future() for _ in states]
    for start in range(0, len(states), LARGEST_BATCH):
        part = slice(start, start + LARGEST_BATCH)
        _submit(pool, common, states[part], futures[part], near)
    return futures


def _submit(
    pool: Pool, common: dict[str, Any], states: Sequence[dict[str, Any]], futures: "Sequence[Future[Any]]", near: str
) -> None:
    def settle(done: "Future[Any]") -> None:
        error = done.exception() if not done.cancelled() else None
        if done.cancelled() or error is not None:
            for future in futures:
                future.set_exception(error) if error is not None else future.cancel()
        elif isinstance(done.result(), Failure):
            for state, future in zip(states, futures, strict=True):
                _submit_alone(pool, {**common, **state}, future, near)
        else:
            for answer, future in zip(done.result(), futures, strict=True):
                future.set_result(answer)

    if len(states) == 1:
        _submit_alone(pool, {**common, **states[0]}, futures[0], near)
    else:
        pool.submit(VERIFY_MANY, {**common, "states": list(states)}, near).add_done_callback(settle)


def _submit_alone(pool: Pool, payload: dict[str, Any], future: "Future[Any]", near: str) -> None:
    def settle(done: "Future[Any]") -> None:
        if done.cancelled():
            future.cancel()
        elif error := done.exception():
            future.set_exception(error)
        else:
            future.set_result(done.result())

    pool.submit(VERIFY, payload, near).add_done_callback(settle)
