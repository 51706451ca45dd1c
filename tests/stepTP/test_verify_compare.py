"""Comparison rules, and what is recorded."""

import json
import math

import numpy as np
import pytest

from stepTP.verify.compare import Difference, Expected, compare, first_unlike, same_bits, significant, worse

F32 = np.float32


def expected(*values: float, tolerance: float = 1e-6) -> Expected:
    return Expected(np.array(values), np.full(len(values), tolerance), "f32")


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ([1.0, math.nan], [1.0, 2.0]),
        ([1.0, math.inf], [1.0, 2.0]),
        ([1.0, 2.0], [1.0, math.nan]),
        ([1.0, 2.0], [1.0, math.inf]),
        ([1.0, -math.inf], [1.0, math.inf]),
        ([1.0, math.nan], [1.0, math.inf]),
        ([1.0, 2.00001], [1.0, 2.0]),
    ],
)
def test_what_is_refused(found: list[float], right: list[float]) -> None:
    result = compare("C", np.array(found, F32), expected(*right))
    assert result.problem is not None
    assert result.problem.startswith("C_{1} is ")
    assert result.problem.endswith("1 of 2 elements are wrong")


@pytest.mark.parametrize(
    ("found", "right"),
    [
        ([0.0, -0.0], [-0.0, 0.0]),
        ([math.nan, math.inf], [math.nan, math.inf]),
        ([1.0000005, -math.inf], [1.0, -math.inf]),
    ],
)
def test_what_is_accepted(found: list[float], right: list[float]) -> None:
    assert compare("C", np.array(found, F32), expected(*right)).problem is None


def test_an_unbounded_element_is_no_free_pass_for_nan() -> None:
    assert compare("C", np.array([math.nan], F32), expected(1.0, tolerance=math.inf)).problem


def test_a_tolerance_of_zero_wants_the_value() -> None:
    assert compare("C", np.array([1.0], F32), expected(1.0, tolerance=0.0)).problem is None
    assert compare("C", np.array([1.0000001], F32), expected(1.0, tolerance=0.0)).problem


def test_integers_must_be_equal() -> None:
    right = Expected(np.array([3, 4]), np.zeros(2), "i32")
    assert compare("C", np.array([3, 4], np.int32), right).problem is None
    assert compare("C", np.array([3, 5], np.int32), right).problem == (
        "C_{1} is 5, expected 4 within 0; 1 of 2 elements are wrong"
    )


def test_another_shape_is_refused() -> None:
    assert compare("C", np.zeros(3, F32), expected(0.0, 0.0)).problem == "C has the shape [3], not [2]"


def test_errors_are_measured_in_units_of_the_output_type() -> None:
    found = compare("C", np.array([1.0 + 2**-23, 4.0 - 2**-22], F32), expected(1.0, 4.0))
    assert found.problem is None
    assert found.max_ulp == 1.0
    assert found.max_abs == 2**-22
    assert found.max_rel == 2**-23
    assert found.tolerance == 1e-6


def test_the_tolerance_is_that_of_the_largest_error_and_the_bound_used_that_of_the_element_nearest_to_its_own() -> None:
    right = Expected(np.array([1.0, 1.0]), np.array([1e-3, 1e-6]), "f32")
    found = compare("C", np.array([1.0001, 1.0000005], F32), right)
    assert found.problem is None
    assert found.max_abs == pytest.approx(1e-4, rel=1e-3)
    assert found.tolerance == 1e-3
    assert found.bound_used == pytest.approx(0.5, rel=0.1)


def test_of_equal_errors_the_smallest_tolerance_is_shown() -> None:
    right = Expected(np.array([1.0, 2.0]), np.array([1e-3, 1e-6]), "f32")
    assert compare("C", np.array([1.0, 2.0], F32), right) == Difference(None, 0.0, 1e-6)


def test_tiny_elements_have_no_relative_error() -> None:
    right = expected(1.0, 1e-4, 0.0, tolerance=1e-3)
    found = compare("C", np.array([1.0, 5e-4, 1e-5], F32), right)
    assert (found.max_rel, found.max_ulp) == (0.0, 0.0)
    assert found.bound_used == pytest.approx(0.4, rel=1e-3)
    alone = compare("C", np.array([5e-4], F32), expected(1e-4, tolerance=1e-3))
    assert alone.max_rel == pytest.approx(4.0, rel=1e-3)


def test_two_differences_in_one() -> None:
    a, b = Difference(None, 5e-4, 1e-3, 0.5, 1e-2, 7.0), Difference("C is off", 2e-6, 1e-6, 2.0, 1.0, 3.0)
    assert worse(a, b) == worse(b, a) == Difference("C is off", 5e-4, 1e-3, 2.0, 1.0, 7.0)
    c = Difference(None, 5e-4, 6e-4, 0.9, 0.0, 0.0)
    assert worse(a, c) == worse(c, a) == Difference(None, 5e-4, 6e-4, 0.9, 1e-2, 7.0)


def test_bits() -> None:
    a = np.array([0.0, math.nan, 1.0], F32)
    assert same_bits(a, np.array([-0.0, math.nan, 1.0], F32))
    assert not same_bits(a, np.array([0.0, math.nan, np.nextafter(F32(1), F32(2))], F32))
    assert not same_bits(a, a.astype(np.float64))


def test_what_differs_in_bits_is_named_at_its_worst() -> None:
    a = np.array([[0.0, math.nan], [1.0, 5.0]], F32)
    assert first_unlike("C", a, np.array([[-0.0, math.nan], [1.0, 5.0]], F32)) is None
    off = np.array([[0.0, math.nan], [1.25, 7.0]], F32)
    assert first_unlike("C", a, off) == "C_{1,1} is 5 and 7; 2 of 4 elements differ"
    assert first_unlike("C", a, np.array([[0.0, 1.0], [1.0, 1e30]], F32)) == (
        "C_{0,1} is nan and 1; 2 of 4 elements differ"
    )
    assert first_unlike("C", np.array(True), np.array(False)) == "C is 1 and 0; 1 of 1 elements differ"


def test_recorded_figures_are_short_and_json() -> None:
    assert significant(1.23456e-7) == 1.23e-07
    assert significant(0.0) == 0.0
    assert json.dumps(significant(math.inf)) == "1e+308"
