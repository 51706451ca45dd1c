"""A refusal that names a step to take first tells the truth: the step is legal, and takes apart what was refused."""

import re

from leir.analysis.access import tensors
from leir.edit import enclosing, statement_at, walk
from leir.parser import parse
from leir.syntax import Equation, Loop, Path, Program
from strategies.base import Applied, Refused
from strategies.operator.loop_parallelization import LoopParallelization
from strategies.operator.reduction_factorization import ReductionFactorization
from tests.strategies.test_hard_places import PLACES
from tests.strategies.walks import programs, tried

NESTS = {
    "rows": "in A_{4,8};out C_4;L^{4,8}_{i,j}[C_i+=A_{i,j};]",
    "a triangle": "in A_{8,8};out C_8;L^{8,8}_{i,j}(j<=i)[C_i max=A_{i,j};]",
    "a histogram": "in A_8,I^{i32}_8;out C_4;L^4_i[C_i=0.0;]L^8_j[C_{I_j}+=A_j;]",
    "a sum in two places": "in A_{4,8};out C_4;L^{4,8}_{i,j}[C_i+=A_{i,j};C_i+=A_{i,7-j};]",
}


def test_what_a_refusal_advises_is_legal_and_helps() -> None:
    advised = hindered = 0
    named = [(name, parse(text, name)) for name, text in (NESTS | PLACES).items()]
    for name, program in [*named, *programs(range(8))]:
        for step in LoopParallelization.candidates(program):
            outcome = tried(step, program)
            told = outcome.fact.evidence if isinstance(outcome, Refused) else ""
            if "reduction_factorization" not in told:
                continue
            assert isinstance(step, LoopParallelization)
            (tensor,) = re.findall(r"^([A-Za-z0-9]+)", told)
            first = tried(ReductionFactorization(path=step.path, tensor=tensor, parts=2), program)
            if "first gives its iterations partial results" in told:
                assert isinstance(first, Applied), (name, told, str(first))
                again = tried(LoopParallelization(path=over_parts(program, first.program, step.path)), first.program)
                assert isinstance(again, Applied) or "accumulate" not in again.fact.evidence, (name, str(again))
                advised += 1
            else:
                assert isinstance(first, Refused) and f"apart, but {first.fact.evidence}" in told, (name, told)
                hindered += 1
    assert advised >= 10 and hindered >= 2, (advised, hindered)


def over_parts(before: Program, after: Program, path: Path) -> Path:
    """The loop over parts, around the equation that takes the terms of a part: it keeps its variable."""
    known, loop = tensors(before), statement_at(before, path)
    assert isinstance(loop, Loop)
    (new,) = (tensor for tensor in tensors(after) if tensor not in known)
    (term,) = (path for path, n in walk(after) if isinstance(n, Equation) and n.op != "=" and n.target.tensor == new)
    return next(p for p, n in enclosing(after, term) if isinstance(n, Loop) and n.variable == loop.variable)
