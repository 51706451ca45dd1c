"""What tensors may be: dtypes, ranks, layouts, structures of arguments and results; and what is refused, by name."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from leir.printer import to_text
from leir.syntax import Loop
from stepTP.frontend import ExportFailed, UnsupportedOp, translate, verify_translation
from tests.stepTP.agreement import Calls, agree, draw, module_agrees

X = draw(3, 4)

RESULTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[str]]] = {
    "a tuple": (lambda x: (x * 2, x.sum()), (X,), ["output.0", "output.1"]),
    "a list in a dict": (
        lambda x: {"a": [x + 1, x.t()], "b": (x.exp(),)}, (X,), ["output.a.0", "output.a.1", "output.b.0"]),
    "None between": (lambda x: (x + 1, None, x - 1), (X,), ["output.0", "output.2"]),
    "numbers between": (lambda x: (x + 1, 3, x.shape, x - 1), (X,), ["output.0", "output.3"]),
    "an argument itself": (lambda x: x, (X,), ["output"]),
    "a view of an argument": (lambda x: x.t()[1:], (X,), ["output"]),
    "an argument and a view of it": (lambda x: (x, x.view(2, 6), x[0]), (X,), ["output.0", "output.1", "output.2"]),
    "one tensor twice": (lambda x: (y := x.exp(), y), (X,), ["output.0", "output.1"]),
    "a tensor and a view of it": (lambda x: (y := x.exp(), y.t(), y), (X,), ["output.0", "output.1", "output.2"]),
    "a constant beside": (lambda x: (x + 1, torch.arange(3)), (X,), ["output.0", "output.1"]),
    "arguments in structures": (
        lambda d, pair: d["x"] * pair[0] + pair[1][0], ({"x": X}, (X + 1, [X.exp()])), ["output"]),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_structures(name: str) -> None:
    function, inputs, names = RESULTS[name]
    agree(function, *inputs)
    translation = translate(Calls(function), inputs)
    assert [translation.names[output] for output in translation.outputs] == names


def test_every_result_is_a_tensor_of_its_own() -> None:
    program = agree(lambda x: (y := x.exp(), y, x), X)
    assert len(program.outputs) == 3
    assert to_text(program).count("exp") == 1


LAYOUTS: dict[str, torch.Tensor] = {
    "transposed": draw(4, 3).t(),
    "expanded": draw(3, 1).expand(3, 4),
    "expanded along a new axis": draw(4).expand(3, 4),
    "strided": draw(6, 8)[::2, ::2],
    "with an offset": draw(5, 9)[2:, 5:],
    "permuted": draw(4, 1, 3).permute(2, 1, 0).squeeze(1),
    "one diagonal": draw(4, 3, 4).diagonal(0, 0, 2).contiguous().t().t(),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_arguments(name: str) -> None:
    x = LAYOUTS[name]
    kept = x.clone()
    agree(lambda x: (x.softmax(-1), x.sum(0), x.t().reshape(-1)), x)
    module = Calls(lambda x: (x.exp() * 2).add_(1))
    assert verify_translation(translate(module, (x,)), module, (x,)).status == "verified"
    assert torch.equal(x, kept)


TYPES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "integers": (lambda x, y: (x + y, x * 3, x.sum(), x > y), (draw(4, dtype=torch.int64), draw(4, dtype=torch.int64))),
    "narrow integers": (lambda x, y: (x + y, x - 1), (draw(4, dtype=torch.int32), draw(4, dtype=torch.int8))),
    "booleans": (lambda x, m: (x * m, m.sum(), m & (x > 0), ~m), (draw(4), draw(4, dtype=torch.bool))),
    "doubles": (lambda x: (x.softmax(0), x.sum()), (draw(4).double(),)),
    "half and single": (lambda x, y: (x + y, x * 2), (draw(4).half(), draw(4))),
    "integers and floats": (lambda x, y: (x + y, x / 2, y * 0.5), (draw(4, dtype=torch.int64), X)),
    "numbers as arguments": (lambda x, n, f, b: x * n + f if b else x, (X, 3, 0.5, True)),
    "rank 0": (lambda x, s: (x * s, s + 1, x.sum() * s), (X, torch.tensor(1.5))),
    "sizes of 1": (lambda x, y: (x + y, x * x, y.sum(0)), (draw(1, 4, 1), draw(3, 1, 1))),
    "all sizes 1": (lambda x: (x + 1, x.sum(), x.softmax(0) + x), (draw(1, 1, 1),)),
    "broadcasting of many kinds": (
        lambda x, y, z: (x + y, x * z, y - z, torch.where(z > 0, x, y)), (draw(2, 1, 4), draw(3, 1), draw(4))),
    "a tensor literal": (lambda x: x * torch.tensor([1.0, -2.0, 0.5, 3.0]) + torch.tensor(-2), (X,)),
    "negative positions": (lambda x: x[torch.tensor([-1, 0, -3])] + x[[-1, 1, -2]], (X,)),
    "negative positions on two axes": (lambda x: x[[0, -1, 1], [-1, -2, 0]] * 2, (X,)),
    "repeated expressions": (lambda x: x.exp() + x.exp(), (X,)),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_and_ranks(name: str) -> None:
    function, inputs = TYPES[name]
    agree(function, *inputs)


def test_repeated_expressions_are_not_merged() -> None:
    assert to_text(agree(lambda x: x.exp() * x.exp(), X)).count("exp") == 2


def test_bfloat16() -> None:
    module, x = Calls(lambda x: (x.softmax(-1), (x * 3).sum(0))), X.bfloat16()
    found = verify_translation(translate(module, (x,)), module, (x,))
    assert found.status == "verified", found.message


CASTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "to single and back": (lambda x: x.float().softmax(-1).to(x.dtype), (X.half(),)),
    "through half": (lambda x: x.half().float() * 2 + x, (X,)),
    "through bfloat16": (lambda x: (x.bfloat16() * x.bfloat16()).float(), (X,)),
    "a sum in half": (lambda x: x.half().sum(-1), (X,)),
    "to double": (lambda x: (x.double() * 2).sum().float(), (X,)),
    "a buffer of another type": (lambda x: x * torch.ones(4, dtype=torch.float16) + torch.zeros(4).double(), (X,)),
}


@pytest.mark.parametrize("name", CASTS)
def test_casts_are_widened_for_the_reference_and_kept_in_the_program(name: str) -> None:
    """The reference computes every float in float64; the program keeps its own types, which are checked as they are."""
    function, inputs = CASTS[name]
    module = Calls(function)
    translation = translate(module, inputs)
    found = verify_translation(translation, module, inputs)
    assert found.status == "verified", found.message
    assert found.max_abs_error is not None and found.max_abs_error < 1e-12


class Buffers(nn.Module):
    """Parameters and buffers of several types, one of them no part of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(draw(4, seed=3))
        self.register_buffer("table", torch.arange(4) * 2)
        self.register_buffer("mask", torch.tensor([True, False, True, True]), persistent=False)
        self.plain = draw(4, seed=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.mask, x * self.weight, x + self.table) - self.plain


def test_parameters_buffers_and_plain_tensors() -> None:
    module_agrees(Buffers(), X)
    names = translate(Buffers(), (X,)).names
    assert {"weight", "table", "mask", "plain", "x", "output"} == set(names.values())


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "an empty argument": (lambda x: x.sum(), (torch.zeros(0, 3),), "a tensor without elements"),
    "an empty result": (lambda x: x[:0] * 2, (X,), "without elements"),
    "complex numbers": (lambda x: x * 2, (torch.zeros(3, dtype=torch.complex64),), "complex64 has no counterpart"),
    "complex numbers inside": (lambda x: torch.view_as_real(torch.complex(x, x)), (X,), "complex"),
    "narrow integers": (lambda x: x + 1, (torch.zeros(3, dtype=torch.uint8),), "uint8 has no counterpart in LEIR"),
    "a shape that depends on data": (lambda x: x[x > 0], (X,), "the shape of its result depends on data"),
    "positions of nonzeros": (lambda x: torch.nonzero(x), (X,), "nonzero"),
    "a branch": (
        lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)), (X,),
        "cond: control flow that depends on the values of tensors"),
    "no tensor": (lambda x: x.dim(), (X,), "the module returns no tensor"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, inputs, reason = REFUSED[name]
    with pytest.raises(UnsupportedOp, match=reason) as caught:
        translate(Calls(function), inputs)
    assert "\n" not in str(caught.value)


def test_control_flow_by_value_is_refused_in_one_line() -> None:
    with pytest.raises(ExportFailed, match="its control flow or a shape depends on the values of tensors") as caught:
        translate(Calls(lambda x: x + 1 if x.sum() > 0 else x), (X,))
    assert "\n" not in str(caught.value)


def test_assertions_on_metadata_carry_no_value() -> None:
    translation = translate(Calls(lambda x: x.to(torch.float32) * 2), (X,))
    assert len(translation.program.body) == 1
    assert isinstance(translation.program.body[0], Loop)
