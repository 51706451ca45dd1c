"""Modules with state: training and evaluation mode, statistics, counters, tied and dead parameters, changes in place.

A program returns what `forward` returns; the reference starts from the state before it, every time.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

from leir.printer import to_text
from stepTP.frontend import UnsupportedOp, bind, translate, verify_translation
from stepTP.frontend.reference import outputs_of
from stepTP.verify.inputs import Draw, draw_inputs
from stepTP.verify.reference import torch_origin
from tests.stepTP.agreement import Calls, draw, module_agrees

X = draw(6, 4, 3, 5)
TRAINING: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "batch_norm 2d": (lambda: nn.BatchNorm2d(4), X),
    "batch_norm 1d": (lambda: nn.BatchNorm1d(4), X[:, :, 0, 0]),
    "batch_norm 1d of rank 3": (lambda: nn.BatchNorm1d(4), X[:, :, 0]),
    "batch_norm 3d": (lambda: nn.BatchNorm3d(4), X[:, :, :, :, None].expand(6, 4, 3, 5, 2)),
    "batch_norm without parameters": (lambda: nn.BatchNorm2d(4, affine=False, momentum=0.5), X),
    "batch_norm in a block": (lambda: nn.Sequential(nn.Conv2d(4, 3, 2), nn.BatchNorm2d(3), nn.ReLU(inplace=True)), X),
    "two batch_norms": (lambda: nn.Sequential(nn.BatchNorm2d(4), nn.Tanh(), nn.BatchNorm2d(4)), X),
    "instance_norm": (lambda: nn.InstanceNorm2d(4, affine=True, track_running_stats=True), X),
}


def randomised(module: nn.Module) -> nn.Module:
    for number, tensor in enumerate([*module.parameters(), *module.buffers()]):
        if tensor.is_floating_point():
            tensor.data = draw(*tensor.shape, seed=number).abs() * 0.5 + 0.25
    return module


@pytest.mark.parametrize("name", TRAINING)
def test_training_normalises_by_the_batch(name: str) -> None:
    build, x = TRAINING[name]
    module = randomised(build())
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    translation = translate(module, (x,))
    assert any("running_mean" in path for path in translation.updates)
    assert not any("running" in path for path in translation.names.values())
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert verify_translation(translation, module, (x,)).status == "verified"
    module_agrees(module, x)


def test_training_and_evaluation_differ() -> None:
    module = randomised(nn.BatchNorm2d(4))
    assert module_agrees(module, X) != module_agrees(module.float().eval(), X)


class ReturnsStatistics(nn.Module):
    """Batch norm, with the statistics as they are after it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4, momentum=0.3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.norm(x)
        return y, self.norm.running_mean + 0, self.norm.running_var * 2  # type: ignore[operator, return-value]


def test_updated_statistics_are_computed_where_they_are_returned() -> None:
    module_agrees(randomised(ReturnsStatistics()), X)


class Counts(nn.Module):
    """An output that depends on how often `forward` ran before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.full((3,), 0.5))
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.average = 0.5 * self.average + x.mean(0)
        return x * self.average + self.calls


def test_every_run_of_the_reference_starts_from_the_first_state() -> None:
    module, x = Counts(), draw(4, 3)
    first, second = outputs_of(module, (x,)), outputs_of(module, (x,))
    assert np.array_equal(first[0], second[0])
    assert module.calls == 0
    translation = translate(module, (x,))
    module.calls = 0  # tracing ran it
    assert translation.updates == ("average",)
    assert verify_translation(translation, module, (x,)).status == "verified"


STATEFUL = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("average", torch.full((4,), 0.5))

    def forward(self, x):
        self.average.mul_(0.5).add_(x.mean(0))
        return self.norm(x) + self.average


def get_inputs():
    return [torch.randn(6, 4)]


def get_init_inputs():
    return []
"""


def test_the_reference_of_a_build_starts_from_the_first_state() -> None:
    from stepTP.frontend import translated

    _, translation = translated(STATEFUL, "stateful.py")
    origin = torch_origin(STATEFUL, "stateful.py", translation.program)
    drawn = draw_inputs(origin.profiles, Draw("normal", 1), 0, "stateful")
    wide = {name: array.astype(np.float64) for name, array in drawn.items()}
    (first,), (second,) = origin.reference(wide).values(), origin.reference(wide).values()
    assert np.array_equal(first, second)


class Tied(nn.Module):
    """Two layers with one weight, and a layer that nothing calls."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder, self.dead = nn.Linear(4, 4), nn.Linear(4, 4, bias=False), nn.Linear(2, 3)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(x).tanh())


def test_tied_weights_are_one_input_and_dead_parameters_stay() -> None:
    torch.manual_seed(0)
    translation = translate(Tied(), (draw(3, 4),))
    assert list(translation.names.values()) == [
        "x", "decoder.weight, encoder.weight", "encoder.bias", "dead.weight", "dead.bias", "output",
    ]  # fmt: skip
    assert translation.paths("C") == ("decoder.weight", "encoder.weight")
    assert [d.shape for d in translation.program.inputs] == [(3, 4), (4, 4), (4,), (3, 2), (3,)]
    module_agrees(Tied(), draw(3, 4))


class LeftOver(nn.Module):
    """Values that nothing uses, one of them from an op of several results."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        _unused = torch.log(1.0 + (x * x).sum(dim=-1))
        top, _where = x.max(dim=-1, keepdim=True)
        return x - top


def test_what_a_module_computes_and_never_uses_is_there() -> None:
    text = to_text(translate(LeftOver(), (draw(3, 4),)).program)
    assert "=log(" in text and text.count(" max=") == 1
    module_agrees(LeftOver(), draw(3, 4))


TIED = STATEFUL.replace("self.norm = nn.BatchNorm1d(4)", "self.norm = nn.Linear(4, 4)").replace(
    "nn.Linear(4, 4)", "nn.Linear(4, 4, bias=False)\n        self.other = nn.Linear(4, 4, bias=False)\n"
    "        self.other.weight = self.norm.weight"
).replace("self.norm(x) + self", "self.other(self.norm(x)) + self")  # fmt: skip


def test_the_reference_of_a_build_keeps_weights_tied() -> None:
    from stepTP.frontend import translated
    from stepTP.verify.prepare import prepare

    _, translation = translated(TIED, "tied.py")
    assert "norm.weight, other.weight" in translation.names.values()
    origin = torch_origin(TIED, "tied.py", translation.program)
    assert prepare(origin.program, origin.reference, origin.profiles, "tied").trials


class Leftovers(nn.Module):
    """Values that nothing uses, one through a decomposition, one of an op without an entry, beside one that is used."""

    def __init__(self, untranslatable: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw(4, 4))
        self.untranslatable = untranslatable

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = (x * 2.0).sum(dim=-1)
        torch.log(1.0 + total * total)
        torch.matmul(x, self.weight)
        nn.functional.cosine_similarity(x, x + 1.0, dim=-1)
        torch.zeros(7)
        if self.untranslatable:
            torch.msort(x)
        top, _ = x.max(dim=-1)
        return torch.relu(x) - top[:, None]


def text_of(module: nn.Module, *shape: int) -> str:
    module_agrees(module, draw(*shape))
    translation = translate(module.float(), (draw(*shape),))
    assert verify_translation(translation, module, (draw(*shape),)).status == "verified"
    return to_text(translation.program)


def test_values_that_nothing_uses_are_computed() -> None:
    text = text_of(Leftovers(), 3, 4)
    assert text.startswith("in A_{3,4},C_{4,4};out D_{3,4};")
    assert all(part in text for part in ("log(", "sqrt(", "*C_{k,j}"))
    assert text.count("max=") == 1  # and no index of the maximum
    assert "^7" not in text


def test_where_one_of_them_has_no_entry_all_are_left_out() -> None:
    text = text_of(Leftovers(untranslatable=True), 3, 4)
    assert text.startswith("in A_{3,4},C_{4,4};out D_{3,4};")
    assert not any(part in text for part in ("log(", "sqrt(", "*C_{k,j}"))


class IgnoresWeights(nn.Module):
    """Attention that returns its weights too, averaged over heads, to one who does not read them."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]


def test_weights_of_attention_that_nobody_reads_are_averaged() -> None:
    lines = text_of(IgnoresWeights(), 2, 4, 8).splitlines()
    assert any("/2.0;" in line for line in lines)


def test_arguments_changed_in_place() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2).relu_()
        y[0] = 1.0
        return x + y

    inputs = (draw(3, 4), draw(3, 4, seed=1))
    kept = [x.clone() for x in inputs]
    module_agrees(Calls(function), *inputs)
    translation = translate(Calls(function), inputs)
    assert len(translation.updates) == 2
    assert verify_translation(translation, Calls(function), inputs).status == "verified"
    assert all(torch.equal(a, b) for a, b in zip(inputs, kept, strict=True))


def test_dropout_in_evaluation_is_nothing_and_in_training_refused() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    assert "0.5" not in to_text(module_agrees(module.eval(), draw(2, 4)))
    module_agrees(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0)).train(), draw(2, 4))
    with pytest.raises(UnsupportedOp, match=r"aten.dropout.default: dropout in training draws random numbers in 1 \("):
        translate(module.float().train(), (draw(2, 4),))


RANDOM: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "rand": lambda x: x + torch.rand(4),
    "randn_like": lambda x: x + torch.randn_like(x),
    "bernoulli": lambda x: x * torch.bernoulli(torch.full((4,), 0.5)),
    "normal": lambda x: x + torch.zeros(4).normal_(),
    "randperm": lambda x: x[:, torch.randperm(4)],
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedOp, match="it draws random numbers"):
        translate(Calls(RANDOM[name]), (draw(3, 4),))


def test_a_tensor_given_twice_is_two_arguments() -> None:
    x = draw(3, 4)
    translation = translate(Calls(lambda a, b: a - 2 * b.t()), (draw(3, 3), draw(3, 3)))
    assert len(translation.user_inputs) == 2
    same = translate(Calls(lambda a, b: a - 2 * b), (x, x))
    assert len(same.user_inputs) == 2
    assert sorted(bind(same, (x, x))) == ["A", "C"]
    assert "C_{i,j}" in to_text(same.program)
