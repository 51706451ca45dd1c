"""The interpreter and compiled code agree on random programs; what the checker passes compiles and runs."""

from collections.abc import Sequence

import numpy as np
import pytest

from leir.arrays import array_type
from leir.check import check
from leir.interp import interpret
from leir.lowering import compile_llvm, cuda_source, poison_value
from leir.parser import parse
from leir.printer import to_text
from leir.syntax import Program
from tests.leir.agreement import Outputs, calls_functions, differences
from tests.programs import distribution, keyed, random_arithmetic, random_inputs, random_nesting, random_program
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


@pytest.mark.parametrize(("depth", "count"), [(4, 32), (9, 6), pytest.param(9, 32, marks=pytest.mark.slow)])
def test_nested_choices_and_divisions_agree(depth: int, count: int) -> None:
    programs = [random_nesting(keyed("nesting", depth, seed), depth) for seed in range(count)]
    assert [check(program) for program in programs] == [()] * len(programs)
    assert disagreements(programs, "normal") == []


DEEP = {  # what an expression starts from, and one more level of it
    "condition of a condition": ("A_i>0.0", "if_then_else({},A_i>0.5,A_i<0.25)"),
    "value of a choice": ("A_i", "if_then_else(A_i>0.5,A_i*2.0,{})"),
    "conjunction": ("A_i>0.0", "({}&&A_i<2.5)"),
    "disjunction of conjunctions": ("A_i>0.0", "(({}&&A_i<2.5)||A_i>9.0)"),
    "negation": ("A_i>0.0", "(!({}&&A_i<2.5))"),
    "comparison of conditions": ("A_i>0.0", "(({})==(A_i<0.5))"),
    "choice of a number": ("A_i>0.0", "if_then_else({},1,2)<A_i"),
    "bf16": ("A_i", "cast(bf16,{}*1.1)"),
    "bf16 in conditions": ("A_i", "if_then_else(cast(bf16,{})>1.0,A_i,2.0)"),
    "floor division": ("I_i", "({}//-2)"),
    "floor division by a tensor": ("I_i", "(I_i//max({},1))"),
    "remainder": ("I_i", "(({}+1)%3)"),
    "abs of a floor division": ("I_i", "abs({}//-2)"),
}


@pytest.mark.parametrize("kind", DEEP)
def test_deep_expressions_compile(kind: str) -> None:
    value, level = DEEP[kind]
    is_condition = ">" in value
    for _ in range(30):
        value = level.format(value)
    text = f"if_then_else({value},1.0,2.0)" if is_condition else value
    program = parse(f"in A_8,I^{{i64}}_8;out C_8;L^8_i[C_i={text};]L^8_i(({text})>=1.5)[C_i=1.0;]")
    assert check(program) == ()
    assert cuda_source(program)
    assert disagreements([program], "normal") == []


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
