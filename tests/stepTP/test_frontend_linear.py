"""Products of matrices against PyTorch: every rank, broadcasting of leading axes, alpha and beta."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from leir.printer import to_text
from tests.stepTP.agreement import agree, draw

MATMUL = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((4, 5), (5, 3)),
    ((5,), (2, 5, 3)),
    ((2, 4, 5), (5,)),
    ((2, 4, 5), (5, 3)),
    ((4, 5), (2, 5, 3)),
    ((2, 4, 5), (2, 5, 3)),
    ((2, 1, 4, 5), (3, 5, 2)),
    ((1, 4, 5), (2, 5, 3)),
    ((2, 3, 4, 5), (5,)),
    ((5,), (2, 3, 5, 4)),
    ((2, 2, 2), (2, 2)),
    ((3, 3), (3, 3)),
    ((1, 1), (1, 1)),
    ((4, 1), (1, 3)),
    ((1, 5), (5, 1)),
    ((2, 1, 1, 5), (3, 5, 1)),
    ((1,), (1,)),
]


@pytest.mark.parametrize(("left", "right"), MATMUL, ids=str)
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    agree(torch.matmul, draw(*left), draw(*right, seed=1))


OTHERS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "mm": (torch.mm, (draw(4, 5), draw(5, 3))),
    "bmm": (torch.bmm, (draw(2, 4, 5), draw(2, 5, 3))),
    "mv": (torch.mv, (draw(4, 5), draw(5))),
    "dot": (torch.dot, (draw(5), draw(5, seed=1))),
    "outer": (torch.outer, (draw(4), draw(3))),
    "einsum": (lambda x, y: torch.einsum("bij,bkj->bik", x, y), (draw(2, 3, 4), draw(2, 5, 4))),
    "linear": (F.linear, (draw(4, 5), draw(3, 5))),
    "linear with bias": (F.linear, (draw(4, 5), draw(3, 5), draw(3))),
    "linear of a vector": (F.linear, (draw(5), draw(3, 5), draw(3))),
    "linear of rank 4": (F.linear, (draw(2, 3, 4, 5), draw(3, 5), draw(3))),
    "linear with a weight of rank 1": (F.linear, (draw(2, 3, 5), draw(5))),
    "linear to one feature": (F.linear, (draw(4, 5), draw(1, 5), draw(1))),
    "transposed": (lambda x, y: x.t() @ y.transpose(0, 1), (draw(5, 4), draw(3, 5))),
    "bilinear": (F.bilinear, (draw(4, 5), draw(4, 3), draw(2, 5, 3), draw(2))),
    "bilinear of rank 3": (F.bilinear, (draw(2, 4, 5), draw(2, 4, 3), draw(2, 5, 3))),
    "integers": (torch.matmul, (draw(3, 4, dtype=torch.int64), draw(4, 2, dtype=torch.int64))),
    "f64": (torch.matmul, (draw(3, 4).double(), draw(4, 2).double())),
    "f16": (torch.matmul, (draw(3, 4).half(), draw(4, 2).half())),
}


@pytest.mark.parametrize("name", OTHERS)
def test_product(name: str) -> None:
    function, inputs = OTHERS[name]
    agree(function, *inputs, in_double=inputs[0].dtype == torch.float32)


SCALARS: list[dict[str, float]] = [
    {}, {"alpha": 2}, {"beta": 0.5}, {"alpha": -0.5, "beta": -2}, {"beta": 0}, {"beta": 0, "alpha": 3}, {"alpha": 0},
]  # fmt: skip


@pytest.mark.parametrize("added", [(4, 3), (3,), (4, 1), (1, 3), (1,), ()], ids=str)
def test_addmm_broadcasts_what_it_adds(added: tuple[int, ...]) -> None:
    agree(torch.addmm, draw(*added), draw(4, 5), draw(5, 3))


@pytest.mark.parametrize("scalars", SCALARS, ids=str)
def test_alpha_and_beta(scalars: dict[str, float]) -> None:
    agree(lambda c, a, b: torch.addmm(c, a, b, **scalars), draw(3), draw(4, 5), draw(5, 3))
    agree(lambda c, a, b: torch.baddbmm(c, a, b, **scalars), draw(2, 4, 3), draw(2, 4, 5), draw(2, 5, 3))
    agree(lambda c, a, b: torch.addbmm(c, a, b, **scalars), draw(4, 3), draw(2, 4, 5), draw(2, 5, 3))
    agree(lambda c, a, b: torch.addmv(c, a, b, **scalars), draw(4), draw(4, 5), draw(5))


def test_a_beta_of_zero_ignores_nan() -> None:
    agree(lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((3,), torch.nan), draw(4, 5), draw(5, 3))


def test_matmul_and_bias_read_as_in_the_language_page() -> None:
    program = agree(lambda a, w, x: torch.addmm(x, a, w), draw(64, 128), draw(128, 32), draw(32))
    assert to_text(program) == (
        "in A_{64,128},C_{128,32},D_{32};out E_{64,32};\n"
        "L^{64,32,128}_{i,j,k}[F_{i,j}+=A_{i,k}*C_{k,j};]\n"
        "L^{64,32}_{i,j}[E_{i,j}=F_{i,j}+D_j;]\n"
    )


def test_linear_reads_its_weight_transposed() -> None:
    assert "A_{i,k}*C_{j,k}" in to_text(agree(F.linear, draw(4, 5), draw(3, 5)))
