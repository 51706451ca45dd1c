"""Ops without an entry, traced one by one: right, and without a trace of the whole graph."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.export import ExportedProgram

from stepTP.frontend import translate
from stepTP.frontend.emitter import UnsupportedOp
from tests.stepTP.agreement import agree, draw

X, Y = draw(4, 5), draw(4, 5, seed=1)
CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "one result": lambda x, y: torch.outer(x[0], y[0]).exp(),
    "an output": lambda x, y: torch.outer(x[0], y[0]),
    "a view": lambda x, y: (x.mT, x.swapaxes(0, 1) @ y),
    "several results": lambda x, y: [a * 2 for a in torch.meshgrid(x[0], y[:, 0], indexing="ij")],
    "several outputs": lambda x, y: torch.meshgrid(x[0], y[:, 0], indexing="ij"),
    "its own argument": lambda x, y: (x.expand_as(y), x + y),
    "one tensor twice": lambda x, y: torch.kron(x, x) * torch.inner(x, y).sum(),
    "no argument": lambda x, y: x * torch.hann_window(5, dtype=x.dtype) + y,
    "argument by name": lambda x, y: torch.trapezoid(x, dx=0.5, dim=0) + torch.diff(y, n=1, dim=1).sum(),
    "changes within": lambda x, y: (F.pad(x[None], (1, 2), mode="circular"), F.hinge_embedding_loss(x, y.sign())),
    "several ops": lambda x, y: torch.hstack([torch.rot90(x), torch.rot90(y)]).frac(),
}


@pytest.mark.parametrize("name", CASES)
def test_each_op_is_traced_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def whole(*_: Any) -> None:
        raise AssertionError("the whole graph was traced")

    monkeypatch.setattr(ExportedProgram, "run_decompositions", whole)
    agree(CASES[name], X, Y)


def test_a_graph_that_changes_its_arguments_is_traced_as_a_whole() -> None:
    def write(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x.clone()
        z[1:3] = torch.outer(y[:2, 0], y[0])
        z += x
        return z

    agree(write, X, Y)


class Nuclear(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.norm(x, ord="nuc") * 2


def test_what_an_op_comes_to_is_refused_at_the_line_of_the_op() -> None:
    with pytest.raises(UnsupportedOp, match=r"svd.*pivots") as caught:
        translate(Nuclear(), (X,))
    assert "test_frontend_expansion.py" in caught.value.line and "linalg.norm" in caught.value.line
