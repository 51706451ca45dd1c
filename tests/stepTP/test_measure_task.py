"""Timing real programs, and programs that cheat: what is fast by doing less must be found out."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import torch

from leir.lowering import Executable, compile_llvm
from leir.parser import parse
from leir.printer import to_text
from stepTP.frontend import translated
from stepTP.verify.measure import prepared, task
from stepTP.verify.measure.machine import Peaks
from stepTP.verify.measure.roofline import is_impossible, least_work, roofline
from stepTP.verify.measure.subjects import loaded_and_wiring
from stepTP.verify.measure.timing import TimingPlan, Unmeasured
from stepTP.verify.task import SourceKey

PLAIN = "in A_{32,48},W_{48};out C_{32};\nL^{32,48}_{i,j}[C_i+=A_{i,j}*W_j;]\n"
SPLIT = "in A_{32,48},W_{48};out C_{32};\nL^{32,6,8}_{i,j,k}[C_i+=A_{i,j*8+k}*W_{j*8+k};]\n"
HALF = "in A_{32,48},W_{48};out C_{32};\nL^{32,24}_{i,j}[C_i+=A_{i,j}*W_j;]\n"
QUICK = TimingPlan(repeats=3, warm_up_s=0.0, repeat_s=1e-4, budget_s=0.1)
LINEAR = """
import torch
import torch.nn as nn

features = 48


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return (x * self.weight).sum(dim=-1)


def get_inputs():
    return [torch.randn(32, features)]


def get_init_inputs():
    return [features]
"""


@pytest.fixture(autouse=True)
def _known_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "peaks", lambda *_, **__: Peaks(1e18, 1e18, 1e18, "a test"))


def payload(leir: str, code: str = "", source: str = PLAIN) -> dict[str, Any]:
    return {
        "source": {"id": "measured", "torch_code": code},
        "leir_source": source,
        "leir": leir,
        "target": "llvm",
        "draws": 1,
        "seed": 0,
        "plan": asdict(QUICK),
        "processors": sorted(os.sched_getaffinity(0)),
    }


def cheating(monkeypatch: pytest.MonkeyPatch, change: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
    """Every program is compiled to a function that `change` makes of the right one."""

    def compiled(programs: Any, **options: Any) -> list[Executable]:
        (right,) = compile_llvm(programs, **options)
        return [replace(right, module={right.name: change(right.module[right.name])})]  # pyright: ignore

    monkeypatch.setattr(prepared, "compile_llvm", compiled)


def test_a_right_program_is_timed_and_verified() -> None:
    answer = task.time_program(payload(SPLIT))
    assert (answer["status"], answer["message"], answer["binding"]) == ("ok", "", "none")
    timing, verdict = answer["timing"], answer["verification"][0]
    assert 0 < timing["q1_us"] <= timing["median_us"] <= timing["q3_us"]
    assert (timing["clock"], timing["repeats"], timing["input_sets"]) == ("perf_counter_ns", 3, task.MOST_SETS["llvm"])
    assert timing["bytes_per_set"] == 4 * (32 * 48 + 48 + 32)
    assert 0 < verdict["bound_used"] <= 1 and verdict["bit_equal"] is None
    assert 0 < answer["roofline"]["fraction"] < 1


def test_a_program_of_scalars_is_timed() -> None:
    leir = "in A_8,S;out C;\nL^8_i[C+=A_i*S;]\n"
    answer = task.time_program(payload(leir, source=leir))
    assert (answer["status"], answer["message"]) == ("ok", "")


def test_a_program_that_skips_work_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepared, "compile_llvm", lambda _, **options: compile_llvm([parse(HALF)], **options))
    answer = task.time_program(payload(SPLIT))
    assert answer["status"] == "wrong-result"
    assert "elements are wrong" in answer["message"]


def test_a_program_that_keeps_its_first_result_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers every call with what it computed first."""
    kept: list[np.ndarray] = []

    def change(right: Callable[..., None]) -> Callable[..., None]:
        def function(*tensors: Any) -> None:
            if not kept:
                right(*tensors)
                kept.append(tensors[-1].numpy())
            tensors[-1].copyfrom(kept[0])

        return function

    cheating(monkeypatch, change)
    assert task.time_program(payload(SPLIT))["status"] == "wrong-result"


def test_a_program_that_trusts_what_lies_in_its_outputs_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs only where its output was poisoned: right on every fresh buffer, and fast in every repeat."""

    def change(right: Callable[..., None]) -> Callable[..., None]:
        return lambda *tensors: right(*tensors) if np.isnan(tensors[-1].numpy()).any() else None

    cheating(monkeypatch, change)
    with pytest.raises(Unmeasured, match="C after the timed runs is not what a run on its inputs gives"):
        task.time_program(payload(SPLIT))


def test_a_program_faster_than_the_machine_is_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "peaks", lambda *_, **__: Peaks(1.0, 1.0, 1.0, "a test"))
    answer = task.time_program(payload(SPLIT))
    assert answer["status"] == "impossible"
    assert "needs" in answer["message"]


def test_the_module_is_timed_on_the_sets_values() -> None:
    loaded, translation = translated(LINEAR, "measured")
    wiring = loaded_and_wiring(LINEAR, "measured")[1]
    asked = payload("", LINEAR, to_text(translation.program))
    answer = task.time_eager(asked)
    assert answer["status"] == "ok" and answer["timing"]["median_us"] > 0
    sets = task.timing_sets(_facts(), 3)
    rotation = task.module_rotation(loaded, wiring, sets, "llvm")
    (weight,) = (name for name, path in translation.names.items() if path == "weight")
    (given,) = translation.user_inputs
    with torch.no_grad():
        for inputs, start in zip(sets, rotation.starts, strict=True):
            expected = (inputs[given] * inputs[weight]).sum(axis=-1)
            np.testing.assert_allclose(np.asarray(start()), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of torch about itself
def test_torch_compile_compiles_once_for_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    _, translation = translated(LINEAR, "measured")
    asked = payload("", LINEAR, to_text(translation.program))
    monkeypatch.setattr(task, "_sets", lambda *_: 3)
    torch._dynamo.reset()
    answer = task.time_compiled(asked)
    assert answer["status"] == "ok" and answer["timing"]["median_us"] > 0 and answer["timing"]["input_sets"] == 3
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_module_that_does_not_run_on_the_device_says_so() -> None:
    loaded, wiring = loaded_and_wiring(LINEAR, "measured")
    broken = replace(loaded, module=torch.nn.Linear(3, 3))
    with pytest.raises(Unmeasured, match="does not run eagerly on llvm"):
        task.module_rotation(broken, replace(wiring, parameters=()), task.timing_sets(_facts(), 2), "llvm")


def _facts() -> prepared.SourceFacts:
    leir = to_text(translated(LINEAR, "measured")[1].program)
    return prepared.source_facts(SourceKey("measured", LINEAR, leir, 1, 0), None)


def test_timing_inputs_are_neither_zero_nor_denormal_nor_alike() -> None:
    """A parameter that the module starts at zero is drawn too; neighbours in the rotation hold other values."""
    sets = task.timing_sets(_facts(), 6)
    for inputs in sets:
        for array in inputs.values():
            assert np.all(np.abs(array) >= np.finfo(array.dtype).tiny)
    for one, other in zip(sets, (*sets[1:4], sets[0]), strict=False):
        assert all(not np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    ("leir", "least"),
    [
        (PLAIN, (4 * (32 * 48 + 48 + 32), 32 * 48, 0)),
        (HALF, (4 * (32 * 24 + 24 + 32), 32 * 24, 0)),  # only what is read counts
        ("in A_8;out C_8;\nL^8_i[D_i=A_i+1.0;]\nL^8_i[C_i=D_i*A_i;]\n", (4 * 16, 0, 0)),  # twice read, once moved
        ("in A^{f64}_{8,4};out C^{f64}_8;\nL^{8,4}_{i,j}[C_i*=A_{i,j};]\n", (8 * 40, 0, 32)),
        ("in A_{8,4};out C_8;\nL^{8,4}_{i,j}[C_i max=A_{i,j};]\n", (4 * 40, 0, 0)),  # may stop early
    ],
)
def test_the_least_work_is_counted(leir: str, least: tuple[int, int, int]) -> None:
    work = least_work(parse(leir))
    assert (work.bytes, work.f32, work.f64) == least


def test_the_ceiling_is_the_larger_of_memory_and_compute() -> None:
    work, peaks = least_work(parse(PLAIN)), Peaks(bytes_per_s=1e9, f32_per_s=1e9, f64_per_s=1e8, source="a test")
    memory, compute = work.bytes / 1e9, work.f32 / 1e9
    cold, warm = (roofline(work, peaks, 1.1 * memory, cold=cold) for cold in (True, False))
    assert cold.ceiling_us == cold.memory_us == pytest.approx(memory * 1e6, rel=1e-2)
    assert warm.memory_us is None and warm.ceiling_us == pytest.approx(compute * 1e6, rel=1e-2)
    assert not is_impossible(cold)
    assert is_impossible(roofline(work, peaks, 0.9 * memory, cold=True))
    assert not is_impossible(roofline(work, peaks, 0.9 * memory, cold=False))
    assert is_impossible(roofline(work, peaks, 0.9 * compute, cold=False))
