"""Reductions against PyTorch: axes, keepdim, dtypes, divisors."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from leir.printer import to_text
from stepTP.frontend import UnsupportedOp, translate
from tests.stepTP.agreement import Calls, agree, draw

X = draw(3, 4, 5)
AXES: list[Any] = [None, 0, 1, -1, (0, 2), (1, 2), (0, 1, 2), (-3,)]


def of(function: Callable[..., Any], dim: Any, keepdim: bool, **options: Any) -> Callable[[torch.Tensor], Any]:
    def call(x: torch.Tensor) -> Any:
        return function(x, dim=dim, keepdim=keepdim, **options) if dim is not None else function(x, **options)

    return call


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", AXES, ids=str)
def test_sum_mean_amax_amin(dim: Any, keepdim: bool) -> None:
    for function in (torch.sum, torch.mean, torch.amax, torch.amin):
        agree(of(function, dim, keepdim), X)


@pytest.mark.parametrize("shape", [(), (1,), (1, 5), (5, 1), (1, 1, 1), (3, 3)], ids=str)
def test_axes_of_size_one_and_rank_0(shape: tuple[int, ...]) -> None:
    agree(lambda x: (x.sum(), x.mean(), x.amax(), x.amin()), draw(*shape))
    if shape:
        agree(lambda x: (x.sum(0), x.mean(-1, keepdim=True), x.amax(0), x.amin(-1)), draw(*shape))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, (0, 2), (-1,)], ids=str)
def test_variance(dim: Any, keepdim: bool) -> None:
    agree(of(torch.var, dim, keepdim), X)
    agree(lambda x: torch.var(x, dim=dim, keepdim=keepdim, correction=0), X)
    agree(lambda x: torch.std(x, dim=dim, keepdim=keepdim, correction=2), X)


def test_variance_is_not_a_difference_of_squares() -> None:
    agree(lambda x: torch.var(x, -1), 1e4 + X)


def test_variance_without_freedom_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match="leave 0 degrees of freedom"):
        translate(Calls(lambda x: x.var(1)), (draw(3, 1),))


OTHERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "prod": lambda x: (x.prod(), x.prod(1), x.prod(-1, keepdim=True)),
    "max and min": lambda x: (x.max(), x.min()),
    "max of an axis": lambda x: (x.max(1).values, x.min(-1, keepdim=True).values),
    "max and where": lambda x: (*x.max(1), *x.min(0, keepdim=True)),
    "argmax": lambda x: (x.argmax(), x.argmax(1), x.argmax(-1, keepdim=True), x.argmin(0)),
    "cumsum": lambda x: (x.cumsum(0), x.cumsum(-1)),
    "cumprod": lambda x: (x.cumprod(0), x.cumprod(-1)),
    "var_mean": lambda x: (*torch.var_mean(x, 1), *torch.var_mean(x, correction=0, keepdim=True)),
    "cdist": lambda x: torch.cdist(x, x[:1] * 2),
    "distances of every order": lambda x: [torch.cdist(x, x[:1] * 2, p) for p in (0.0, 1.0, 3.0, torch.inf)],
    "pdist": lambda x: (F.pdist(x[0]), F.pdist(x[0], 1.0)),
    "extremes of booleans": lambda x: (*(x > 0).max(1), *(x > 1).min(0)),
    "any and all": lambda x: ((x > 0).any(), (x > 0).all(1), (x > 1).any(-1, keepdim=True), (x > 2).any((0, 2))),
    "sum of comparisons": lambda x: ((x > 0).sum(), (x > 0).sum(1), (x > 0).float().mean(-1)),
    "norm": lambda x: (x.norm(), torch.linalg.vector_norm(x, dim=-1)),
    "norms of every order": lambda x: [
        torch.linalg.vector_norm(x.round(), order, dim=1) for order in (0, 1, 2, 3, 2.5, torch.inf, -torch.inf)
    ],
    "logsumexp": lambda x: (x.logsumexp(1), x.logsumexp((0, 2)), x.logsumexp(-1, keepdim=True)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_reductions(name: str) -> None:
    agree(OTHERS[name], X, in_double=name != "sum of comparisons")


def test_ties_go_to_the_first() -> None:
    agree(lambda x: (x.argmax(-1), x.argmin(), x.argmax()), torch.tensor([[1.0, 3.0, 3.0], [3.0, 1.0, 1.0]]))


DTYPES: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "integers": (
        lambda x: (x.sum(), x.sum(0), x.amax(1), x.amin(1), x.prod(1), x.max(), x.cumsum(0)),
        draw(3, 4, dtype=torch.int64),
    ),
    "i32": (lambda x: (x.sum(0), x.amax(1), x.amin(0), x.any(1)), draw(3, 4, dtype=torch.int32)),
    "bool": (lambda x: (x.sum(0), x.amax(1), x.amin(0), x.any(1), x.all(0)), draw(3, 4, dtype=torch.bool)),
    "to f64": (lambda x: (x.sum(dtype=torch.float64), x.mean(0, dtype=torch.float64)), draw(3, 4)),
    "integers to f32": (lambda x: (x.sum(1, dtype=torch.float32), x.mean(dtype=torch.float32)), draw(3, 4).int()),
    "f64": (lambda x: (x.sum(0), x.mean(), x.amax(1), x.var(0)), draw(3, 4).double()),
    "f16": (lambda x: (x.sum(0), x.mean(1), x.amax(), x.var(1)), draw(3, 4).half()),
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name: str) -> None:
    function, x = DTYPES[name]
    agree(function, x, in_double=False)


def test_an_infinite_maximum_is_its_logsumexp() -> None:
    x = torch.tensor([[1.0, 2.0], [-torch.inf, -torch.inf], [torch.inf, 0.0]])
    agree(lambda x: x.logsumexp(1), x)


def test_a_mean_divides_by_the_count() -> None:
    assert to_text(agree(lambda x: x.mean(1), draw(4, 6))) == (
        "in A_{4,6};out C_4;\nL^{4,6}_{i,j}[D_i+=A_{i,j};]\nL^4_i[C_i=D_i/6.0;]\n"
    )
