"""Convolutions and pools against PyTorch: stride, padding, dilation, groups, ceil mode, divisors, asymmetric shapes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from leir.printer import to_text
from tests.stepTP.agreement import agree, draw, module_agrees

IMAGE = draw(2, 4, 7, 9)

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((3, 4, 3, 3), {}),
    "asymmetric window": ((3, 4, 2, 5), {}),
    "one by one": ((3, 4, 1, 1), {}),
    "whole image": ((3, 4, 7, 9), {}),
    "stride": ((3, 4, 3, 3), {"stride": 2}),
    "asymmetric stride": ((3, 4, 3, 3), {"stride": (3, 2)}),
    "padding": ((3, 4, 3, 3), {"padding": 1}),
    "asymmetric padding": ((3, 4, 3, 5), {"padding": (0, 2)}),
    "dilation": ((3, 4, 3, 3), {"dilation": 2}),
    "asymmetric dilation": ((3, 4, 3, 3), {"dilation": (1, 3)}),
    "all": ((3, 4, 3, 2), {"stride": (2, 1), "padding": (2, 1), "dilation": (1, 2)}),
    "groups": ((6, 2, 3, 3), {"groups": 2}),
    "depthwise": ((4, 1, 3, 3), {"groups": 4, "padding": 1}),
    "depthwise with a multiplier": ((8, 1, 3, 3), {"groups": 4}),
    "same": ((3, 4, 3, 3), {"padding": "same"}),
    "same with an even window": ((3, 4, 2, 4), {"padding": "same", "dilation": (1, 2)}),
    "valid": ((3, 4, 3, 3), {"padding": "valid"}),
    "padding beyond the window": ((3, 4, 1, 2), {"padding": (2, 3)}),
    "stride beyond the window": ((3, 4, 2, 2), {"stride": 3}),
    "one output channel": ((1, 4, 3, 3), {}),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str) -> None:
    shape, options = CONVOLUTIONS[name]
    weight, bias = draw(*shape), draw(shape[0])
    agree(lambda x, w, b: (F.conv2d(x, w, b, **options), F.conv2d(x, w, **options)), IMAGE, weight, bias)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")
def test_other_ranks() -> None:
    agree(lambda x, w: F.conv2d(x, w, padding=1), IMAGE[0], draw(3, 4, 3, 3))
    agree(lambda x, w, b: F.conv1d(x, w, b, 2, 1), draw(2, 3, 8), draw(5, 3, 4), draw(5))
    agree(lambda x, w: F.conv1d(x, w, padding="same"), draw(2, 3, 8), draw(5, 3, 4))
    agree(lambda x, w: F.conv3d(x, w, padding=(0, 1, 0)), draw(1, 2, 3, 4, 5), draw(2, 2, 2, 3, 2))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode: str) -> None:
    module_agrees(torch.nn.Conv2d(4, 2, 3, padding=(1, 2), padding_mode=mode).eval(), IMAGE)


def test_a_guard_keeps_reads_inside() -> None:
    program = agree(lambda x, w: F.conv2d(x, w, padding=(1, 0)), draw(1, 1, 4, 5), draw(1, 1, 3, 2))
    assert to_text(program).splitlines()[1:] == [
        "L^{4,4,3,2}_{i,j,k,l}(0<=i+k-1&&i+k-1<4)[D_{0,0,i,j}+=A_{0,0,i+k-1,j+l}*C_{0,0,k,l};]"
    ]


TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2},
    {"stride": (2, 3), "padding": (1, 0), "output_padding": (1, 2)},
    {"padding": 1, "dilation": 2},
    {"stride": 3, "groups": 2},
    {"stride": 4, "padding": (0, 1), "dilation": (2, 1), "groups": 2},
]


@pytest.mark.parametrize("options", TRANSPOSED, ids=str)
def test_transposed_convolution(options: dict[str, Any]) -> None:
    x, weight, bias = draw(2, 4, 3, 4), draw(4, 3, 3, 2), draw(3 * options.get("groups", 1))
    agree(lambda x, w, b: F.conv_transpose2d(x, w, b, **options), x, weight, bias)
    agree(lambda x, w: F.conv_transpose2d(x, w, **options), x, weight)


def test_transposed_convolution_of_other_ranks() -> None:
    agree(lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1), draw(2, 3, 5), draw(3, 4, 3))
    agree(lambda x, w: F.conv_transpose3d(x, w, stride=(1, 2, 1)), draw(1, 2, 2, 3, 2), draw(2, 2, 2, 3, 1))


MAX_POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2)},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 3, "stride": (2, 1), "padding": 1},
    {"kernel_size": (2, 4), "stride": (1, 3), "padding": (1, 2)},
    {"kernel_size": 2, "dilation": 2, "stride": 1},
    {"kernel_size": (2, 3), "dilation": (3, 1), "padding": (1, 0)},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": (3, 2), "stride": (3, 4), "dilation": (1, 2), "ceil_mode": True},
    {"kernel_size": (7, 9)},
    {"kernel_size": 1},
]


@pytest.mark.parametrize("options", MAX_POOLS, ids=str)
def test_max_pool(options: dict[str, Any]) -> None:
    agree(lambda x: F.max_pool2d(x, **options), IMAGE)


@pytest.mark.parametrize("options", MAX_POOLS[:5], ids=str)
def test_max_pool_with_positions(options: dict[str, Any]) -> None:
    agree(lambda x: F.max_pool2d(x, **options, return_indices=True), IMAGE.round())


def test_a_maximum_below_zero_is_not_hidden_by_padding() -> None:
    agree(lambda x: F.max_pool2d(x, 3, 2, 1), -1 - IMAGE.abs())


AVERAGE_POOLS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (1, 3)},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "padding": 1, "count_include_pad": False},
    {"kernel_size": (2, 3), "stride": 2, "padding": (1, 0), "count_include_pad": False},
    {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": (2, 4), "stride": (2, 3), "padding": (0, 2), "ceil_mode": True},
    {"kernel_size": 4, "stride": 3, "padding": 2, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 3, "padding": 1, "divisor_override": 5},
    {"kernel_size": 3, "padding": 1, "divisor_override": 5, "ceil_mode": True},
    {"kernel_size": (7, 9)},
    {"kernel_size": 1, "stride": 2},
]


@pytest.mark.parametrize("options", AVERAGE_POOLS, ids=str)
def test_average_pool(options: dict[str, Any]) -> None:
    agree(lambda x: F.avg_pool2d(x, **options), IMAGE)


POOLS: dict[str, tuple[Callable[[torch.Tensor], Any], torch.Tensor]] = {
    "one axis": (lambda x: (F.max_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 3, 2, 1)), draw(2, 3, 8)),
    "three axes": (lambda x: (F.max_pool3d(x, 2), F.avg_pool3d(x, 2, 1, 1)), draw(1, 2, 4, 4, 5)),
    "maxima and where": (
        lambda x: (
            *F.max_pool1d(x[0].flatten(1), 3, 2, 1, return_indices=True),
            *F.max_pool3d(x, 2, return_indices=True),
        ),
        IMAGE.round(),
    ),
    "no batch": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2)), IMAGE[0]),
    "adaptive to one": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive, even": (lambda x: F.adaptive_avg_pool2d(x, (7, 3)), IMAGE),
    "adaptive, uneven": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    "adaptive, upwards": (lambda x: F.adaptive_avg_pool2d(x, (10, 12)), IMAGE[:, :1]),
    "adaptive of one axis": (lambda x: (F.adaptive_avg_pool1d(x, 3), F.adaptive_max_pool1d(x, 5)), draw(2, 3, 8)),
    "adaptive of three axes": (
        lambda x: (F.adaptive_avg_pool3d(x, (2, 3, 1)), F.adaptive_max_pool3d(x, (3, 1, 4))),
        draw(1, 2, 4, 4, 5),
    ),
    "adaptive maxima and where": (
        lambda x: (
            *F.adaptive_max_pool2d(x.round(), (3, 4), return_indices=True),
            *F.adaptive_max_pool2d(x[0], 1, True),
        ),
        IMAGE,
    ),
    "f16": (lambda x: (F.avg_pool2d(x, 2), F.max_pool2d(x, 2)), IMAGE.half()),
}


@pytest.mark.parametrize("name", POOLS)
def test_other_pools(name: str) -> None:
    function, x = POOLS[name]
    agree(function, x, in_double=x.dtype == torch.float32)


COLUMNS: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": 2},
    {"kernel_size": 1, "stride": (2, 3)},
    {"kernel_size": (3, 2), "padding": (2, 0), "stride": (1, 3)},
]


@pytest.mark.parametrize("options", COLUMNS, ids=str)
def test_windows_as_columns_and_back(options: dict[str, Any]) -> None:
    agree(lambda x: F.unfold(x, **options), IMAGE)
    agree(lambda x: F.unfold(x, **options), IMAGE[0])
    columns = F.unfold(IMAGE, **options)
    agree(lambda x: F.fold(x, IMAGE.shape[-2:], **options), draw(*columns.shape))
