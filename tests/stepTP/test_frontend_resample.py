"""Resampling and positions by comparison against PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from stepTP.frontend import UnsupportedOp, translate
from tests.stepTP.agreement import Calls, agree, draw

IMAGES = {1: draw(2, 3, 5), 2: draw(1, 2, 4, 5), 3: draw(1, 2, 3, 4, 2)}
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
SCALES: list[dict[str, Any]] = [{"scale_factor": 2}, {"scale_factor": 1.7}, {"scale_factor": 0.6}]


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_nearest(rank: int, mode: str) -> None:
    sizes = [{"size": (n,) * rank} for n in (1, 3, 7)]
    x = IMAGES[rank]
    agree(lambda x: [F.interpolate(x, mode=mode, **options) for options in (*SCALES, *sizes)], x)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_linear(rank: int, corners: bool) -> None:
    sizes = [{"size": (n,) * rank} for n in (1, 3, 7)]
    x = IMAGES[rank]
    agree(
        lambda x: [
            F.interpolate(x, mode=LINEAR[rank], align_corners=corners, **options) for options in (*SCALES, *sizes)
        ],
        x,
    )


def test_linear_of_half_and_of_sizes_from_factors() -> None:
    agree(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGES[2].half(), in_double=False)
    agree(lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), IMAGES[2])
    agree(lambda x: F.interpolate(x, scale_factor=(1, 3), mode="bilinear"), IMAGES[2])


EDGES = torch.tensor([-1.0, 0.0, 1.0])
SEARCHES: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "bucketize": (lambda x, b: (torch.bucketize(x, b), torch.bucketize(x, b, right=True)), (draw(3, 5).round(), EDGES)),
    "bucketize to i32": (lambda x, b: torch.bucketize(x, b, out_int32=True), (draw(3, 5), EDGES)),
    "searchsorted": (torch.searchsorted, (draw(3, 6).sort(1).values, draw(3, 5))),
    "searchsorted from the right": (
        lambda b, x: (torch.searchsorted(b, x, right=True), torch.searchsorted(b, x, side="left")),
        (EDGES, draw(3, 5).round()),
    ),
    "the top one": (lambda x: (*x.topk(1), *x.topk(1, 0, largest=False)), (draw(3, 5),)),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_search(name: str) -> None:
    function, inputs = SEARCHES[name]
    agree(function, *inputs)


def test_the_top_two_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="order of its elements depends on data"):
        translate(Calls(lambda x: x.topk(2).values), (draw(3, 5),))
