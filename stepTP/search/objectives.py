"""What states are worth: seconds that the cost model predicts, or that a device takes."""

import math
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from stepTP.config import Target
from stepTP.measurements import Request, Source, State, measure_states
from stepTP.records import MeasurementRow, Verdict
from stepTP.search.env import PREDICT, Environment
from stepTP.search.journal import done, key_of
from stepTP.search.protocol import Node, Valued
from stepTP.verify.pool import Failure
from stepTP.walk import Jobs


@dataclass(frozen=True, slots=True)
class Predicted:
    """The cost model's seconds: deterministic, and no device is needed."""

    name: str = "predicted"
    measures: bool = False

    def value_all(self, env: Environment, nodes: Sequence[Node]) -> list[Valued]:
        missing = [node for node in nodes if node.predicted_s is None]  # in the middle of a move, till now
        payloads = [{"leir": node.state.leir, "target": env.settings.target} for node in missing]
        for node, answer in zip(missing, env.ask_all(PREDICT, payloads), strict=True):
            node.predicted_s = math.inf if isinstance(answer, Failure) else answer["seconds"]
        return [Valued(math.inf if node.predicted_s is None else node.predicted_s) for node in nodes]


@dataclass(frozen=True, slots=True)
class Measured:
    """The median latency on a device, by the protocol of `stepTP.verify.measure`, which verifies what it timed.

    `device`: a pool of one worker, which has the device to itself.
    """

    device: Jobs
    request: Request
    name: str = "measured"
    measures: bool = True

    def value_all(self, env: Environment, nodes: Sequence[Node]) -> list[Valued]:
        return [self._value(env, node) for node in nodes]

    def _value(self, env: Environment, node: Node) -> Valued:
        """Each state is timed once, after its source; the journal keeps the rows."""
        found = env.source
        source = Source(found.id, found.source.family, found.source.torch_code, found.leir, found.state_id)
        parent = node.parent.state.state_id if node.parent else None
        states = [State(node.state.leir, node.state.state_id, parent, node.state.path)]
        known = {row.id: row for row in env.timings}

        def make(_: list[int]) -> list["Future[Any]"]:
            timed = measure_states(self.device, source, states, self.request, known)
            return [done([row.model_dump(mode="json") for row in timed])]

        (shown,) = env.journal.ask_all([key_of("measure", [self.request.target, source.id, node.state.leir])], make)
        rows = tuple(MeasurementRow.model_validate(row) for row in shown)
        row = next(r for r in rows if r.subject == "program" and r.state_id == node.state.state_id)
        fresh = tuple(r for r in rows if r.id not in known)
        if row.status != "ok" or row.timing is None:
            return Valued(math.inf, f"{row.status}: {row.message}", fresh)
        return Valued(row.timing.median_us / 1e6, "", fresh)


WRONG = "wrong result: "  # how the note of a state begins that ran and computes something else


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds at real sizes on a device that several searches share, as `stepTP.verify.measure.large` takes them.

    `lock`: the file that whoever uses the device holds. `longest_s`, `source_s`: of a state, and of the source, what is
    not run if it is expected to take longer.
    """

    target: Target
    lock: str
    longest_s: float = 0.3
    source_s: float = 20.0
    name: str = "timed"
    measures: bool = True

    def value_all(self, env: Environment, nodes: Sequence[Node]) -> list[Valued]:
        payloads = [
            {
                "code": env.source.source.torch_code,
                "leir": env.source.leir,
                "state": node.state.leir,
                "target": self.target,
                "lock": self.lock,
                "longest_s": self.longest_s if node.parent else self.source_s,
            }
            for node in nodes
        ]
        return [self._valued(answer) for answer in env.ask_all("stepTP.verify.measure.large.time_program", payloads)]

    def _valued(self, answer: Any) -> Valued:
        if isinstance(answer, Failure):
            return Valued(math.inf, answer.message)
        if answer["seconds"] is None:
            return Valued(math.inf, answer["error"])
        return Valued(answer["seconds"], verification=(Verdict.model_validate(answer["verdict"]),))
