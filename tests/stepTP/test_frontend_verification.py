"""A wrong translation is found, a right one is not, and a degenerate module is refused."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leir.parser import parse
from leir.printer import to_text
from stepTP import intake
from stepTP.frontend import Translation, TranslationVerdict, translate, verify_translation
from stepTP.frontend.verification import _longest_sum
from tests.stepTP.agreement import Calls, draw


def verdict(function: Callable[..., Any], *inputs: Any, change: tuple[str, str] | None = None) -> TranslationVerdict:
    module = Calls(function)
    translation = translate(module, inputs)
    if change:
        translation = edited(translation, *change)
    return verify_translation(translation, module, inputs)


def edited(translation: Translation, old: str, new: str) -> Translation:
    text = to_text(translation.program)
    assert old in text, text
    return replace(translation, program=parse(text.replace(old, new, 1)))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


QKV = (draw(6, 4), draw(6, 4, seed=1), draw(6, 5, seed=2))
WRONG: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], tuple[str, str]]] = {
    "scale": (attention, QKV, ("*0.5", "*0.5000001")),
    "mask": (attention, QKV, ("j<=i", "j<i+2")),
    "axis": (lambda x: x.softmax(0), (draw(4, 4),), ("E_i+=exp(A_{j,i}", "E_i+=exp(A_{i,j}")),
    "unstable": (lambda x: (x * 100).softmax(-1), (draw(4, 5),), ("exp(D_{i,j}-E_i)", "exp(D_{i,j})")),
    "divisor": (lambda x: x.mean(1), (draw(4, 6),), ("/6.0", "/6.000001")),
    "epsilon": (lambda x: F.layer_norm(x, (5,)), (draw(4, 5),), ("1e-05", "1.001e-05")),
    "constant of gelu": (F.gelu, (draw(4, 5),), ("0.7071067811865476", "0.70710678")),
    "broadcast": (lambda x, y: x + y, (draw(3, 3), draw(3)), ("C_j", "C_i")),
    "comparison": (lambda x: x > 0, (draw(4, 5),), (">0.0", "<0.0")),
    "position": (lambda x: x.argmax(1), (draw(4, 5),), ("max=A", "min=A")),
    "out of bounds": (lambda x: x[:, 1:] * 2, (draw(4, 5),), ("A_{i,j+1}", "A_{i,j+2}")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_translation_is_found(name: str) -> None:
    function, inputs, change = WRONG[name]
    assert verdict(function, *inputs).status == "verified"
    found = verdict(function, *inputs, change=change)
    assert found.status == "mismatch"
    assert found.message


def test_a_mismatch_names_the_output() -> None:
    found = verdict(lambda x: {"a": x + 1, "b": x * 2}, draw(4), change=("*2.0", "*2.5"))
    assert found.message.startswith("output.b (D) in float64 is off by")


def test_errors_are_measured() -> None:
    found = verdict(attention, *QKV)
    assert found.max_abs_error is not None and 0 <= found.max_abs_error < 1e-14


VERIFIED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "integers": (lambda x: x + 1, (draw(4, dtype=torch.int64),)),
    "booleans": (lambda x, m: torch.where(m, x, 0.0), (draw(4), draw(4, dtype=torch.bool))),
    "a comparison": (lambda x, y: (x > y).float() + x, (draw(4), draw(4, seed=1))),
    "an epsilon of the dtype": (lambda x: F.rms_norm(x, (5,)), (draw(4, 5),)),
    "half precision": (lambda x: x.softmax(-1), (draw(4, 5).half(),)),
    "double": (lambda x: x.softmax(-1), (draw(4, 5).double(),)),
    "a cast in the module": (lambda x: x.half().float() * 2, (draw(4, 5),)),
    "a dtype that the module names": (
        lambda x: x + torch.zeros(5) + F.one_hot(torch.arange(5), 5).float() @ x.t()[:5].sum(1),
        (draw(4, 5),),
    ),
    "a constant of the module": (lambda x: x * torch.tensor([0.1, 0.2]) + torch.tensor(0.3), (draw(4, 2),)),
    "infinities": (lambda x: x.masked_fill(x > 0, -torch.inf), (draw(4, 5),)),
    "cancellation": (lambda x: (x - x.mean()).sum() + 1e-30 * x.sum(), (draw(4, 5),)),
    "rounding": (lambda x: torch.round(x * 10) / 10 + x, (draw(4, 5),)),
    "numbers among the inputs": (lambda x, n: x * n, (draw(4), 3)),
    "a gather": (lambda x, i: x[i], (draw(4, 5), torch.tensor([3, 1, 1]))),
}


@pytest.mark.parametrize("name", VERIFIED)
def test_a_right_translation_is_verified(name: str) -> None:
    function, inputs = VERIFIED[name]
    found = verdict(function, *inputs)
    assert found.status == "verified", found.message


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, str]] = {
    "constant": (
        lambda x: torch.softmax(x, 1),
        (draw(4, 1),),
        "constant-output",
        "output 0 is the same for all inputs",
    ),
    "constant by rounding": (lambda x: torch.softmax(x, 1).sum(1), (draw(4, 5),), "constant-output", "output 0 is"),
    "one constant of two": (lambda x: (x, x - x), (draw(4),), "constant-output", "output 1 is the same"),
    "dead relu": (lambda x: F.relu(x - 50), (draw(4, 5),), "constant-output", "output 0 is the same"),
    "ignores an input": (lambda x, _: x * 2, (draw(4), draw(4)), "unused-input", "no output depends on input 1"),
    "multiplies by 0": (lambda x, y: x + 0 * y, (draw(4), draw(4)), "unused-input", "no output depends on input 1"),
    "NaN": (lambda x: torch.log(-x.abs() - 1), (draw(4),), "nan-output", "output 0 is NaN everywhere"),
    "sigmoid": (lambda x: (x * 1e6).sigmoid(), (draw(6, 8),), "saturated-output", "output 0 is at one of two bounds"),
    "tanh": (lambda x: (x, (x * 1e6).tanh()), (draw(6, 8),), "saturated-output", "output 1 is at one of two bounds"),
    "softmax": (lambda x: (x * 1e6).softmax(1), (draw(6, 8),), "saturated-output", "output 0"),
    "clamp": (lambda x: x.clamp(-1e-5, 1e-5), (draw(6, 8),), "saturated-output", "output 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_degenerate_module_is_refused(name: str) -> None:
    function, inputs, cause, reason = REFUSED[name]
    found = verdict(function, *inputs)
    assert (found.status, found.cause) == ("refused", cause)
    assert reason in found.message


NOT_SATURATED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a step": (lambda x: (x > 0).float(), (draw(6, 8),)),
    "one hot": (lambda x: F.one_hot(x.argmax(1), 8).float(), (draw(6, 8),)),
    "a sign": (lambda x: x.sign(), (draw(6, 8),)),
    "relu": (lambda x: F.relu(x), (draw(6, 8),)),
    "sigmoid": (lambda x: (3 * x).sigmoid(), (draw(6, 8),)),
    "a sum": (lambda x: x.sum(), (draw(6, 8),)),
}


@pytest.mark.parametrize("name", NOT_SATURATED)
def test_two_values_are_no_saturation_where_the_module_has_no_others(name: str) -> None:
    function, inputs = NOT_SATURATED[name]
    found = verdict(function, *inputs)
    assert found.status == "verified", found.message


def test_an_error_that_the_first_draw_does_not_show_is_found() -> None:
    """The inputs are ordered, so that the maximum is the last element; their shuffled draws are not."""
    x = torch.arange(24.0).reshape(4, 6)
    found = verdict(lambda x: x.amax(1), x, change=("C_i max=A_{i,j}", "C_i max=if_then_else(j>3,A_{i,j},0.0)"))
    assert found.status == "mismatch"


def test_arguments_by_name() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, factor: torch.Tensor, bias: float) -> torch.Tensor:
            return x * factor + bias

    inputs = {"factor": draw(4), "bias": 0.5, "x": draw(3, 4)}
    translation = translate(Scaled(), inputs)
    assert list(translation.names.values()) == ["factor", "x", "output"]
    assert verify_translation(translation, Scaled(), inputs).status == "verified"


def test_the_module_is_left_as_it_was() -> None:
    module = nn.Linear(3, 2)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    x = draw(4, 3)
    verify_translation(translate(module, (x,)), module, (x,))
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert torch.equal(x, draw(4, 3))


IDLE_ARGUMENT = """import torch


class Model(torch.nn.Module):
    def forward(self, x, y):
        return x * 2 + 0 * y


def get_inputs():
    return [torch.randn(4, 4), torch.randn(4, 4)]


def get_init_inputs():
    return []
"""


def test_the_report_on_a_file_names_the_cause() -> None:
    report = intake.translate({"code": IDLE_ARGUMENT, "file": "idle.py"})
    assert (report["status"], report["cause"]) == ("refused", "unused-input")
    sorting = IDLE_ARGUMENT.replace("x * 2 + 0 * y", "torch.linalg.eigvals(x) + y")
    report = intake.translate({"code": sorting, "file": "eigenvalues.py"})
    assert (report["status"], report["cause"]) == ("unsupported", "unsupported-op")
    report = intake.translate({"code": IDLE_ARGUMENT + "0 / 0\n", "file": "broken.py"})
    assert (report["status"], report["cause"]) == ("error", "source-error")


@pytest.mark.parametrize(
    ("body", "terms"),
    [
        ("L^{4,6}_{i,j}[C_i+=A_{i,j};]", 6),
        ("L^{4,6}_{i,j}[D+=A_{i,j};]L^4_i[C_i=D;]", 24),
        ("L^{4,6}_{i,j}[C_i max=A_{i,j};]", 1),
        ("L^{4,6}_{i,j}[D_{i,j}=A_{i,j};C_i=D_{i,0};]", 1),
    ],
)
def test_the_slack_counts_the_terms_of_the_longest_sum(body: str, terms: int) -> None:
    assert _longest_sum(parse(f"in A_{{4,6}};out C_4;{body}")) == terms


def test_what_a_file_changes_is_undone() -> None:
    plain = IDLE_ARGUMENT.replace("+ 0 * y", "+ y")
    before = intake.translate({"code": plain, "file": "plain.py"})
    unruly = "\nimport os\ntorch.set_default_dtype(torch.float64)\nos.chdir('/')\nos.environ.clear()\n"
    unruly += "torch.Tensor.__mul__ = lambda a, b: a\ntorch.relu = None\n"
    directory, environment = Path.cwd(), dict(os.environ)
    assert intake.translate({"code": plain + unruly, "file": "unruly.py"})["dtype"] == "f64"
    after = intake.translate({"code": plain, "file": "plain.py"})
    assert (after["leir"], after["dtype"], after["status"]) == (before["leir"], "f32", "verified")
    assert (Path.cwd(), dict(os.environ)) == (directory, environment)


def chaotic(x: torch.Tensor) -> torch.Tensor:
    """The logistic map, which doubles an error at each step."""
    for _ in range(60):
        x = 3.99 * x * (1 - x)
    return x


def test_what_rounding_decides_is_refused_and_not_called_wrong() -> None:
    x = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    found = verdict(chaotic, x, change=("=A_{i,j}", "=A_{i,j}*1.0000000000000002"))
    assert (found.status, found.cause) == ("refused", "ill-conditioned"), found
    assert "output changes by" in found.message


@pytest.mark.parametrize("factor", [3.0, 5.0, 7.0, 11.0])
def test_rounding_is_drawn_more_than_once(factor: float) -> None:
    """A step that half of the roundings take and half do not."""
    x = torch.ones(1)
    found = verdict(lambda x: x + torch.where(x * factor / factor >= 1, 1.0, 0.0), x, change=(">=1.0", ">1.0"))
    assert (found.status, found.cause) == ("refused", "ill-conditioned"), found


def test_what_is_off_by_more_than_rounding_moves_it_is_wrong() -> None:
    x = torch.rand(4, 5, generator=torch.Generator().manual_seed(0))
    assert verdict(lambda x: chaotic(x) * 1e-3 + x, x, change=("+A", "+2.0*A")).status == "mismatch"
