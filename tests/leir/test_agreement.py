"""The interpreter and compiled code agree on random programs; what the checker passes compiles and runs."""

from collections.abc import Sequence

import numpy as np
import pytest

from leir.arrays import array_type
from leir.check import check
from leir.interp import interpret
from leir.lowering import compile_llvm, poison_value
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from tests.leir.agreement import Outputs, calls_functions, differences
from tests.programs import distribution, random_arithmetic, random_inputs, random_program
from tests.programs.inputs import InputKind

_BATCH = 16  # programs compiled into one library


def run_compiled(programs: Sequence[Program], inputs: Sequence[Outputs]) -> list[Outputs]:
    """The outputs of each program from compiled code, every buffer and lifetime poisoned before."""
    results: list[Outputs] = []
    for executable, given, program in zip(compile_llvm(programs, poison=True), inputs, programs, strict=True):
        buffers = dict(given)
        for tensor in executable.parameters:
            if tensor.name not in buffers:
                assert tensor.shape is not None
                buffers[tensor.name] = np.full(tensor.shape, poison_value(tensor.dtype), array_type(tensor.dtype))
        executable.run(buffers)
        results.append({d.tensor: buffers[d.tensor] for d in program.outputs})
    return results


def disagreements(programs: Sequence[Program], kind: InputKind) -> list[str]:
    result: list[str] = []
    for start in range(0, len(programs), _BATCH):
        batch = programs[start : start + _BATCH]
        inputs = [random_inputs(program, start + number, kind) for number, program in enumerate(batch)]
        for program, given, found in zip(batch, inputs, run_compiled(batch, inputs), strict=True):
            wrong = differences(program, interpret(program, given), found)
            result += [f"{line}\n{to_text(program)}" for line in wrong]
    return result


def test_random_programs_check_clean() -> None:
    programs = [random_program(seed) for seed in range(200)]
    print(distribution(programs))
    refused = [(seed, check(program)) for seed, program in enumerate(programs) if check(program)]
    assert refused == []


@pytest.mark.parametrize("kind", ["normal", "integers", "wide"])
def test_random_programs_agree(kind: InputKind) -> None:
    programs = [random_program(f"{kind} {number}") for number in range(96)]
    assert sum(not calls_functions(program) for program in programs) > len(programs) / 4  # compared bit for bit
    assert disagreements(programs, kind) == []


def test_random_arithmetic_agrees() -> None:
    programs = [program for seed in range(200) if not check(program := random_arithmetic(seed))]
    assert len(programs) > 190
    assert disagreements(programs, "normal") == []


@pytest.mark.slow
def test_two_thousand_random_programs_agree() -> None:
    for start in range(0, 2000, 200):
        programs = [random_program(seed) for seed in range(start, start + 200)]
        assert all(check(program) == () for program in programs)
        for kind in ("normal", "integers", "wide"):
            assert disagreements(programs, kind) == []
        assert disagreements([random_arithmetic(seed) for seed in range(start, start + 200)], "integers") == []


MUTANTS = [
    ("in A_{4,4};out C_4;L^{4,4}_{i,j}[C_i+=A_{i,j};]", "A_{i,j}", "A_{j,i}"),
    ("in A_{99};out C;L^{99}_i[C+=A_i;]", "A_i", "A_{98-i}"),  # another order of rounding
    ("in A_8;out C_8;L^8_i[C_i=A_i*3.0+0.1;]", "0.1", "0.10000001"),
    ("in A_8;out C_8;L^8_i[C_i=exp(A_i);]", "exp(A_i)", "expm1(A_i)"),
    ("in A_8;out C_8;L^8_i[C_i=tanh(A_i);]", "tanh(A_i)", "tanh(A_i*1.01)"),
    ("in A_8;out C_8;L^8_i[C_i=cast(bf16,A_i);]", "cast(bf16,A_i)", "cast(f16,A_i)"),
    ("in A_8;out C^{i32}_8;L^8_i[C_i=A_i*10.0;]", "A_i*10.0", "floor(A_i*10.0)"),
]


@pytest.mark.parametrize(("text", "old", "new"), MUTANTS, ids=[new for _, _, new in MUTANTS])
def test_the_comparison_notices(text: str, old: str, new: str) -> None:
    program, mutant = parse(text), parse(text.replace(old, new))
    inputs = random_inputs(program, "notices")
    (found,) = run_compiled([mutant], [inputs])
    assert differences(program, interpret(program, inputs), found) != []
    (right,) = run_compiled([program], [inputs])
    assert differences(program, interpret(program, inputs), right) == []
