"""Every trajectory, at shapes that its tiles do not divide: each state checks, keeps the meaning, and replays."""

from collections.abc import Iterator

import pytest

from leir.check import check
from leir.lowering import cuda_source
from leir.printer import to_text
from schedules import attention, convolution, layer_norm, matmul, softmax, transpose
from schedules.trajectory import Trajectory
from stepTP.verify import Scorer, Task, TaskSource
from strategies.catalog import parse_step, print_step
from tests.strategies.meaning import why_not_same_values

TRAJECTORIES = {
    "attention": lambda *size: attention.trajectory(*size, rows=8, columns=4, thread=(4, 2), depth=4, causal=1),
    "attention in f16": lambda *size: attention.trajectory(
        *size, rows=8, columns=8, thread=(4, 2), depth=4, chunk=4, dtype="f16"
    ),
    "convolution": lambda *size: convolution.trajectory(*size, block=(4, 2, 4), thread=(2, 2), chunk=2),
    "convolution of a padded image": lambda *size: convolution.trajectory(
        *size, block=(4, 2, 4), thread=(2, 2), chunk=2, padded=1
    ),
    "matmul": lambda m, n, k: matmul.trajectory(m, n, k, block=(8, 16, 8), thread=(4, 8)),
    "transpose": lambda m, n: transpose.trajectory(m, n, tile=8, rows=2),
    "softmax": lambda m, n: softmax.trajectory(m, n, threads=4, levels=(2,)),
    "layer_norm": lambda m, n: layer_norm.trajectory(m, n, threads=4, levels=(2,)),
}
SHAPES = {
    "attention": ((2, 15, 14, 16), (1, 9, 17, 8), (1, 13, 6, 8)),
    "attention in f16": ((2, 13, 15, 8), (1, 11, 9, 16), (1, 9, 17, 8)),
    "convolution": ((1, 5, 3, 5, 3), (2, 7, 5, 6, 3), (2, 5, 4, 9, 5)),
    "convolution of a padded image": ((1, 5, 3, 5, 3), (2, 7, 5, 6, 3), (2, 5, 4, 9, 5)),
    "matmul": ((9, 17, 10), (20, 25, 18), (17, 30, 9)),
    "transpose": ((20, 26), (9, 31), (17, 13)),
    "softmax": ((3, 41), (2, 50), (5, 35)),
    "layer_norm": ((3, 41), (2, 50), (5, 35)),
}
LONG = ("attention", "attention in f16", "convolution", "convolution of a padded image", "matmul")
CASES = [
    pytest.param(name, shape, marks=[pytest.mark.slow] if number or name in LONG else [])
    for name, shapes in SHAPES.items()
    for number, shape in enumerate(shapes)
]


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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "shape"), CASES)
def test_every_state_is_verified(name: str, shape: tuple[int, ...], verifier: Scorer) -> None:
    """Compiled, run and compared with the first state in float64, as the rows of a build are."""
    found: Trajectory = TRAJECTORIES[name](*shape)
    source = TaskSource(id=name.replace(" ", "-"), leir=to_text(found.states[0]))
    before = [Task(source=source, state=to_text(state)) for state in found.states[:-1]]
    reports = verifier.score_many(zip(map(print_step, found.steps), before, strict=True))
    assert [report.accepted for report in reports] == [True] * len(found.steps)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Scorer]:
    with Scorer(workers=1) as scorer:
        yield scorer


@pytest.mark.parametrize("name", ["convolution", "convolution of a padded image", "matmul"])
def test_the_last_state_keeps_the_meaning_of_the_first(name: str) -> None:
    found = TRAJECTORIES[name](*SHAPES[name][0])
    is_exact = all(applied.bit_exact for applied in found.applied)
    assert not why_not_same_values(found.states[0], found.program, is_exact, name)


def test_tiles_that_divide_move_four_values_at_a_time() -> None:
    source = cuda_source(matmul.trajectory(16, 32, 16, block=(8, 16, 8), thread=(4, 8)).program)
    assert source.count("*(float4*)") == 2 * 5  # loads of A and W, loads of both from shared memory, stores of C
    source = cuda_source(softmax.trajectory(2, 64, threads=4, levels=(2,)).program)
    assert source.count("*(float4*)") >= 3  # loads of A, and of the row for the stores of C


def test_a_padded_image_leaves_no_condition_on_the_products() -> None:
    found = convolution.trajectory(1, 8, 4, 8, 4, block=(4, 2, 4), thread=(2, 2), chunk=2, padded=1)
    staging, products = cuda_source(found.program).rsplit("__syncthreads();", 1)
    assert "if (" in staging and "if (" not in products and "?" not in products


@pytest.mark.parametrize(
    "name", [name for name in TRAJECTORIES if not name.startswith(("attention", "convolution of"))]
)
def test_the_last_state_is_one_kernel(name: str) -> None:
    source = cuda_source(TRAJECTORIES[name](*SHAPES[name][0]).program)
    assert source.count("__global__") == 1 and "__shared__" in source and "__syncthreads" in source


@pytest.mark.slow
def test_attention_is_one_kernel_whose_result_stays_in_registers() -> None:
    source = cuda_source(attention.trajectory(2, 128, 64, 32, columns=16, depth=8).program)
    assert source.count("__global__") == 1 and source.count("__syncthreads") == 5
    assert source.count("*(float4*)") == 2 * 7  # loads of queries, keys, values; of three operands; the stores
    assert "__shared__ alignas(64) float" in source


def test_attention_in_one_pass_keeps_the_meaning_in_blocks() -> None:
    t = Trajectory(attention.source(2, 6, 10, 4, 1, "f32"))
    product = attention.product_nest(t)
    t.split(product, "j", 4)
    t.take("flashattention_wo_tiling", path=product, block=1)
    assert not why_not_same_values(t.states[0], t.program, False, "attention")
    assert "float" in cuda_source(t.program)
