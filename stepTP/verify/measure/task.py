"""The pool's timing tasks. Each wants the device to itself: nothing else may run while one does.

`time_program` takes what `stepTP.verify.task.verify` takes ("source", "leir_source", "leir", "draws", "seed") and
"target", "plan" (the fields of a `TimingPlan`) and "processors" (those to use). It returns {"status", "message",
"timing", "roofline", "binding", "measured_state_id", "verification", "clocks"}, as `MeasurementRow` has them.
`time_eager` takes the same without "leir", and times the source's PyTorch module; `time_compiled` times it through
torch.compile. `describe_machine` takes {"target", "processors"} and returns the `Machine`. Errors (ParseError,
IllFormed, NoDevice, Unmeasured, ...) are raised.

The program is compiled for speed: LLVM at its highest level for this very processor, CUDA with contraction. That is
other code than was verified, so it is verified itself, after it was timed, on the source's trials and tolerances.
"""

import os
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leir.canonical import state_id
from leir.check import require_well_formed
from leir.lowering import compile_cuda, compile_llvm
from leir.parser import parse
from leir.syntax import Program
from stepTP.frontend import translated
from stepTP.records import Timing
from stepTP.verify.inputs import Draw, Profile, draw_inputs
from stepTP.verify.measure.baseline import bound_outermost
from stepTP.verify.measure.machine import clocks, machine, peaks
from stepTP.verify.measure.roofline import is_impossible, least_work, roofline
from stepTP.verify.measure.subjects import (
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
from stepTP.verify.task import SourceKey, Target, origin_of, prepared_trials, verdict_entry

Array = NDArray[Any]

DIFFERENT_DRAWS = 4  # of input values; further sets repeat them in memory of their own
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
    program, binding = _as_timed(parse(payload["leir"]), target)
    answer = {"measured_state_id": state_id(program), "binding": binding, "roofline": None, "verification": []}
    with timing_conditions(target):
        if target == "cuda":
            (executable,) = compile_cuda([program], contraction=True)
        else:
            (executable,) = compile_llvm([program], optimised=True)
        each = sum(_bytes(tensor.shape, tensor.dtype) for tensor in executable.parameters)
        sets = timing_sets(key, _sets(each, target))
        residents = resident_sets(executable, sets)
        subject = program_rotation(residents, target)
        others = (*sets[1:], sets[0])
        samples = take_samples(subject, clock_of(target), plan, refresh=partial(give_inputs, residents, others))
        answer["clocks"] = clocks(target)
        outputs = tuple(declaration.tensor for declaration in program.outputs)
        for number in samples.timed_sets:
            require_fresh_outputs(residents[number], others[number], outputs)
    trials = prepared_trials(key)
    conduct = observe(executable, trials.trials)
    answer["verification"] = [verdict_entry(target, trials.names, conduct, None)]
    timing = _timing(samples, subject, clock_of(target).name, each, target)
    found = roofline(least_work(program), peaks(target), samples.median, cold=timing.cold)
    if is_impossible(found):  # a probe under load shows too little
        found = roofline(least_work(program), peaks(target, again=True), samples.median, cold=timing.cold)
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
    loaded, translation = translated(key.torch_code, key.id)
    each = sum(_bytes(d.shape, d.dtype) for d in (*program.inputs, *program.outputs))
    with timing_conditions(target):
        sets = timing_sets(key, _sets(each, target))
        subject = module_rotation(loaded, translation, sets, target, compiled=compiled)
        samples = take_samples(subject, clock_of(target), plan)
        timing = _timing(samples, subject, clock_of(target).name, each, target)
        return {
            "status": "ok", "message": "", "timing": timing.model_dump(), "roofline": None, "binding": "none",
            "measured_state_id": None, "verification": [], "clocks": clocks(target),
        }  # fmt: skip


@lru_cache(maxsize=2)
def timing_sets(key: SourceKey, count: int) -> tuple[dict[str, Array], ...]:
    """Input values for each set: normal numbers, no two neighbours alike; no zeros or denormals, but for masks."""
    normal = [t.draw for t in prepared_trials(key).trials if t.draw.kind == "normal"]
    attempt = normal[0].attempt if normal else 0
    draws = [Draw("normal", 2 * n + 1, attempt) for n in range(min(count, DIFFERENT_DRAWS))]  # odd: parameters vary too
    drawn = [draw_inputs(_profiles(key), draw, key.seed, f"{key.id}/timing") for draw in draws]
    return tuple(drawn[n % len(drawn)] for n in range(count))


@lru_cache(maxsize=2)
def _profiles(key: SourceKey) -> tuple[Profile, ...]:
    return origin_of(key).profiles


def _asked(payload: dict[str, Any]) -> tuple[SourceKey, Target, TimingPlan]:
    """What a payload asks for. From then on the process may use all the processors that it names."""
    os.sched_setaffinity(0, payload["processors"])
    source = payload["source"]
    code = source.get("torch_code", "")
    key = SourceKey(source["id"], code, payload["leir_source"], payload["draws"], payload["seed"])
    return key, payload["target"], TimingPlan(**payload["plan"])


def _as_timed(program: Program, target: Target) -> tuple[Program, str]:
    """The program that is timed, and where its GPU axes are from. Raises IllFormed."""
    require_well_formed(program)
    if target == "llvm":
        return program, "none"
    timed = bound_outermost(program)
    return timed, "own" if timed == program else "added"


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
