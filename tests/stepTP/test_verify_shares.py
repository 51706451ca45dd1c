"""Shares of a sum, as in a softmax: bounds that no perturbation of the scores exceeds, and that stay below 1."""

import numpy as np
import pytest

from leir.interp import interpret
from leir.parser import parse
from stepTP.verify.analysis import analyse
from stepTP.verify.elements import Bounded
from stepTP.verify.inputs import generator
from stepTP.verify.shares import rest_of, share_error

SOFTMAX = (
    "in A_{8,6},W_{6,16};out C_{8,16};L^{8,16,6}_{i,j,k}[S_{i,j}+=A_{i,k}*W_{k,j};]L^{8,16}_{i,j}[D_i max=S_{i,j};]"
    "L^{8,16}_{i,j}[E_i+=exp(S_{i,j}-D_i);]L^{8,16}_{i,j}[C_{i,j}=exp(S_{i,j}-D_i)/E_i;]"
)


def softmax(scores: np.ndarray) -> np.ndarray:
    terms = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return terms / terms.sum(axis=-1, keepdims=True)


def bounds(text: str, **inputs: np.ndarray) -> Bounded:
    return analyse(parse(text), {name: array.astype(np.float64) for name, array in inputs.items()})["C"]


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("size", [1e-6, 1e-2, 0.5, 3.0, 40.0])
def test_no_perturbation_of_the_scores_leaves_the_bound(spread: float, size: float) -> None:
    random = generator("shares", str(spread), str(size))
    scores = random.standard_normal((50, 12)) * spread
    errors = random.rand(50, 12) * size
    p = softmax(scores)
    mean = np.log((p * np.exp(errors)).sum(axis=1, keepdims=True))
    largest = errors.max(axis=1, keepdims=True)
    bound = share_error(p, errors, mean, largest, rest_of(p, (1,)))
    assert np.all(bound <= np.maximum(p, 1 - p) * (1 + 1e-12))
    used = np.zeros_like(p)
    for chosen in range(12):  # the worst for one share: it rises and all others fall, or the other way round
        for sign in (1.0, -1.0):
            moved = np.where(np.arange(12) == chosen, sign, -sign) * errors
            apart = np.abs(softmax(scores + moved) - p)
            assert np.all(apart <= bound * (1 + 1e-9) + 1e-15)
            used = np.maximum(used, apart / bound)
    for _ in range(50):
        assert np.all(np.abs(softmax(scores + errors * random.choice([-1, 1], errors.shape)) - p) <= bound + 1e-15)
    assert np.median(used) > 0.3


def test_large_scores_keep_their_shares_between_zero_and_one() -> None:
    random = generator("large scores")
    a, w = random.standard_normal((8, 6)) * 3e3, random.standard_normal((6, 16)) * 3e3
    for scale in (1e-3, 0.03, 1.0):
        result = bounds(SOFTMAX, A=(a * scale).astype(np.float32), W=w.astype(np.float32))
        assert np.all(result.error <= 1.0001)
    mild = bounds(SOFTMAX, A=(a * 1e-4).astype(np.float32), W=(w * 1e-3).astype(np.float32))
    large = mild.value > 1e-3
    assert np.all(mild.error[large] < 3e-5 * mild.value[large])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/E_i;", "/E_{7-i};"),  # another row's sum
        ("[C_{i,j}=exp(S_{i,j}-D_i)", "[C_{i,j}=exp(S_{i,j}-D_i+0.5)"),  # no term of it
        ("L^{8,16}_{i,j}[E_i", "L^{8,12}_{i,j}[E_i"),  # terms beyond the sum's end
        ("L^{8,16}_{i,j}[C_", "L^{8,6,16}_{i,k,j}[S_{i,j}+=A_{i,k}*W_{k,j};]L^{8,16}_{i,j}[C_"),  # of other scores
    ],
)
def test_only_terms_of_the_very_sum_are_shares(old: str, new: str) -> None:
    random = generator("others")
    inputs = {"A": random.standard_normal((8, 6)) * 300, "W": random.standard_normal((6, 16)) * 300}
    assert old in SOFTMAX
    assert np.all(bounds(SOFTMAX, **inputs).error <= 1.0001)
    assert not np.all(bounds(SOFTMAX.replace(old, new), **inputs).error <= 1.0001)


def test_names_of_loops_do_not_matter_and_terms_may_be_stored() -> None:
    random = generator("names")
    inputs = {"A": random.standard_normal((8, 6)) * 300, "W": random.standard_normal((6, 16)) * 300}
    plain = bounds(SOFTMAX, **inputs).error
    renamed = SOFTMAX.replace(
        "L^{8,16}_{i,j}[C_{i,j}=exp(S_{i,j}-D_i)/E_i;]", "L^{16,8}_{j,k}[C_{k,j}=exp(S_{k,j}-D_k)/E_k;]"
    )
    assert np.array_equal(bounds(renamed, **inputs).error, plain)
    stored = SOFTMAX.replace("[E_i+=exp(S_{i,j}-D_i);]", "[F_{i,j}=exp(S_{i,j}-D_i);]L^{8,16}_{i,j}[E_i+=F_{i,j};]")
    stored = stored.replace("=exp(S_{i,j}-D_i)/E_i", "=F_{i,j}/E_i")
    assert np.array_equal(bounds(stored, **inputs).error, plain)


def test_masked_terms_cost_a_sum_nothing() -> None:
    text = (
        "in A_{4,512};out C_4;L^{4,512}_{i,j}[D_i max=A_{i,j};]L^{4,512}_{i,j}[E_i+=exp(A_{i,j}-D_i);]L^4_i[C_i=E_i;]"
    )
    full = generator("masked").standard_normal((4, 512)).astype(np.float32)
    few = np.where(np.arange(512) % 64 == 0, full, np.float32(-1e4))
    assert np.all(bounds(text, A=few).error < 1e-2 * bounds(text, A=full).error)


def test_terms_below_the_last_place_cost_their_size_in_every_order() -> None:
    """One large term and thousands of small ones, added one by one in f32: what is lost is no more than they are."""
    text = "in A_{4001};out C;L^{4001}_i[C+=A_i;]"
    a = np.full(4001, 2e-8, np.float32)
    a[0] = 1.0
    result = bounds(text, A=a)
    for order in (a, a[::-1]):
        total = np.float32(0)
        for term in order:
            total += term
        assert abs(float(total) - result.value) <= result.error
    assert abs(float(np.float32(1.0)) - result.value) > 0.1 * result.error


def test_a_sum_that_is_kept_in_f16_rounds_as_f16_does() -> None:
    program = parse(
        "in A^{f16}_{1,6};out C^{f16}_{1,6};L^1_i[D^{f16,l};E^{f16,l};L^6_j[D max=A_{i,j};]"
        "L^6_j[E+=exp(A_{i,j}-D);]L^6_j[C_{i,j}=exp(A_{i,j}-D)/E;]]"
    )
    a = np.array([[9.5e-07, -6.0e-08, 4.0, 1.9e-06, -0.25, -4.0]], np.float16)
    allowed = analyse(program, {"A": a.astype(np.float64)})["C"]
    assert np.all(np.abs(interpret(program, {"A": a})["C"].reshape(-1) - allowed.value) <= allowed.error)
