"""Hundreds of subtly wrong mutants, of which none may pass but those that are no different, and of right variants.

No check refuses what lies below the tolerance on every draw; such mutants are counted, and must be few.
Mutants are run only where `leir.check` accepts them: it is the first lock.
"""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from leir.check import check
from leir.edit import with_dtypes
from leir.interp import InterpreterError, interpret
from leir.lowering import compile_llvm
from leir.printer import to_text
from leir.syntax import Program
from stepTP.frontend import load_text, translate
from stepTP.sources import SourceProgram, families, generate
from stepTP.verify.compare import distance
from stepTP.verify.inputs import generator
from stepTP.verify.prepare import Trials, in_double
from stepTP.verify.run import observe
from stepTP.verify.task import SourceKey, prepared_trials
from tests.stepTP.mutants import mutants, variants

BELOW_ROUNDING = 1.0  # tolerances: rounding may do as much in a right program


def sources() -> list[SourceProgram]:
    """A program of each family."""
    return generate([family.name for family in families()], seed=11, per_family=1)


def prepared(source: SourceProgram) -> tuple[Program, Trials]:
    loaded = load_text(source.torch_code)
    program = translate(loaded.module, loaded.inputs).program
    return program, prepared_trials(SourceKey(source.id, source.torch_code, to_text(program), 1, 0))


def widened(program: Program) -> Program:
    """The program in float64; casts to narrower types stay where the source has none of its own."""
    narrow = any(declaration.dtype in ("f16", "bf16") for declaration in (*program.inputs, *program.outputs))
    return in_double(program) if narrow else with_dtypes(program, {"f32": "f64"})


def is_equivalent(program: Program, trials: Trials) -> bool:
    """Whether a program gives the reference's outputs in float64, within the bound of float64, on every draw."""
    for trial in trials.trials:
        inputs = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in trial.inputs.items()}
        try:
            found = interpret(widened(program), inputs)
        except InterpreterError:
            return False
        for name, expected in trial.expected.items():
            apart = distance(found[name].astype(np.float64), expected.value)
            scale = np.abs(expected.value).max(initial=0.0, where=np.isfinite(expected.value))
            if not np.all(apart <= 1e-11 * scale):
                return False
    return True


def tolerances(program: Program, trials: Trials) -> float:
    """The largest difference of a program in float64 from the reference, in tolerances."""
    worst = 0.0
    for trial in trials.trials:
        inputs = {name: a.astype(np.float64) if a.dtype.kind == "f" else a for name, a in trial.inputs.items()}
        found = interpret(widened(program), inputs)
        for name, expected in trial.expected.items():
            apart = distance(found[name].astype(np.float64), expected.value)
            with np.errstate(invalid="ignore", divide="ignore"):
                worst = max(worst, float(np.nanmax(np.where(apart == 0, 0.0, apart / expected.tolerance), initial=0.0)))
    return worst


def attack(source: SourceProgram, turns: int) -> Iterator[tuple[str, str, str]]:
    """What became of each mutant of a source: ill-formed, refused, equivalent or survived; with its name and text."""
    program, trials = prepared(source)
    found: dict[str, tuple[str, Program]] = {}
    for turn in range(turns):
        for name, mutant in mutants(program, generator("mutants", source.id, turn)):
            found.setdefault(to_text(mutant), (name, mutant))
    found.pop(to_text(program), None)
    runnable = []
    for text, (name, mutant) in found.items():
        if check(mutant):
            yield "ill-formed", name, text
        else:
            runnable.append((name, text, mutant))
    compiled = compile_llvm([mutant for _, _, mutant in runnable], poison=True)
    for (name, text, mutant), executable in zip(runnable, compiled, strict=True):
        if observe(executable, trials.trials).difference.problem:
            yield "refused", name, text
        elif is_equivalent(mutant, trials):
            yield "equivalent", name, text
        elif (part := tolerances(mutant, trials)) < BELOW_ROUNDING:
            yield "below rounding", f"{name} ({part:.2g} tolerances)", text
        else:
            yield "survived", f"{name} ({part:.2g} tolerances)", text


@pytest.mark.slow
def test_no_mutant_passes_but_those_that_are_no_different() -> None:
    counts: Counter[str] = Counter()
    survivors: list[str] = []
    for source in sources():
        for verdict, name, text in attack(source, 1):
            counts[verdict] += 1
            if verdict == "survived":
                survivors.append(f"{source.id}: {name}\n{text}")
    assert counts.total() >= 300
    assert counts["below rounding"] <= 0.02 * counts.total()
    assert not survivors, "\n".join([str(dict(counts)), *survivors])


@pytest.mark.slow
def test_no_right_variant_is_refused() -> None:
    count, refused = 0, []
    for source in sources():
        program, trials = prepared(source)
        found = {to_text(new): (name, new) for name, new in variants(program, generator("variants", source.id), 6)}
        compiled = compile_llvm([new for _, new in found.values()], poison=True)
        for (text, (name, _)), executable in zip(found.items(), compiled, strict=True):
            count += 1
            if problem := observe(executable, trials.trials).difference.problem:
                refused.append(f"{source.id}: {name}: {problem}\n{text}")
    assert count >= 300
    assert not refused, "\n".join(refused)
