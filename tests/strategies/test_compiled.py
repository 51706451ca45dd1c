"""Steps on compiled programs: what is bit-exact for the interpreter is so for llvm, without contraction."""

import numpy as np

from leir.lowering import compile_llvm
from strategies.base import Applied
from strategies.catalog import strategies
from tests.programs import keyed, random_inputs
from tests.strategies.meaning import TOLERANCES
from tests.strategies.walks import Trial, programs, walk

STEPS = 24


def test_steps_keep_what_compiled_programs_compute() -> None:
    trials: list[Trial] = []
    for name, program in programs(range(6)):
        found = walk(f"compiled {name}", program, strategies(), depth=1, each=1)
        trials += [trial for trial in found if isinstance(trial.outcome, Applied)]
    chosen = keyed("compiled").sample(trials, STEPS)
    pairs = [(t, t.program, t.outcome.program) for t in chosen if isinstance(t.outcome, Applied)]
    built = iter(compile_llvm([program for _, before, after in pairs for program in (before, after)]))
    exact = 0
    for number, (trial, before, _) in enumerate(pairs):
        inputs = random_inputs(before, number)
        results = []
        for executable in (next(built), next(built)):
            buffers = executable.new_buffers(inputs)
            executable.run(buffers)
            results.append(buffers)
        assert isinstance(trial.outcome, Applied)
        for declaration in before.outputs:
            old, new = (buffers[declaration.tensor] for buffers in results)
            if trial.outcome.bit_exact:
                assert np.array_equal(old, new, equal_nan=old.dtype.kind == "f"), trial.step
            else:
                tolerance = TOLERANCES.get(declaration.dtype, 0.0)  # integers are equal
                scale = float(np.max(np.abs(old), initial=0.0))
                np.testing.assert_allclose(new, old, rtol=tolerance, atol=tolerance * scale)
        exact += trial.outcome.bit_exact
    assert 0 < exact < STEPS
