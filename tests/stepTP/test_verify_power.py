"""The check must be able to fail: power is measured for every source, and a source without it is refused."""

from dataclasses import replace

import numpy as np
import pytest

from leir.parser import parse
from stepTP.verify.analysis import analyse
from stepTP.verify.inputs import KINDS, free_profile
from stepTP.verify.power import Power, dropped, measure
from stepTP.verify.prepare import Trial, Unverified, in_double, prepare
from stepTP.verify.task import SourceKey, prepared_trials

MATMUL = "in A_{8,24},D_{24,8};out C_{8,8};L^{8,8,24}_{i,j,k}[C_{i,j}+=A_{i,k}*D_{k,j};]"
SOFTMAX = (
    "in A_{8,16};out C_{8,16};L^{8,16}_{i,j}[D_i max=A_{i,j};]L^{8,16}_{i,j}[E_i+=exp(A_{i,j}-D_i);]"
    "L^{8,16}_{i,j}[C_{i,j}=exp(A_{i,j}-D_i)/E_i;]"
)


def trials_of(text: str, reference: str | None = None, draws: int = 1) -> tuple[Trial, ...]:
    program, truth = parse(text), parse(reference or text)
    profiles = [free_profile(declaration) for declaration in program.inputs]
    made = prepare(
        program, lambda x: {n: b.value for n, b in analyse(in_double(truth), x).items()}, profiles, "test", draws
    )
    return made.trials


def power(text: str) -> Power:
    return measure(parse(text), trials_of(text))


def with_tolerance(trials: tuple[Trial, ...], factor: float) -> tuple[Trial, ...]:
    """The trials with every tolerance a part of the largest element: an absolute tolerance, as evaluators use it."""

    def loose(trial: Trial) -> Trial:
        expected = {
            name: replace(e, tolerance=np.full_like(e.value, factor * np.abs(e.value).max()))
            for name, e in trial.expected.items()
        }
        return replace(trial, expected=expected)

    return tuple(loose(trial) for trial in trials)


@pytest.mark.parametrize("text", [MATMUL, SOFTMAX])
def test_ordinary_sources_have_power(text: str) -> None:
    found = power(text)
    assert found.missed == ()
    assert found.tried >= 8


def test_a_loose_tolerance_has_none() -> None:
    trials = with_tolerance(trials_of(SOFTMAX), 1.0)
    missed = measure(parse(SOFTMAX), trials).missed
    assert {"zero (C)", "constant (C)", "inexact (C)"} <= set(missed)
    assert any(name.startswith("last iteration of j at (1, 0) dropped") or "axes" in name for name in missed)


def test_a_tolerance_of_one_part_in_a_hundred_passes_inexact_outputs_only() -> None:
    missed = measure(parse(MATMUL), with_tolerance(trials_of(MATMUL), 1e-2)).missed
    assert missed == ("inexact (C)",)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("in A_8;out C_8;L^8_i[C_i=2.0;]", ["constant", "stale"]),
        ("in A_8;out C_8;L^8_i[C_i=A_i*0.0;]", ["zero", "constant", "stale"]),
        ("in A_8;out C_8;L^8_i[C_i=i*1.0;]", ["stale"]),
    ],
)
def test_degenerate_sources_have_none(text: str, missing: list[str]) -> None:
    names = [name.split(" ")[0] for name in power(text).missed]
    assert [name for name in ("zero", "constant", "stale") if name in names] == missing
    with pytest.raises(Unverified, match="no power over these wrong outputs"):
        prepared_trials(SourceKey("degenerate", "", text, 1, 0))


def test_the_shift_of_a_softmax_is_no_missed_mutant() -> None:
    """A maximum that misses an element is only another shift, and may be no wrong output at all."""
    (program,) = [mutant for name, mutant in dropped(parse(SOFTMAX)) if "(0, 0)" in name]
    for trial in trials_of(SOFTMAX):
        wide = {name: array.astype(float) for name, array in trial.inputs.items()}
        assert np.allclose(analyse(program, wide)["C"].value, trial.expected["C"].value, rtol=1e-12)
    assert power(SOFTMAX).same >= 1


def test_symmetric_outputs_are_no_missed_mutants() -> None:
    found = power("in A_{8,6};out C_{8,8};L^{8,8,6}_{i,j,k}[C_{i,j}+=A_{i,k}*A_{j,k};]")
    assert found.missed == ()
    assert found.same >= 1


def test_an_identity_is_its_inputs_copy() -> None:
    found = power("in A_{4,6};out C_{6,4};L^{6,4}_{i,j}[C_{i,j}=A_{j,i};]")
    assert found.missed == ()


def test_each_output_needs_power_of_its_own() -> None:
    text = "in A_{8};out C_{8},D_{8};L^8_i[C_i=A_i*2.0;]L^8_i[D_i=1.0;]"
    assert all(name.endswith("(D)") for name in power(text).missed)
    assert len(power(text).missed) == 2


def test_a_wrong_translation_is_found_before_any_step() -> None:
    with pytest.raises(Unverified, match="does not compute what its source computes"):
        trials_of(MATMUL, MATMUL.replace("+=A_{i,k}*D_{k,j}", "+=A_{i,k}*D_{k,j}*1.0000001"))


def test_draws_without_a_finite_reference_are_replaced_by_later_attempts() -> None:
    trials = trials_of("in A_{8};out C_{8};L^8_i[C_i=log(A_i);]")
    assert [trial.draw.name for trial in trials] == [f"{kind}/0.3" for kind in KINDS]


def test_a_source_that_is_never_finite_is_refused() -> None:
    with pytest.raises(Unverified, match="no input draw can be checked: the reference of C is not finite"):
        trials_of("in A_{8};out C_{8};L^8_i[C_i=log(-abs(A_i)-1.0);]")


def test_a_draw_number_counts_for_each_kind() -> None:
    names = [trial.draw.name for trial in trials_of(MATMUL, draws=2)]
    assert names == [f"{kind}/{number}" for kind in KINDS for number in (0, 1)]
