"""Python loops in `forward`: what tracing writes out becomes one loop, and what differs from turn to turn stays."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from leir.printer import to_text
from leir.syntax import Loop
from stepTP.frontend import UnsupportedOp, translate, translation, verify_translation
from tests.stepTP.agreement import Calls, agree, draw, module_agrees


class RunsCell(nn.Module):
    """A cell in a loop over time, from zeros; every state and the last one."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.cell = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}[kind](3, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        state: Any = torch.zeros(x.shape[0], 4)
        state = (state, state) if self.kind == "lstm" else state
        states = []
        for t in range(x.shape[1]):
            state = self.cell(x[:, t], state)
            states.append(state[0] if self.kind == "lstm" else state)
        return torch.stack(states, 1), states[-1]


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_cell_in_a_loop(kind: str) -> None:
    torch.manual_seed(0)
    module = RunsCell(kind)
    short = module_agrees(module, draw(2, 7, 3))
    long = translate(module.float(), (draw(2, 19, 3),)).program
    assert len(to_text(long)) - len(to_text(short)) < 20  # more digits
    assert sum(isinstance(s, Loop) and len(s.body) > 2 for s in long.body) == 1


def moving_average(x: torch.Tensor) -> torch.Tensor:
    rows = [x[0]]
    for t in range(1, x.shape[0]):
        rows.append(0.9 * rows[-1] + 0.1 * x[t])
    return torch.stack(rows)


def state_space(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    outputs = []
    for t in range(x.shape[1]):
        h = a * h + b * x[:, t, None]
        outputs.append((h * c).sum(-1))
    return torch.stack(outputs, -1)


def selective(x: torch.Tensor, delta: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """A scan as Mamba writes it: (batch, time, width), and a state of 3 a channel."""
    h = torch.zeros(x.shape[0], x.shape[2], a.shape[1])
    outputs = []
    for t in range(x.shape[1]):
        step = F.softplus(delta[:, t]).unsqueeze(-1)
        h = torch.exp(-step * a.abs()) * h + step * x[:, t].unsqueeze(-1)
        outputs.append(h.sum(-1))
    return torch.stack(outputs, dim=1)


def power_iteration(a: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    for _ in range(6):
        v = a @ v
        v = v / v.norm()
    return v


def products(a: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What is carried is accumulated into, and starts as an input."""
    for _ in range(5):
        v = a @ v
    return v


def sinkhorn(x: torch.Tensor) -> torch.Tensor:
    x = x.exp()
    for _ in range(5):
        x = x / x.sum(1, keepdim=True)
        x = x / x.sum(0, keepdim=True)
    return x


def two_steps_back(x: torch.Tensor) -> torch.Tensor:
    a, b = x[0], x[1]
    rows = [a, b]
    for t in range(2, x.shape[0]):
        a, b = b, torch.tanh(a + b * x[t])
        rows.append(b)
    return torch.stack(rows, 1)


def backwards(x: torch.Tensor) -> torch.Tensor:
    total, rows = torch.zeros(x.shape[1]), []
    for t in reversed(range(x.shape[0])):
        total = torch.tanh(total + x[t])
        rows.insert(0, total)
    return torch.stack(rows)


def strided(x: torch.Tensor) -> torch.Tensor:
    total = x[0]
    for t in range(0, x.shape[0], 2):
        total = torch.maximum(total * 0.5, x[t])
    return total


def horner(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    result = torch.zeros_like(x)
    for coefficient in c.unbind(0):
        result = result * x + coefficient
    return result


def anew(x: torch.Tensor) -> torch.Tensor:
    """What every turn reads is also what the first one starts from."""
    h = x * 2
    start = h
    for _ in range(5):
        h = torch.sin(h) + start
    return h


LOOPS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "moving average": (moving_average, (draw(12, 3),)),
    "state space": (state_space, (draw(2, 9), draw(4), draw(4, seed=1), draw(4, seed=2), draw(2, 4, seed=3))),
    "selective": (selective, (draw(2, 8, 3), draw(2, 8, 3, seed=1), draw(3, 3))),
    "power iteration": (power_iteration, (draw(4, 4), draw(4))),
    "products": (products, (draw(4, 4) * 0.5, draw(4))),
    "sinkhorn": (sinkhorn, (draw(3, 4),)),
    "two steps back": (two_steps_back, (draw(11, 3),)),
    "backwards": (backwards, (draw(9, 3),)),
    "every other": (strided, (draw(13, 3),)),
    "horner": (horner, (draw(5), draw(8))),
    "anew": (anew, (draw(5),)),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_is_rolled(name: str) -> None:
    function, inputs = LOOPS[name]
    program = agree(function, *inputs)
    assert len(program.body) <= 13, to_text(program)
    assert any(isinstance(s, Loop) and isinstance(s.body[0], Loop) and len(s.body) > 1 for s in program.body)


def test_a_rolled_loop_reads_plainly() -> None:
    assert to_text(agree(products, draw(4, 4) * 0.5, draw(4))) == (
        "in A_{4,4},C_4;out D_4;\n"
        "L^4_i[E_{0,i}=C_i;]\n"
        "L^5_i[L^{4,4}_{j,k}[F_{i,j}+=A_{j,k}*E_{i,k};]L^4_j[E_{i+1,j}=F_{i,j};]]\n"
        "L^4_i[D_i=F_{4,i};]\n"
    )


def test_half_precision_keeps_its_types() -> None:
    module, inputs = Calls(products), ((draw(4, 4) * 0.5).half(), draw(4).half())
    found = verify_translation(translate(module, inputs), module, inputs)
    assert found.status == "verified", found.message


def growing(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x[: t + 1].sum(0) for t in range(x.shape[0])])


def scheduled(x: torch.Tensor) -> torch.Tensor:
    for t in range(6):
        x = x * 0.5**t + 1
    return x


def alternating(x: torch.Tensor) -> torch.Tensor:
    for index in (0, 2, 1, 5, 3):
        x = torch.sin(x + x[index])
    return x


def states_apart(x: torch.Tensor) -> list[torch.Tensor]:
    rows = [x]
    for _ in range(5):
        rows.append(torch.sin(rows[-1]))
    return rows


WRITTEN_OUT: dict[str, tuple[Callable[..., Any], torch.Tensor]] = {
    "growing extents": (growing, draw(6, 3)),
    "other numbers each turn": (scheduled, draw(4)),
    "no pattern in the subscripts": (alternating, draw(6)),
    "an output a turn": (states_apart, draw(4)),
    "three turns": (lambda x: torch.sin(torch.sin(torch.sin(x))), draw(4)),
}


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_what_does_not_repeat_stays_written_out(name: str) -> None:
    function, x = WRITTEN_OUT[name]
    program = agree(function, x)
    assert not any(isinstance(s, Loop) and len(s.body) > 1 for s in program.body), to_text(program)


def test_layers_with_weights_of_their_own_stay_written_out() -> None:
    torch.manual_seed(0)
    program = module_agrees(nn.Sequential(*(nn.Linear(4, 4) for _ in range(5))), draw(3, 4))
    assert len(program.body) == 10


def test_a_program_that_grows_without_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "MOST_NESTS", 5)
    with pytest.raises(UnsupportedOp, match="nests, more than 5: forward is that long, or has a loop"):
        translate(Calls(growing), (draw(6, 3),))
