"""Processor time by stage, in one process, and the same states by TVM as it comes."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from stepTP import pipeline

CLASSES = ((3, "1 to 3 nests"), (6, "4 to 6 nests"), (10**9, "7 nests or more"))

Timed = list[tuple[dict[str, Any], dict[str, Any], float]]  # payload, state, processor seconds of its verification


@dataclass(slots=True)
class Clock:
    """Processor time by stage; what one stage calls of another counts for the other alone."""

    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))
    inner: list[float] = field(default_factory=list[float])

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            begun = processor_time()
            self.inner.append(0.0)
            try:
                return function(*positional, **named)
            finally:
                took = processor_time() - begun
                self.seconds[stage] += took - self.inner.pop()
                if self.inner:
                    self.inner[-1] += took

        return call


def processor_time() -> float:
    """Seconds of this process and of those that it has waited for."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


class Here:
    """Jobs done in this process, at once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.verified: list[tuple[dict[str, Any], dict[str, Any], float]] = []

    def submit(self, task: str, payload: dict[str, Any], near: str = "") -> "Future[Any]":
        from stepTP.verify.worker import find_task

        del near
        stage = "translate" if task == pipeline.TRANSLATE else "candidates and rewrites"
        future: Future[Any] = Future()
        future.set_result(self.clock.timed(stage, find_task(task))(payload))
        return future

    def submit_batch(
        self, task: str, payload: dict[str, Any], items: Sequence[Any], near: str = ""
    ) -> "list[Future[Any]]":
        from stepTP.verify.progress import Answered
        from stepTP.verify.worker import find_task

        del near
        futures: list[Future[Any]] = [Future() for _ in items]
        begun = processor_time()
        for event in self.clock.timed("verification, the rest", lambda: list(find_task(task)(payload, list(items))))():
            if isinstance(event, Answered):
                futures[event.item].set_result(event.result)
        took = (processor_time() - begun) / len(items)
        self.verified += [(payload, item, took) for item in items]
        return futures


def stages(work: Callable[[Here], int], warm_up: str) -> tuple[dict[str, float], list[dict[str, Any]], Timed]:
    """Processor milliseconds a state by stage, by size of the program, and the states.

    `work` takes the jobs' place and says how many states it verified; the PyTorch text `warm_up` is translated before.
    """
    import leir.check
    import leir.lowering.nests as nests
    import leir.parser
    import stepTP.expand
    import stepTP.intake
    import stepTP.verify.run as run
    import stepTP.verify.task as task

    clock = Clock()
    places: list[tuple[str, Any, str]] = [
        ("parse", leir.parser, "_parse_lines"), ("parse", leir.parser, "parse_source"),
        ("check", leir.check, "_checked"), ("draws, references, power", task, "prepared_trials"),
        ("lower", nests, "nests"), ("lower", nests, "entry"), ("lower", nests, "launching"),
        ("compile", nests, "translate_entries"), ("compile", nests, "compile_kernels"),
        ("link and load", nests, "load"),
        ("run", nests.NestSequence, "run"), ("run", nests.NestSequence, "new_buffers"),
        ("compare", run, "judge"), ("compare", run, "first_unlike"), ("compare", task, "_are_bit_equal"),
    ]  # fmt: skip
    kept = [(place, name, getattr(place, name)) for _, place, name in places]
    stepTP.intake.translate({"code": warm_up, "file": "warm-up"})  # torch imports much at its first export
    here = Here(clock)
    for stage, place, name in places:
        setattr(place, name, clock.timed(stage, getattr(place, name)))
    begun = processor_time()
    try:
        states = work(here)
    finally:
        for place, name, function in kept:
            setattr(place, name, function)
    clock.seconds["walk and records"] = processor_time() - begun - sum(clock.seconds.values())
    classes: dict[str, list[float]] = {name: [] for _, name in CLASSES}
    for _, item, took in here.verified:
        size = item["leir"].rstrip().count("\n")
        classes[next(name for most, name in CLASSES if size <= most)].append(took)
    by_size = [
        {"class": name, "states": len(took), "cpu_ms": round(1000 * sum(took) / len(took), 2)}
        for name, took in classes.items()
        if took
    ]
    by_stage = {name: round(1000 * seconds / max(1, states), 3) for name, seconds in clock.seconds.items()}
    return by_stage, by_size, here.verified


def plain_tvm(states: Timed, wanted: int) -> dict[str, Any]:
    """Some states, evenly among all, by TVM as it comes, one after the other."""
    import numpy as np
    import tvm
    import tvm_ffi

    from leir.arrays import array_type
    from leir.lowering import lower, parameters
    from leir.parser import parse
    from stepTP.verify.task import SourceKey, prepared_trials

    chosen = states[:: max(1, len(states) // wanted)][:wanted]
    seconds = cpu = 0.0
    tvm.compile(lower(parse(chosen[0][1]["leir"]), "llvm"), target="llvm")  # the first one loads more
    for payload, item, _ in chosen:
        source = payload["source"]
        key = SourceKey(
            source["id"], source["torch_code"], payload["leir_source"], payload["draws"], payload.get("seed", 0)
        )
        trial = prepared_trials(key).trials[0]
        program = parse(item["leir"])
        begun, used = time.perf_counter(), processor_time()
        function = tvm.compile(lower(program, "llvm"), target="llvm")["main"]
        buffers = {t.name: trial.inputs.get(t.name) for t in parameters(program)}
        for tensor in parameters(program):
            if buffers[tensor.name] is None:
                buffers[tensor.name] = np.empty(tensor.shape, array_type(tensor.dtype))
        function(*(tvm_ffi.from_dlpack(np.array(buffer)) for buffer in buffers.values()))
        for name, expected in trial.expected.items():
            np.allclose(buffers[name], expected.value)
        seconds += time.perf_counter() - begun
        cpu += processor_time() - used
    count = max(1, len(chosen))
    return {
        "states": len(chosen),
        "states_per_second": round(count / seconds, 2) if seconds else 0.0,
        "cpu_ms": round(1000 * cpu / count, 2),
    }
