"""The verification tasks, as a build calls them: verdicts, refusals, batches, any number of workers."""

import json
import re
from typing import Any

import pytest

from leir.check import IllFormed
from leir.lowering import NoDevice
from leir.parser import ParseError
from leir.printer import to_text
from stepTP.frontend import load_text, translate
from stepTP.verify import task
from stepTP.verify.inputs import KINDS
from stepTP.verify.pool import Failure, Pool
from stepTP.verify.prepare import NOTICING, Unverified, noticing
from stepTP.verify.task import SourceKey, prepared_trials

SOFTMAX = (
    "in A_{16,32};out C_{16,32};L^{16,32}_{i,j}[D_i max=A_{i,j};]L^{16,32}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{16,32}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)
FUSED = (
    "in A_{16,32};out C_{16,32};L^{16}_i[L^{32}_j[D_i max=A_{i,j};]L^{32}_j[E_i+=exp(A_{i,j}-D_i);]"
    "L^{32}_j[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]]"
)
REVERSED = SOFTMAX.replace("[E_i+=exp(A_{i,j}-D_i);]", "[E_i+=exp(A_{i,31-j}-D_i);]")
WRONG = SOFTMAX.replace("L^{16,32}_{i,j}[E_i", "L^{16,31}_{i,j}[E_i")
RACE = SOFTMAX.replace("L^{16,32}_{i,j}[E_i", "P^{16}_iP^{32}_j[E_i")

LAYER = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = nn.LayerNorm(features)
        self.linear = nn.Linear(features, 12)
        self.register_buffer("shift", torch.linspace(-1.0, 1.0, 12))

    def forward(self, x, mask):
        h = torch.softmax(self.linear(self.norm(x)) + self.shift, dim=-1)
        return torch.where(mask, h, torch.zeros_like(h)).sum(dim=0)


def get_inputs():
    return [torch.randn(6, 20), torch.rand(6, 12) > 0.5]


def get_init_inputs():
    return [20]
"""


def payload(leir: str, parent: str | None = None, bit_exact: bool = False, **changes: Any) -> dict[str, Any]:
    common = {"source": {"id": "softmax"}, "leir_source": SOFTMAX, "targets": ["llvm"], "draws": 1}
    return {**common, "leir": leir, "parent": parent, "bit_exact": bit_exact, **changes}


def test_a_right_program_has_a_verdict_for_each_target() -> None:
    answer = task.verify(payload(FUSED, SOFTMAX, True))
    (entry,) = answer.pop("verdicts")
    assert answer == {"ok": True, "cause": "", "message": ""}
    assert entry["target"] == "llvm"
    assert entry["inputs"] == ["normal/0", "wide/0", "integers/0", "edge/0", "extremes/0", "peaks/0", "peaks/0.2"]
    assert entry["bit_equal"] is True
    assert 0 < entry["max_abs"] <= entry["tolerance"] < 1e-4
    assert 0 < entry["bound_used"] <= 1
    assert 0 < entry["max_rel"] < 1e-5
    assert 0 < entry["max_ulp"] < 100
    assert json.loads(json.dumps(entry)) == entry


def test_a_wrong_program_is_refused_with_its_figures() -> None:
    answer = task.verify(payload(WRONG, SOFTMAX))
    assert (answer["ok"], answer["cause"]) == (False, "wrong-result")
    assert answer["message"].startswith("llvm: C_{")
    assert "elements are wrong (inputs normal/0)" in answer["message"]
    (entry,) = answer["verdicts"]
    assert entry["max_abs"] > entry["tolerance"]
    assert entry["bound_used"] > 1
    assert entry["bit_equal"] is None


def test_a_sum_in_another_order_is_right_but_not_bit_exact() -> None:
    answer = task.verify(payload(REVERSED, SOFTMAX, bit_exact=False))
    assert answer["ok"]
    assert answer["verdicts"][0]["bit_equal"] is False
    claimed = task.verify(payload(REVERSED, SOFTMAX, bit_exact=True))
    assert (claimed["ok"], claimed["cause"]) == (False, "not-bit-exact")
    said = re.fullmatch(
        r"llvm: the outputs are not its parent's, bit for bit, as the step claims: "
        r"C_\{\d+,\d+\} is (\S+) and (\S+); (\d+) of 512 elements differ \(inputs normal/0\)",
        claimed["message"],
    )
    assert said and said[1] != said[2] and int(said[3]) > 0, claimed["message"]


def test_without_a_parent_nothing_is_compared_with_it() -> None:
    assert task.verify(payload(REVERSED, None, bit_exact=True))["verdicts"][0]["bit_equal"] is None


@pytest.mark.parametrize(
    ("leir", "error"),
    [
        ("in A_{16,32;out C_{16,32};", ParseError),
        ("", ParseError),
        (RACE, IllFormed),
        (SOFTMAX.replace("C_{i,j}=exp(A_{i,j}", "C_{i,j}=exp(A_{i,j+1}"), IllFormed),
        ("in A_{16,32};out C_{32,16};L^{32,16}_{i,j}[C_{i,j}=A_{j,i};]", Unverified),
    ],
)
def test_a_program_that_may_not_run_is_an_error(leir: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        task.verify(payload(leir))


def test_where_bounds_are_wide_a_tamer_draw_of_the_kind_is_added() -> None:
    """What is added and taken away again is 1e6 in the first edge draw, and at most 225 in the second."""
    text = (
        "in A_{16,16};out C_{16,16};L^{16,16}_{i,j}[D max=A_{i,j}*A_{i,j};]L^{16,16}_{i,j}[E_{i,j}=A_{i,j}+D;]"
        "L^{16,16}_{i,j}[C_{i,j}=E_{i,j}-D;]"
    )
    trials = prepared_trials(SourceKey("cancelled", "", text, 1, 0)).trials
    sharp = {trial.draw.name: noticing(trial.expected["C"]) >= NOTICING for trial in trials}
    assert [name for name in sharp if name.startswith(("normal", "edge"))] == ["normal/0", "edge/0", "edge/0.1"]
    assert sharp["normal/0"]
    assert not sharp["edge/0"]
    assert sharp["edge/0.1"]


def test_draws_follow_seed_and_number() -> None:
    one = task.verify(payload(SOFTMAX))["verdicts"][0]
    other = task.verify(payload(SOFTMAX, seed=1))["verdicts"][0]
    more = task.verify(payload(SOFTMAX, draws=2))["verdicts"][0]
    assert one != other
    assert {*one["inputs"], *(f"{kind}/1" for kind in KINDS)} <= set(more["inputs"])


def test_a_torch_source_with_parameters_buffers_and_a_mask() -> None:
    loaded = load_text(LAYER)
    program = translate(loaded.module, loaded.inputs).program
    text = to_text(program)
    source = {"id": "layer", "torch_code": LAYER}
    answer = task.verify(payload(text, source=source, leir_source=text))
    assert answer["ok"], answer["message"]
    wrong = text.replace("1e-05", "2e-05")
    assert wrong != text
    assert not task.verify(payload(wrong, source=source, leir_source=text))["ok"]
    with pytest.raises(Unverified, match="does not compute what its source computes"):
        task.verify(payload(wrong, source=source, leir_source=wrong))
    with pytest.raises(Unverified, match="another signature"):
        task.verify(payload(SOFTMAX, source=source))


def test_an_absent_gpu_is_an_error_that_says_so() -> None:
    bound = FUSED.replace("L^{16}_i", "B^{16}_{tx}").replace("{i,j}", "{tx,j}").replace("_i", "_{tx}")
    try:
        answer = task.verify(payload(bound, targets=["cuda"]))
    except NoDevice as error:
        assert "GPU" in str(error) or "CUDA" in str(error)
    else:
        assert answer["ok"], answer["message"]


STATES = [
    {"leir": FUSED, "parent": SOFTMAX, "bit_exact": True},
    {"leir": WRONG, "parent": SOFTMAX, "bit_exact": False},
    {"leir": REVERSED, "parent": FUSED, "bit_exact": False},
    {"leir": REVERSED, "parent": FUSED, "bit_exact": True},
]
COMMON = {"source": {"id": "softmax"}, "leir_source": SOFTMAX, "targets": ["llvm"], "draws": 1}


def test_a_batch_answers_as_single_jobs_do() -> None:
    assert task.verify_many({**COMMON, "states": STATES}) == [task.verify({**COMMON, **state}) for state in STATES]


def test_a_pool_gives_the_verdicts_of_direct_calls_and_errors_by_name() -> None:
    alone = [task.verify({**COMMON, **state}) for state in STATES]
    ill = [{"leir": text, "parent": None, "bit_exact": False} for text in (RACE, "in A")]
    with Pool(workers=2, timeout_s=60) as pool:
        together = pool.submit("stepTP.verify.task.verify_many", {**COMMON, "states": STATES}, near="softmax")
        single = [pool.submit("stepTP.verify.task.verify", {**COMMON, **state}) for state in STATES]
        failures = [pool.submit("stepTP.verify.task.verify", {**COMMON, **state}).result(120) for state in ill]
        assert together.result(120) == alone
        assert [future.result(120) for future in single] == alone
    assert all(isinstance(failure, Failure) and failure.kind == "refused" for failure in failures)
    assert [failure.error for failure in failures] == ["IllFormed", "ParseError"]
