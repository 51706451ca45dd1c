"""A pool that answers from a script in threads of this process: nothing is compiled, and answers come at odd times."""

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any

from stepTP.draw import uniform
from stepTP.verify.pool import Failure

PROGRAM = "in A_{6,SIZE};out C_{6,SIZE};\nL^{6,SIZE}_{i,j}[D_{i,j}=A_{i,j}*2.0;]\nL^{6,SIZE}_{i,j}[C_{i,j}=D_{i,j};]\n"
VERDICT = {
    "target": "llvm",
    "inputs": ["normal 0"],
    "max_abs": 1e-7,
    "tolerance": 1e-6,
    "bound_used": 0.1,
    "max_rel": 1e-7,
    "max_ulp": 1.0,
    "bit_equal": True,
}


_ISL = threading.Lock()  # its library is for one thread of a process, as a worker has


class FakePool:
    """Takes what `Pool` takes. Half of the sources fail somewhere; answers depend on the payload alone."""

    def __init__(self, workers: int | None = None, *_limits: float, **_where: object) -> None:
        self.workers = workers or 1
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._threads = ThreadPoolExecutor(self.workers)

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        del near
        self.asked.append((task, payload))
        return self._threads.submit(self._answer, task, payload)

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        assert task.endswith(".verify_batch")
        return [self.submit("verify_one", {**payload, **item}, near) for item in items]

    def __enter__(self) -> "FakePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(wait=kind is None, cancel_futures=True)

    def _answer(self, task: str, payload: dict[str, Any]) -> Any:
        time.sleep(random.random() * 0.002)
        answers = {"translate": translate, "expand": expand, "verify_one": verify, "explain": explain}
        return answers[task.rpartition(".")[2]](payload)


def translate(payload: dict[str, Any]) -> Any:
    """The same program for every source but for its sizes, which may be equal too; some are unsupported."""
    drawn = uniform("translate", payload["code"])
    if drawn < 0.3:
        return Failure("refused", "translate", "no entry for aten.cummax", "UnsupportedOp")
    from leir.canonical import state_id
    from leir.parser import parse
    from stepTP.structure import structure

    program = PROGRAM.replace("SIZE", str(8 + 2 * int(drawn * 4)))
    return {
        "status": "verified",
        "dtype": "f32",
        "leir": program,
        "state_id": state_id(parse(program)),
        "structure": structure(parse(program)),
        "names": {"A": "x"},
        "ops": ["mul", "add"],
        "nests": 2,
        "iterations": 192,
        "max_abs_error": 0.0,
        "code": payload["code"].replace("size = 64", "size = 4") if payload.get("fit") else payload["code"],
        "constants": {"size": 4} if payload.get("fit") else {},
        "ms": 1.0,
        "message": "",
    }


def expand(payload: dict[str, Any]) -> Any:
    """The real task, on the strategies it is asked for; crashes where it is asked for all of a rare state."""
    from stepTP.expand import expand as real

    if len(payload["strategies"]) > 1 and uniform("expand", payload["leir"]) < 0.1:
        return Failure("crash", "expand", "the worker was lost: signal 11")
    with _ISL:
        return real(payload)


def verify(state: dict[str, Any]) -> Any:
    """Right, but for one program in ten; some crash."""
    if uniform("crash", state["leir"]) < 0.03 and state["parent"]:
        return Failure("crash", "verify", "the worker was lost: signal 11")
    if uniform("verify", state["leir"]) < 0.1 and state["parent"]:
        return {"ok": False, "cause": "wrong-result", "message": "C_{0,0} is off by 1", "verdicts": [VERDICT]}
    return {"ok": True, "cause": "", "message": "", "verdicts": [VERDICT]}


def explain(payload: dict[str, Any]) -> Any:
    """A reasoning that nobody reads."""
    from leir.parser import parse
    from stepTP.structure import structure_of_step

    tokens = {"leir": 10, "tir": None, "cuda": None, "reasoning": 3}
    same = structure_of_step(payload["step"]["strategy"], parse(payload["before"]), parse(payload["after"]))
    return {"reasoning": f"because {payload['id']}", "diff": "-\n+\n", "structure": same, "tokens": tokens}
