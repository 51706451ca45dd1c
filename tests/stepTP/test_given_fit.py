"""Making a program small: the cost falls below the limit, and relations between sizes are kept."""

from collections.abc import Mapping
from typing import Any

import pytest

from stepTP.frontend import SourceError, load_text
from stepTP.frontend.size import estimate
from stepTP.given.constants import constants, with_constants
from stepTP.given.fit import CannotFit, Search, fit


def fitted(code: str, limit: int, cost: str, runs: str = "True") -> dict[str, Any]:
    """The constants of `code` after the fit; `cost` and `runs` are expressions of them."""

    def estimated(values: Mapping[str, Any]) -> int | None:
        scope: dict[str, Any] = {}
        exec(with_constants(code, values), scope)
        return eval(cost, scope) if eval(runs, scope) else None

    search = fit(code, limit, estimated)
    assert search.cost <= limit
    return constants(with_constants(code, search.values))


def test_equal_sizes_of_a_kind_stay_equal_and_multiples_stay_multiples() -> None:
    code = "batch_size = 64\nheight = 64\nwidth = 64\nin_channels = 64\nout_channels = 128\nkernel_size = 3\n"
    found = fitted(code, 10_000, "batch_size * height * width * in_channels * out_channels * kernel_size**2")
    assert found["height"] == found["width"]
    assert found["out_channels"] == 2 * found["in_channels"]
    assert found["kernel_size"] == 3 and min(found.values()) >= 2


def test_what_divides_a_size_goes_on_dividing_it() -> None:
    code = "hidden_size = 768\nheads = 12\nnum_groups = 8\nimage_size = 224\npatch_size = 16\nwindow_size = 7\n"
    found = fitted(code, 2000, "hidden_size * (image_size // patch_size) ** 2")
    assert found["hidden_size"] % found["heads"] == 0 and found["hidden_size"] % found["num_groups"] == 0
    assert found["hidden_size"] >= 2 * found["heads"]
    assert (found["patch_size"], found["window_size"]) == (16, 7)
    assert found["image_size"] % 16 == 0 and found["image_size"] % 7 == 0


def test_kernels_and_groups_change_only_where_they_must() -> None:
    code = "channels = 64\ngroups = 16\nkernel_size = (9, 3)\n"
    cost = "channels * groups * kernel_size[0] * kernel_size[1]"
    assert fitted(code, 32 * 16 * 27, cost) == {"channels": 32, "groups": 16, "kernel_size": (9, 3)}
    assert fitted(code, 2000, cost) != constants(code) | {"channels": 32}


def test_sizes_that_only_run_together_shrink_together() -> None:
    code = "normalized_shape = (64,)\nwidth = 32\nbatch_size = 2\n"
    found = fitted(code, 300, "batch_size * width**2", "normalized_shape[0] == 2 * width")
    assert found["normalized_shape"][0] == 2 * found["width"]


def test_a_window_and_the_image_that_it_tiles_go_to_powers_of_two() -> None:
    code = "image_size = 112\npatch_size = 2\nwindow_size = 7\n"
    side = "(image_size // patch_size)"
    found = fitted(code, 300, f"{side} ** 2", f"{side} % 8 == 0 and {side} % window_size == 0 and window_size > 2")
    assert found == {"image_size": 32, "patch_size": 2, "window_size": 4}


def test_a_size_whose_half_does_not_run_goes_to_a_power_of_two() -> None:
    assert fitted("image_size = 224\n", 2000, "image_size**2", "image_size >= 32 and image_size % 4 == 0") == {
        "image_size": 32
    }


def test_odd_sizes_stay_odd_and_none_falls_below_two() -> None:
    found = fitted("rows = 8205\ncolumns = 5921\ndim = 1\n", 100, "rows * columns")
    assert found["rows"] % 2 == found["columns"] % 2 == 1 and found["dim"] == 1
    with pytest.raises(CannotFit, match=r"still about 8 iterations \(rows=2, columns=4\): allow more"):
        fitted("rows = 8\ncolumns = 16\n", 3, "rows * columns")


def test_numbers_without_an_effect_are_left() -> None:
    assert fitted("rows = 512\nseed = 64\nclasses = 512\n", 64, "rows") == {"rows": 64, "seed": 64, "classes": 512}


def test_a_program_that_cannot_be_measured_is_made_small_all_over() -> None:
    search = Search({("length", None): 512, ("hidden", None): 64}, {"length": 512, "hidden": 64}, lambda v: (
        v["length"] * v.get("hidden", 64) if v.get("length", 512) <= 128 else None
    ))  # fmt: skip
    assert search.values == {"length": 128, "hidden": 16}


LSTM = """import torch
import torch.nn as nn

length = 500000


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(8, 4, batch_first=True)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.lstm(x)[0][:, -1])


def get_inputs():
    return [torch.rand(2, length, 8)]


def get_init_inputs():
    return []
"""


def test_the_estimate_needs_neither_data_nor_time() -> None:
    """A product a gate and step; the elements of a sequence that would fill a gigabyte are never made."""
    products = 500_000 * 2 * 4 * 4 * (8 + 4)
    assert products < estimate(lambda: load_text(LSTM)) < 3 * products
    with pytest.raises(SourceError, match="forward raises RuntimeError"):
        estimate(lambda: load_text(LSTM.replace("nn.Linear(4, 3)", "nn.Linear(5, 3)")))
