"""The check must be able to fail: power is measured for every source, and a source without it is refused."""

from dataclasses import replace

import numpy as np
import pytest

from leir.edit import replace_at
from leir.parser import parse
from stepTP.verify import prepare as module
from stepTP.verify.analysis import analyse
from stepTP.verify.dropped import Runs, reductions
from stepTP.verify.inputs import KINDS, Draw, draw_inputs, free_profile
from stepTP.verify.power import Power, measure
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
    assert any(name.startswith("j=15 at (1, 1) dropped") or "axes" in name for name in missed)


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
    trials = trials_of(SOFTMAX)
    inputs = [{name: array.astype(float) for name, array in trial.inputs.items()} for trial in trials]
    runs, maximum = Runs(parse(SOFTMAX), inputs), next(reductions(parse(SOFTMAX)))
    assert maximum.path == (0, 0)
    for number, trial in enumerate(trials):
        assert np.allclose(runs.without(maximum, 15, number)["C"], trial.expected["C"].value, rtol=1e-12)
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


def test_a_large_source_has_fewer_attempts_at_sharp_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def drawn(profiles: object, draw: Draw, seed: int, source: str) -> dict[str, np.ndarray]:
        tried.append(draw.name)
        return draw_inputs(profiles, draw, seed, source)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "draw_inputs", drawn)
    monkeypatch.setattr(module, "noticing", lambda _: 0.0)
    names = [trial.draw.name for trial in trials_of(SOFTMAX)]
    small, tried[:] = len(tried), []
    monkeypatch.setattr(module, "_LARGE", 1)
    assert [trial.draw.name for trial in trials_of(SOFTMAX)] == names
    assert (small, len(tried)) == (6 * len(KINDS), 3 * len(KINDS))


def test_a_source_that_is_never_finite_is_refused() -> None:
    with pytest.raises(Unverified, match="no input draw can be checked: the reference of C is not finite"):
        trials_of("in A_{8};out C_{8};L^8_i[C_i=log(-abs(A_i)-1.0);]")


def test_a_draw_number_counts_for_each_kind() -> None:
    names = [trial.draw.name for trial in trials_of(MATMUL, draws=2)]
    assert names == [f"{kind}/{number}" for kind in KINDS for number in (0, 1)]


def test_every_reduction_loses_its_first_middle_last_and_a_drawn_iteration() -> None:
    text = "in A_{4,9,6};out C_4;L^{4,9,6}_{i,j,k=2}(k<7)[D_i+=A_{i,j,k-2};]L^4_i[C_i=D_i;]"
    found = list(reductions(parse(text), "key"))
    assert [reduction.path for reduction in found] == [(0, 0), (0, 0, 0)]
    assert all({loop.first, loop.first + loop.extent // 2, loop.first + loop.extent - 1} <= set(r.positions)
               for r in found for loop in (r.loop,))  # fmt: skip
    drawn = {reduction.positions[3:] for key in "abcdefgh" for reduction in reductions(parse(text), key)}
    assert len(drawn) > 3


@pytest.mark.parametrize(
    "text", [MATMUL, SOFTMAX, "in A_{6,5};out C_6,D_6;L^{6,5}_{i,j}[D_i+=A_{i,j};]L^6_i[C_i=D_i*2.0;]"]
)
def test_a_program_without_an_iteration_is_run_as_it_reads(text: str) -> None:
    """What the statements before the changed one computed is reused; the result must be that of the whole program."""
    program, trials = parse(text), trials_of(text)
    inputs = [{name: array.astype(float) for name, array in trial.inputs.items()} for trial in trials]
    runs = Runs(program, inputs)
    for reduction in reductions(program):
        loop = reduction.loop
        last = replace(loop, extent=loop.extent - 1)
        shorter = replace_at(program, reduction.path, last)
        found = runs.without(reduction, loop.first + loop.extent - 1, 0)
        for name, bounded in analyse(in_double(shorter), inputs[0]).items():
            assert np.allclose(found[name], bounded.value, rtol=1e-12, equal_nan=True)


def test_an_element_that_loses_its_only_term_is_its_fill() -> None:
    text = "in A_6;out C_6;L^{6,2}_{i,j}(j==i%2)[C_i+=A_i;]"
    runs = Runs(parse(text), [{"A": np.arange(1.0, 7.0)}])
    assert runs.without(next(reductions(parse(text))), 0, 0)["C"].tolist() == [0.0, 2.0, 0.0, 4.0, 0.0, 6.0]
    assert power(text).missed == ()


def test_wrong_values_must_be_off_by_twice_the_tolerance() -> None:
    """One that is off by less may be taken back by rounding, and then passes."""
    trials = trials_of(MATMUL)
    wide = with_tolerance(trials, 0.4)
    smallest = replace(
        wide[0], expected={"C": replace(wide[0].expected["C"], value=np.ones((8, 8)), tolerance=np.full((8, 8), 0.6))}
    )
    assert "zero (C)" in measure(parse(MATMUL), (smallest,)).missed


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "columns"), [(4, 512), (16, 1024), (4, 2048), (1, 1024), (1, 4096)])
def test_a_dropped_term_of_a_long_softmax_is_noticed(rows: int, columns: int) -> None:
    text = SOFTMAX.replace("8,16", f"{rows},{columns}")
    trials = prepared_trials(SourceKey("long", "", text, 1, 0))
    assert any(name.startswith("peaks/") for name in trials.names)
