"""Time by stage, in one process, and the same states by TVM as it comes."""

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from stepTP import pipeline

if TYPE_CHECKING:
    from leir.syntax import Program
    from stepTP.verify.prepare import Trial

CLASSES = ((3, "1 to 3 nests"), (6, "4 to 6 nests"), (10**9, "7 nests or more"))

Target = Literal["llvm", "cuda"]
Timed = list[tuple[dict[str, Any], dict[str, Any], float]]  # payload, state, processor seconds of its verification


Seconds = defaultdict[str, float]


@dataclass(slots=True)
class Clock:
    """Processor time and real time by stage; what one stage calls of another counts for the other alone."""

    seconds: Seconds = field(default_factory=lambda: Seconds(float))
    real: Seconds = field(default_factory=lambda: Seconds(float))
    inner: list[list[float]] = field(default_factory=list[list[float]])

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*positional: Any, **named: Any) -> Any:
            begun, started = processor_time(), time.perf_counter()
            self.inner.append([0.0, 0.0])
            try:
                return function(*positional, **named)
            finally:
                took = [processor_time() - begun, time.perf_counter() - started]
                below = self.inner.pop()
                self.seconds[stage] += took[0] - below[0]
                self.real[stage] += took[1] - below[1]
                if self.inner:
                    self.inner[-1] = [spent + more for spent, more in zip(self.inner[-1], took, strict=True)]

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


def stages(work: Callable[[Here], int], warm_up: str) -> tuple[dict[str, Any], Timed]:
    """Milliseconds a state by stage, processor time also by size of the program, and the states.

    `work` takes the jobs' place and says how many states it verified; the PyTorch text `warm_up` is translated before.
    """
    import leir.check
    import leir.lowering.cuda as cuda
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
        ("compile", nests, "translate_entries"), ("compile", nests, "compile_quickly"),
        ("compile, nvrtc", cuda, "_by_nvrtc"), ("link and load", nests, "load"),
        ("run", nests.NestSequence, "new_buffers"), ("run", nests.NestSequence, "run_each"),
        ("GPU: copy there", nests.Packed, "__init__"), ("GPU: copy back", nests.Packed, "take_back"),
        ("GPU: load modules, run", nests, "run_side_by_side"),
        ("compare", run, "judge"), ("compare", run, "first_unlike"), ("compare", task, "are_bit_equal"),
    ]  # fmt: skip
    kept = [(place, name, getattr(place, name)) for _, place, name in places]
    stepTP.intake.translate({"code": warm_up, "file": "warm-up"})  # torch imports much at its first export
    here = Here(clock)
    for stage, place, name in places:
        setattr(place, name, clock.timed(stage, getattr(place, name)))
    compiled = nests.FUNCTIONS.compiled
    begun, started = processor_time(), time.perf_counter()
    try:
        states = max(1, work(here))
    finally:
        for place, name, function in kept:
            setattr(place, name, function)
    clock.seconds["walk and records"] = processor_time() - begun - sum(clock.seconds.values())
    clock.real["walk and records"] = time.perf_counter() - started - sum(clock.real.values())
    classes: dict[str, list[float]] = {name: [] for _, name in CLASSES}
    for _, item, took in here.verified:
        size = item["leir"].rstrip().count("\n")
        classes[next(name for most, name in CLASSES if size <= most)].append(took)
    by_size = [
        {"class": name, "states": len(took), "cpu_ms": round(1000 * sum(took) / len(took), 2)}
        for name, took in classes.items()
        if took
    ]
    return {
        "stages_states": states,
        "stages_nests_compiled": nests.FUNCTIONS.compiled - compiled,
        "stages_cpu_ms": {name: round(1000 * seconds / states, 3) for name, seconds in clock.seconds.items()},
        "stages_real_ms": {name: round(1000 * seconds / states, 3) for name, seconds in clock.real.items()},
        "classes": by_size,
    }, here.verified


def plain_tvm(states: Timed, wanted: int, targets: Sequence[Target]) -> dict[str, Any]:
    """Some states, evenly among all, by TVM as it comes on each target, one after the other."""
    from leir.parser import parse
    from stepTP.verify.task import SourceKey, prepared_trials

    states = [state for state in states if "bf16" not in state[1]["leir"]]  # NumPy has no such arrays to give to TVM
    chosen = states[:: max(1, len(states) // wanted)][:wanted]
    seconds = cpu = 0.0
    for number, (payload, item, _) in enumerate((*chosen[:1], *chosen)):
        source = payload["source"]
        key = SourceKey(
            source["id"], source["torch_code"], payload["leir_source"], payload["draws"], payload.get("seed", 0)
        )
        trial = prepared_trials(key).trials[0]
        program = parse(item["leir"])
        begun, used = time.perf_counter(), processor_time()
        for target in targets:
            _by_plain_tvm(program, trial, target)
        if number:  # the first one loads more, and comes again
            seconds += time.perf_counter() - begun
            cpu += processor_time() - used
    count = max(1, len(chosen))
    return {
        "targets": list(targets),
        "states": len(chosen),
        "states_per_second": round(count / seconds, 2) if seconds else 0.0,
        "cpu_ms": round(1000 * cpu / count, 2),
    }


def _by_plain_tvm(program: "Program", trial: "Trial", target: Target) -> None:
    """Compiles with default settings and TVM's own CUDA compiler, runs once, and compares."""
    import numpy as np
    import tvm
    import tvm_ffi
    from tvm.support import nvcc

    from leir.arrays import array_type
    from leir.lowering import lower, parameters

    tvm_ffi.register_global_func("tvm_callback_cuda_compile", nvcc.tvm_callback_cuda_compile, override=True)
    device: Any = tvm.cuda(0) if target == "cuda" else tvm.cpu()
    compiled_for = (
        {"kind": "cuda", "arch": f"sm_{device.compute_version.replace('.', '')}"} if target == "cuda" else "llvm"
    )
    function = tvm.compile(lower(program, target), target=tvm.target.Target(compiled_for))["main"]
    tensors = {
        t.name: tvm.runtime.tensor(trial.inputs.get(t.name, np.empty(t.shape, array_type(t.dtype))), device)
        for t in parameters(program)
    }
    function(*tensors.values())
    for name, expected in trial.expected.items():
        np.allclose(tensors[name].numpy(), expected.value)
