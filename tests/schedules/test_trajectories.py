"""Every trajectory, at shapes that its tiles do not divide: each state checks, keeps the meaning, and replays."""

import pytest

from leir.check import check
from leir.lowering import cuda_source
from leir.printer import to_text
from schedules import matmul, softmax, transpose
from schedules.trajectory import Trajectory
from strategies.catalog import parse_step, print_step
from tests.strategies.meaning import why_not_same_values

TRAJECTORIES = {
    "matmul": lambda m, n, k: matmul.trajectory(m, n, k, block=(8, 8, 4), thread=(2, 2)),
    "transpose": lambda m, n: transpose.trajectory(m, n, tile=8, rows=2),
    "softmax": lambda m, n: softmax.trajectory(m, n, threads=16, second=4),
}
SHAPES = {
    "matmul": ((20, 25, 18), (9, 30, 7), (17, 12, 5)),
    "transpose": ((20, 26), (9, 31), (17, 13)),
    "softmax": ((3, 41), (2, 50), (5, 35)),
}
CASES = [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_every_state_keeps_the_meaning_and_replays(name: str, shape: tuple[int, ...]) -> None:
    found: Trajectory = TRAJECTORIES[name](*shape)
    program = found.states[0]
    for number, (step, applied) in enumerate(zip(found.steps, found.applied, strict=True)):
        again = parse_step(print_step(step)).apply(program)
        assert to_text(again.program) == to_text(applied.program) == to_text(found.states[number + 1])
        problem = why_not_same_values(program, applied.program, applied.bit_exact, f"{name} {number}")
        assert not problem, f"{print_step(step)}: {problem}"
        program = applied.program
    assert not check(program)


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_the_last_state_is_one_kernel(name: str) -> None:
    source = cuda_source(TRAJECTORIES[name](*SHAPES[name][0]).program)
    assert source.count("__global__") == 1 and "__shared__" in source and "__syncthreads" in source
