"""Input draws: keyed, tame, and true to what the source's own inputs are like."""

import numpy as np
import pytest

from leir.syntax import Declaration, DType
from stepTP.verify.inputs import ATTEMPTS, KINDS, MASKED, Draw, Profile, draw_inputs, free_profile, profile, round_to

KEY = {"seed": 3, "source": "softmax-1"}


def declared(name: str = "A", dtype: DType = "f32", shape: tuple[int, ...] = (40, 30)) -> Declaration:
    return Declaration(name, dtype, shape)


def drawn(of: Profile, draw: Draw) -> np.ndarray:
    return draw_inputs([of], draw, 3, "softmax-1")[of.name]


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_is_a_function_of_its_key(kind: str) -> None:
    a, b = free_profile(declared("A")), free_profile(declared("D"))
    draw = Draw(kind, 0)  # pyright: ignore[reportArgumentType]
    both = draw_inputs([a, b], draw, **KEY)
    assert np.array_equal(both["A"], draw_inputs([a], draw, **KEY)["A"])
    others = [
        draw_inputs([a], Draw(draw.kind, 1), **KEY)["A"],
        draw_inputs([a], Draw(draw.kind, 0, 1), **KEY)["A"],
        draw_inputs([a], draw, seed=4, source="softmax-1")["A"],
        draw_inputs([a], draw, seed=3, source="softmax-2")["A"],
        both["D"],
    ]
    assert not any(np.array_equal(both["A"], other) for other in others)


def test_the_values_of_a_key_are_fixed() -> None:
    """The streams must not change with NumPy's version: published verdicts rest on them."""
    values = drawn(free_profile(declared(shape=(3,))), Draw("normal", 0))
    assert [round(float(v), 6) for v in values] == [1.15351, 0.102256, 0.134301]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("attempt", range(ATTEMPTS))
def test_no_input_is_nan_or_infinite(dtype: DType, kind: str, attempt: int) -> None:
    values = drawn(free_profile(declared(dtype=dtype)), Draw(kind, 0, attempt))  # pyright: ignore[reportArgumentType]
    assert np.isfinite(values).all()
    assert values.dtype == {"f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64}[dtype]
    assert np.array_equal(values, round_to(dtype, values))


@pytest.mark.parametrize("dtype", ["bf16", "f32", "i32", "bool"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_input_may_be_one_number(dtype: DType, kind: str) -> None:
    of = free_profile(declared(dtype=dtype, shape=()))
    for attempt in range(ATTEMPTS):
        value = drawn(of, Draw(kind, 0, attempt))  # pyright: ignore[reportArgumentType]
        assert value.shape == () and np.isfinite(value)


def test_kinds_are_what_they_say() -> None:
    of = free_profile(declared(shape=(100, 100)))
    normal, wide, integers, edge, extremes, peaks = (drawn(of, Draw(kind, 0)) for kind in KINDS)
    assert abs(normal.mean()) < 0.05
    assert 0.95 < normal.std() < 1.05
    assert np.abs(wide).max() > 100
    assert np.median(np.abs(wide)) < 2
    assert 2**-13 < np.median(np.abs(wide), axis=1).min() < 2**-9
    assert sorted(set(integers.flat)) == [-3, -2, -1, 0, 1, 2, 3]
    assert 0.1 < np.mean(edge == 0) < 0.3
    assert 0.005 < np.mean(edge <= -1000) < 0.05
    assert np.mean(edge == 1) > 0.05
    assert sorted(set(peaks[np.abs(peaks) % 256 == 0])) == [-256.0, 256.0]
    assert np.min(drawn(of, Draw("peaks", 1))) == -256.0
    low = peaks.max(axis=1) < -200
    assert np.count_nonzero(low) == 33
    peaks = np.where(low[:, None], peaks + 512, peaks)
    for axis in (0, 1):
        assert set(np.count_nonzero(peaks == 256.0, axis=axis)) == {25}
    for number, axis in ((0, 1), (1, 0)):
        extremes = drawn(of, Draw("extremes", number))
        assert (extremes.max(axis=axis) < 0).any()
        assert (extremes.min(axis=axis) > 0).any()
    for axis in (0, 1):
        for find in (np.argmax, np.argmin):
            assert {0, 99} <= set(find(extremes, axis=axis))


def test_late_attempts_are_positive_for_logarithms_and_quotients() -> None:
    for kind in KINDS:
        assert drawn(free_profile(declared()), Draw(kind, 0, 3)).min() > 0


def test_inputs_that_are_never_negative_stay_so_from_the_second_attempt_on() -> None:
    of = profile(declared(), [np.abs(np.linspace(-3, 3, 1200, dtype=np.float32).reshape(40, 30))])
    for kind in KINDS:
        assert drawn(of, Draw(kind, 0, 1)).min() >= 0
    assert drawn(of, Draw("normal", 0)).min() < 0


def test_inputs_like_probabilities_stay_below_one() -> None:
    of = profile(declared(), [np.linspace(0, 1, 1200, dtype=np.float32).reshape(40, 30)])
    values = drawn(of, Draw("wide", 0, 1))
    assert 0 <= values.min() <= values.max() <= 1


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64"])
def test_integers_stay_in_the_range_of_their_samples_and_of_gathers(dtype: DType) -> None:
    samples = [np.array([[0, 9]]), np.array([[2, 5]])]
    of = profile(declared(dtype=dtype), samples)
    for kind in KINDS:
        assert sorted(set(drawn(of, Draw(kind, 0)).flat)) == list(range(10))
    gathered = profile(declared(dtype=dtype), samples, allowed=(4, 6))
    assert sorted(set(drawn(gathered, Draw("wide", 0)).flat)) == [4, 5, 6]
    elsewhere = profile(declared(dtype=dtype), samples, allowed=(20, 21))
    assert sorted(set(drawn(elsewhere, Draw("wide", 0)).flat)) == [20, 21]


def test_masks_hide_something_and_never_a_whole_row() -> None:
    additive = profile(declared(), [np.where(np.eye(40, 30) > 0, -1e9, 0.0).astype(np.float32)])
    boolean = free_profile(declared(dtype="bool"))
    for kind in KINDS:
        values = drawn(additive, Draw(kind, 0))
        assert sorted(set(values.flat)) == [MASKED, 0.0]
        assert (values == 0).any(axis=1).all()
        keep = drawn(boolean, Draw(kind, 0))
        assert keep.any(axis=1).all()
        assert not keep.all()


def test_parameters_keep_their_values_in_even_normal_draws_and_their_scale_in_others() -> None:
    weight = (np.sin(np.arange(1200)).reshape(40, 30) * 0.01).astype(np.float32)
    of = profile(declared(), [weight], is_parameter=True)
    assert np.array_equal(drawn(of, Draw("normal", 0)), weight)
    assert np.array_equal(drawn(of, Draw("normal", 2)), weight)
    other = drawn(of, Draw("normal", 1))
    assert not np.array_equal(other, weight)
    assert 0.5 * weight.std() < other.std() < 2 * weight.std()
    assert sorted(set(drawn(of, Draw("integers", 0)).flat)) == [-3, -2, -1, 0, 1, 2, 3]


def test_scales_of_layers_stay_positive_and_biases_of_zero_take_any_sign() -> None:
    ones = profile(declared(), [np.ones((40, 30), np.float32)], is_parameter=True)
    zeros = profile(declared(), [np.zeros((40, 30), np.float32)], is_parameter=True)
    for draw in (Draw("normal", 1), Draw("wide", 0), Draw("edge", 0)):
        assert drawn(ones, draw).min() > 0
        assert drawn(zeros, draw).min() < 0


def test_fixed_inputs_are_never_drawn() -> None:
    table = np.arange(1200, dtype=np.int64).reshape(40, 30)
    of = profile(declared(dtype="i64"), [table], fixed=True)
    for kind in KINDS:
        assert np.array_equal(drawn(of, Draw(kind, 1, 2)), table)


def test_an_input_of_rank_zero() -> None:
    assert drawn(free_profile(declared(shape=())), Draw("edge", 0)).shape == ()
    assert drawn(free_profile(declared(shape=(), dtype="bool")), Draw("edge", 0)) == np.True_


def test_bf16_rounds_to_nearest_even() -> None:
    values = np.array([1.0, 1.00390625, 1.01171875, 1.005, -3.14159], np.float32)
    assert round_to("bf16", values).tolist() == [1.0, 1.0, 1.015625, 1.0078125, -3.140625]


@pytest.mark.parametrize("shape", [(1, 4096), (3000,), (2, 5, 3), (3,), (1, 1)])
def test_every_position_is_a_peak_in_some_line_of_some_draw(shape: tuple[int, ...]) -> None:
    of = free_profile(declared(shape=shape))
    draws = [np.abs(drawn(of, Draw("peaks", number))) == 256.0 for number in range(0, 16, 2)]
    assert np.logical_or.reduce(draws).any(axis=tuple(range(len(shape) - 1))).all()
    assert all(np.count_nonzero(draw, axis=-1).max(initial=0) <= 512 for draw in draws) or shape == (3000,)
