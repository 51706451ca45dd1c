"""Scans against PyTorch: each is a serial loop, linear in its length, whichever way it is written."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan

from leir.printer import to_text
from leir.syntax import Loop, Program
from stepTP.frontend import UnsupportedOp, translate, verify_translation
from tests.stepTP.agreement import Calls, agree, draw

X = draw(3, 7, 4)
BUILT_IN: dict[str, Callable[[torch.Tensor], Any]] = {
    "cumsum": lambda x: (x.cumsum(1), x.cumsum(-1), x[:, :1].cumsum(1) * 2),
    "cumprod": lambda x: (x.cumprod(0), x.cumprod(1)),
    "cummax": lambda x: (x.cummax(1), x.cummax(0).values),
    "cummin": lambda x: (x.cummin(-1), x.cummin(1).indices),
    "ties": lambda x: (x.round().cummax(1), x.round().cummin(1)),
    "logcumsumexp": lambda x: (x.logcumsumexp(1), (x * 300).logcumsumexp(-1)),
    "of one element": lambda x: (x[:, :1].cummax(1), x[:, :1].logcumsumexp(1) + 1),
    "of rank 0": lambda x: (x.sum().cummax(0), x.sum().logcumsumexp(0), x.sum().cumsum(0)),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in(name: str) -> None:
    agree(BUILT_IN[name], X)


def test_integers_and_half_precision() -> None:
    agree(lambda x: (x.cumsum(1), x.cummax(1), x.cumprod(0)), draw(3, 7, dtype=torch.int64))
    agree(lambda x: (x.cumsum(0), x.logcumsumexp(0)), draw(9).half(), in_double=False)


def add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a + b


def affine(a: tuple[torch.Tensor, ...], b: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """First-order recurrences h' = a h + b compose associatively."""
    return a[0] * b[0], a[1] * b[0] + b[1]


def averaged(carry: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    carry = 0.9 * carry + 0.1 * x
    return carry, torch.tanh(carry)


def two_states(carry: dict[str, torch.Tensor], x: tuple[torch.Tensor, ...]) -> tuple[Any, Any]:
    position = carry["position"] + 0.1 * carry["speed"]
    speed = carry["speed"] * 0.9 + x[0] - x[1] * position
    return {"position": position, "speed": speed}, (position * speed, speed.clone())


WRITTEN: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "associative sum": (lambda x: associative_scan(add, x, dim=1, combine_mode="generic"), (X,)),
    "associative, from the end": (
        lambda x: associative_scan(torch.maximum, x, dim=1, reverse=True, combine_mode="generic"), (X,)),
    "associative recurrence": (
        lambda a, b: associative_scan(affine, (a, b), dim=1, combine_mode="generic")[1], (X.sigmoid(), X)),
    "scan": (lambda h, x: scan(averaged, h, x, dim=1), (X[:, 0], X)),
    "scan from the end": (lambda h, x: scan(averaged, h, x, dim=1, reverse=True)[1], (X[:, 0], X)),
    "scan of several states": (
        lambda h, x: scan(two_states, {"position": h, "speed": h * 0.5}, (x, x.cos())), (draw(4), draw(8, 4))),
}  # fmt: skip


def loops_of_several(program: Program) -> int:
    return sum(isinstance(s, Loop) and isinstance(s.body[0], Loop) for s in program.body)


@pytest.mark.parametrize("name", WRITTEN)
def test_written(name: str) -> None:
    function, inputs = WRITTEN[name]
    program = agree(function, *inputs)
    assert loops_of_several(program) >= 1
    assert len(program.body) <= 12, to_text(program)
    module = Calls(function)
    found = verify_translation(translate(module, inputs), module, inputs)
    assert found.status == "verified", found.message


def test_the_text_does_not_grow() -> None:
    module = Calls(lambda x: associative_scan(add, x, dim=0, combine_mode="generic"))
    short, long = (to_text(translate(module, (draw(steps, 3),)).program) for steps in (10, 40))
    assert len(long) - len(short) < 6  # more digits


def test_pytorch_keeps_its_own_scans() -> None:
    translate(Calls(lambda x: associative_scan(add, x, dim=0, combine_mode="generic")), (draw(6, 3),))
    seen: list[int] = []

    def combine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return a + b

    associative_scan(combine, draw(64, 2), dim=0, combine_mode="generic")
    assert len(seen) < 20


def test_loops_by_value_are_refused() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.while_loop(lambda a: a.sum() < 10, lambda a: (a * 2 + 1,), (x,))[0]

    with pytest.raises(UnsupportedOp, match="while_loop: control flow that depends on the values of tensors"):
        translate(Calls(function), (draw(4).abs(),))
