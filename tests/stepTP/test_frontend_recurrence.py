"""RNN, LSTM and GRU against PyTorch: one loop over time a layer and direction, whatever the length."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leir.printer import to_text
from leir.syntax import Loop
from stepTP.frontend import UnsupportedOp, translate, verify_translation
from tests.stepTP.agreement import Calls, draw, module_agrees

X = draw(5, 2, 3)  # time, batch, inputs


def starts(number: int, width: int, *others: int) -> tuple[torch.Tensor, ...]:
    return tuple(draw(number, 2, size, seed=size + n) for n, size in enumerate((width, *others)))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "rnn": (lambda: nn.RNN(3, 4), (X,)),
    "rnn relu without bias": (lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False, batch_first=True), (X,)),
    "lstm": (lambda: nn.LSTM(3, 4), (X, starts(1, 4, 4))),
    "lstm of two layers both ways": (
        lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True), (X,)),
    "lstm with projection": (lambda: nn.LSTM(3, 4, proj_size=2, num_layers=2), (X, starts(2, 2, 4))),
    "gru": (lambda: nn.GRU(3, 4, batch_first=True), (X.transpose(0, 1), starts(1, 4)[0])),
    "gru both ways without bias": (lambda: nn.GRU(3, 4, bidirectional=True, bias=False), (X,)),
    "gru unbatched": (lambda: nn.GRU(3, 4), (X[:, 0],)),
    "lstm of one step and unit": (lambda: nn.LSTM(3, 1), (X[:1],)),
}  # fmt: skip
MORE: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "rnn of three layers": (lambda: nn.RNN(3, 4, num_layers=3), (X, starts(3, 4)[0])),
    "rnn both ways": (lambda: nn.RNN(3, 4, bidirectional=True, batch_first=True), (X,)),
    "lstm without bias": (lambda: nn.LSTM(3, 4, bias=False), (X,)),
    "lstm projected both ways": (lambda: nn.LSTM(3, 4, proj_size=2, bidirectional=True), (X,)),
    "lstm unbatched": (lambda: nn.LSTM(3, 4, batch_first=True), (X[:, 0],)),
    "lstm of one batch": (lambda: nn.LSTM(3, 4), (X[:, :1],)),
    "gru of two layers": (lambda: nn.GRU(3, 4, num_layers=2, batch_first=True), (X,)),
    "gru of one step": (lambda: nn.GRU(3, 4, bidirectional=True), (X[:1], starts(2, 4)[0])),
    "lstm with dropout in evaluation": (lambda: nn.LSTM(3, 4, num_layers=2, dropout=0.5).eval(), (X,)),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.parametrize("name", NETWORKS)
def test_network(name: str) -> None:
    build, inputs = NETWORKS[name]
    torch.manual_seed(0)
    module_agrees(build(), *inputs)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_network_of_another_kind(name: str) -> None:
    build, inputs = MORE[name]
    torch.manual_seed(0)
    module_agrees(build(), *inputs)


def test_the_text_does_not_grow_with_time() -> None:
    lengths = {steps: len(to_text(translate(nn.LSTM(3, 4), (draw(steps, 2, 3),)).program)) for steps in (10, 90)}
    assert lengths[10] == lengths[90]


def test_tracing_runs_no_steps() -> None:
    """A network of 20,000 steps, which would take minutes one by one, is traced in under ten processor seconds."""
    start = time.process_time()
    program = translate(nn.LSTM(3, 4, bidirectional=True), (draw(20_000, 1, 3),)).program
    assert time.process_time() - start < 10
    assert len(to_text(program)) < 3_000
    module, x = nn.GRU(3, 4), draw(3, 2, 3)
    assert torch.isfinite(module(x)[0]).all() and torch.equal(module(x)[0], module(x)[0])  # run as ever afterwards


def test_a_recurrence_reads_plainly() -> None:
    def function(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return torch.rnn_tanh(x, x.new_zeros(1, 2, 4), [w, r], False, 1, 0.0, False, False, False)[0]

    program = module_agrees(Calls(function), X, draw(4, 3), draw(4, 4))
    assert to_text(program) == (
        "in A_{5,2,3},C_{4,3},D_{4,4};out E_{5,2,4};\n"
        "L^{5,2,4,3}_{i,j,k,l}[F_{i,j,k}+=A_{i,j,l}*C_{k,l};]\n"
        "L^{2,4}_{i,j}[G_{0,i,j}=0.0;]\n"
        "L^5_i[L^{2,4,4}_{j,k,l}[H_{i,j,k}+=G_{i,j,l}*D_{k,l};]"
        "L^{2,4}_{j,k}[G_{i+1,j,k}=tanh(F_{i,j,k}+H_{i,j,k});]]\n"
        "L^{5,2,4}_{i,j,k}[E_{i,j,k}=G_{i+1,j,k};]\n"
    )


class LastStep(nn.Module):
    """A classifier on the last state, with batch norm, whose graph needs decompositions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.gru = nn.Embedding(7, 3), nn.GRU(3, 4, batch_first=True)
        self.norm, self.head = nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.gru(self.embedding(tokens))[0][:, -1]))


def test_within_a_module() -> None:
    torch.manual_seed(0)
    tokens = draw(4, 6, dtype=torch.int64).abs()
    program = module_agrees(LastStep(), tokens)
    assert sum(isinstance(s, Loop) and any(isinstance(b, Loop) for b in s.body[1:]) for s in program.body) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module, inputs = nn.LSTM(3, 4).to(dtype), (X.to(dtype),)
    found = verify_translation(translate(module, inputs), module, inputs)
    assert found.status == "verified", found.message


def test_a_wrong_recurrence_is_found() -> None:
    from tests.stepTP.test_frontend_verification import edited

    torch.manual_seed(0)
    module = nn.RNN(3, 4)
    wrong = edited(translate(module, (X,)), "+E_k+K", "+1.00001*E_k+K")
    assert verify_translation(wrong, module, (X,)).status == "mismatch"


class Cells(nn.Module):
    """Every cell once."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.rnn, self.relu = nn.RNNCell(3, 4, bias=bias), nn.RNNCell(3, 4, bias=bias, nonlinearity="relu")
        self.lstm, self.gru = nn.LSTMCell(3, 4, bias=bias), nn.GRUCell(3, 4, bias=bias)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> tuple[Any, ...]:
        return self.rnn(x, h), self.relu(x, h), self.lstm(x, (h, c)), self.lstm(x)[0], self.gru(x, h), self.gru(x)


@pytest.mark.parametrize("bias", [True, False])
def test_cells(bias: bool) -> None:
    torch.manual_seed(0)
    module_agrees(Cells(bias), X[0], draw(2, 4, seed=4), draw(2, 4, seed=5))


def test_dropout_between_layers_in_training_is_refused() -> None:
    with pytest.raises(UnsupportedOp, match=r"aten.lstm.input: dropout in training draws random numbers"):
        translate(nn.LSTM(3, 4, num_layers=2, dropout=0.5), (X,))
