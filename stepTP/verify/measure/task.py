"""The pool's timing tasks. Each wants the device to itself: nothing else may run while one does.

`time_program` takes what `stepTP.verify.task.verify` takes ("source", "leir_source", "leir", "draws", "seed") and
"target", "plan" (the fields of a `TimingPlan`) and "processors" (those to use), and what was prepared, if anything was
(`stepTP.verify.measure.prepared`). It returns {"status", "message", "timing", "roofline", "binding",
"measured_state_id", "verification", "clocks"}, as `MeasurementRow` has them. `time_eager` takes the same without
"leir", and times the source's PyTorch module; `time_compiled` times it through torch.compile.
`describe_machine` takes {"target", "processors"} and returns the `Machine`. Errors (ParseError, IllFormed, NoDevice,
Unmeasured, ...) are raised.

The program is compiled for speed: LLVM at its highest level for this very processor, CUDA with contraction. That is
other code than was verified, so it is verified itself, after it was timed, on the source's trials and tolerances.
"""

import os
from functools import partial
from typing import Any

import numpy as np

from leir.parser import parse
from stepTP.frontend import load_text
from stepTP.records import Timing
from stepTP.verify.measure.machine import clocks, machine, peaks
from stepTP.verify.measure.prepared import SourceFacts, build_of, source_facts, source_key
from stepTP.verify.measure.roofline import is_impossible, roofline
from stepTP.verify.measure.subjects import (
    Inputs,
    clock_of,
    give_inputs,
    module_rotation,
    program_rotation,
    require_fresh_outputs,
    resident_sets,
    timing_conditions,
)
from stepTP.verify.measure.timing import Samples, Subject, TimingPlan, sets_for, take_samples
from stepTP.verify.run import observe
from stepTP.verify.task import SourceKey, Target, verdict_entry

MOST_SETS: dict[Target, int] = {"llvm": 128, "cuda": 512}
WARM_SETS: dict[Target, int] = {"llvm": 128, "cuda": 16}  # where inputs cannot be cold
ROTATED_BYTES: dict[Target, int] = {"llvm": 512 << 20, "cuda": 4 << 30}  # of all sets at most


def describe_machine(payload: dict[str, Any]) -> dict[str, Any]:
    """The machine as it runs programs of a target."""
    os.sched_setaffinity(0, payload["processors"])
    return machine(payload["target"]).model_dump()


def time_program(payload: dict[str, Any]) -> dict[str, Any]:
    """The latency of one program; see the module's description."""
    key, target, plan = _asked(payload)
    build = build_of(payload)
    executable = build.executable
    answer = {"measured_state_id": build.state_id, "binding": build.binding, "roofline": None, "verification": []}
    with timing_conditions(target):
        facts = source_facts(key, payload.get("source_facts"))
        each = sum(_bytes(tensor.shape, tensor.dtype) for tensor in executable.parameters)
        sets = timing_sets(facts, _sets(each, target))
        residents = resident_sets(executable, sets)
        subject = program_rotation(residents, target)
        others = (*sets[1:], sets[0])
        samples = take_samples(subject, clock_of(target), plan, refresh=partial(give_inputs, residents, others))
        answer["clocks"] = clocks(target)
        outputs = tuple(declaration.tensor for declaration in build.program.outputs)
        for number in samples.timed_sets:
            require_fresh_outputs(residents[number], others[number], outputs)
    conduct = observe(executable, facts.trials.trials)
    answer["verification"] = [verdict_entry(target, facts.trials.names, conduct, None)]
    timing = _timing(samples, subject, clock_of(target).name, each, target)
    found = roofline(build.work, peaks(target), samples.median, cold=timing.cold)
    if is_impossible(found):  # a probe under load shows too little
        found = roofline(build.work, peaks(target, again=True), samples.median, cold=timing.cold)
    answer |= {"timing": timing.model_dump(), "roofline": found.model_dump()}
    if conduct.difference.problem:
        return {**answer, "status": "wrong-result", "message": f"the timed code: {conduct.difference.problem}"}
    if is_impossible(found):
        message = f"{samples.median * 1e6:.3g} us, but {target} needs {found.ceiling_us:g} us at least"
        return {**answer, "status": "impossible", "message": message}
    return {**answer, "status": "ok", "message": ""}


def time_eager(payload: dict[str, Any]) -> dict[str, Any]:
    """The latency of the source's module, run eagerly; see the module's description."""
    return _time_module(payload, compiled=False)


def time_compiled(payload: dict[str, Any]) -> dict[str, Any]:
    """The latency of the source's module after torch.compile; see the module's description."""
    return _time_module(payload, compiled=True)


def _time_module(payload: dict[str, Any], *, compiled: bool) -> dict[str, Any]:
    key, target, plan = _asked(payload)
    program = parse(key.leir)
    facts = source_facts(key, payload.get("source_facts"))
    assert facts.wiring is not None  # whoever asks knows that there is a module
    loaded = load_text(key.torch_code, key.id)
    each = sum(_bytes(d.shape, d.dtype) for d in (*program.inputs, *program.outputs))
    with timing_conditions(target):
        sets = timing_sets(facts, _sets(each, target))
        subject = module_rotation(loaded, facts.wiring, sets, target, compiled=compiled)
        samples = take_samples(subject, clock_of(target), plan)
        timing = _timing(samples, subject, clock_of(target).name, each, target)
        return {
            "status": "ok", "message": "", "timing": timing.model_dump(), "roofline": None, "binding": "none",
            "measured_state_id": None, "verification": [], "clocks": clocks(target),
        }  # fmt: skip


def timing_sets(facts: SourceFacts, count: int) -> tuple[Inputs, ...]:
    """Input values for each set, of a source's draws in turn."""
    return tuple(facts.draws[n % len(facts.draws)] for n in range(count))


def _asked(payload: dict[str, Any]) -> tuple[SourceKey, Target, TimingPlan]:
    """What a payload asks for. From then on the process may use all the processors that it names."""
    os.sched_setaffinity(0, payload["processors"])
    return source_key(payload), payload["target"], TimingPlan(**payload["plan"])


def _sets(each: int, target: Target) -> int:
    return sets_for(each, machine(target).cache_bytes, ROTATED_BYTES[target], MOST_SETS[target], WARM_SETS[target])


def _bytes(shape: tuple[int, ...], dtype: Any) -> int:
    from leir.analysis.kernels import BYTES

    return int(np.prod(shape, dtype=np.int64)) * BYTES[dtype]


def _timing(samples: Samples, subject: Subject, clock: Any, each: int, target: Target) -> Timing:
    low, high = samples.quartiles
    return Timing(
        median_us=_us(samples.median),
        q1_us=_us(low),
        q3_us=_us(high),
        spread_us=_us(high - low),
        disturbed=round(samples.disturbed, 3),
        repeats=len(samples.seconds),
        runs_per_repeat=samples.runs_per_repeat,
        warm_up_runs=samples.warm_up_runs,
        clock=clock,
        launch_us=_us(samples.launch_s),
        input_sets=subject.sets,
        bytes_per_set=each,
        cold=subject.sets * each >= 2 * machine(target).cache_bytes,
    )


def _us(seconds: float) -> float:
    return float(f"{seconds * 1e6:.4g}")
