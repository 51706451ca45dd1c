"""Losses against PyTorch: reductions, broadcasting, weights, and arguments where a naive form overflows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import ExportedProgram

from leir.syntax import Loop
from tests.stepTP.agreement import agree, draw, module_agrees
from tests.stepTP.test_frontend_modules import randomised

X, Y = draw(4, 5) * 2, draw(4, 5, seed=1)
WEIGHT = draw(5, seed=3).abs() + 0.1
REDUCTIONS = ("none", "mean", "sum")
LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor, str], Any]] = {
    "mse": lambda x, y, r: F.mse_loss(x, y, reduction=r),
    "l1": lambda x, y, r: F.l1_loss(x, y, reduction=r),
    "smooth_l1": lambda x, y, r: F.smooth_l1_loss(x, y, reduction=r, beta=0.7),
    "smooth_l1 of 0": lambda x, y, r: F.smooth_l1_loss(x, y, reduction=r, beta=0.0),
    "huber": lambda x, y, r: F.huber_loss(x, y, reduction=r, delta=0.7),
    "soft_margin": lambda x, y, r: F.soft_margin_loss(x * 10, y.sign(), reduction=r),
    "kl_div": lambda x, y, r: F.kl_div(x.log_softmax(1), y.relu(), reduction=r),
    "kl_div of logarithms": lambda x, y, r: F.kl_div(x.log_softmax(1), y, reduction=r, log_target=True),
    "bce": lambda x, y, r: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=r),
    "bce at 0 and 1": lambda x, y, r: F.binary_cross_entropy((x > 0).to(x.dtype), y.sigmoid(), reduction=r),
    "bce with weights": lambda x, y, r: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), x.abs(), reduction=r),
    "logits": lambda x, y, r: F.binary_cross_entropy_with_logits(x * 100, y.sigmoid(), reduction=r),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
def test_losses(name: str) -> None:
    agree(lambda x, y: tuple(LOSSES[name](x, y, reduction) for reduction in REDUCTIONS), X, Y)


def test_weights_of_logits() -> None:
    function = F.binary_cross_entropy_with_logits
    agree(lambda x, y, w: (function(x, y, w), function(x, y, pos_weight=w), function(x, y, w[:1], pos_weight=w)),
          X, Y.sigmoid(), WEIGHT)  # fmt: skip


def test_half_precision_sums_in_single() -> None:
    agree(lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="none")), X.half(), Y.half(), in_double=False)


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_target_that_broadcasts() -> None:
    agree(lambda x, y: (F.mse_loss(x, y), F.l1_loss(y, x, reduction="sum")), X, Y[:1])


def test_a_mean_is_two_nests() -> None:
    program = agree(lambda x, y: F.mse_loss(x, y), X, Y)
    assert len([s for s in program.body if isinstance(s, Loop)]) == 1 and len(program.body) == 2


SPREADS: dict[str, Callable[[torch.Tensor], Any]] = {
    "all": lambda x: (x.var(), x.std(), x.var(unbiased=False), x.std(unbiased=False)),
    "axis": lambda x: (x.var(1), x.std(-1), x.var(0, keepdim=True), x.std(0, unbiased=False, keepdim=True)),
    "axes": lambda x: (x.var((0, 1)), x.std((0, 1), unbiased=False)),
    "xlogy": lambda x: (torch.xlogy(x, 2.0), torch.xlogy(2.0, x.abs()), torch.xlogy(0.0, x), torch.xlogy(x, 3)),
}


@pytest.mark.parametrize("name", SPREADS)
def test_spreads_and_logarithms(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ExportedProgram, "run_decompositions")
    agree(SPREADS[name], X)


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("running", [False, True])
def test_instance_norm(affine: bool, running: bool) -> None:
    module_agrees(randomised(nn.InstanceNorm1d(3, affine=affine, track_running_stats=running)), draw(2, 3, 6))
    module_agrees(randomised(nn.InstanceNorm2d(3, affine=affine, track_running_stats=running)), draw(2, 3, 4, 5))
