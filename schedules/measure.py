"""Trajectories on a GPU: the time of every state, beside the bound source and PyTorch's own operator.

Every timed state's result is compared with PyTorch's in float64. Times are medians of CUDA events around back-to-back
runs, warm; products are float32 throughout (no TF32). The rate that a state is held against is measured in the same
process: that of a copy where bytes are the limit, that of `torch.mm` where arithmetic is.
"""

import math
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from leir.canonical import state_id
from leir.edit import walk_enclosed
from leir.lowering import CudaCompileError, Executable, compile_cuda
from leir.syntax import Equation, Loop, Program
from schedules.trajectory import Trajectory
from stepTP.verify.measure.baseline import bound_outermost
from stepTP.verify.measure.large import lap

Tensors = dict[str, torch.Tensor]

ITERATION_S = 1e-7  # of one thread that waits for memory: a coarse figure, to leave out what would take too long
LONGEST_S, LONGEST_SOURCE_S = 3.0, 15.0  # of what is still run
ROUND_S, ROUNDS, MOST_RUNS = 0.02, 7, 50
LIMIT_SIZE = 4096  # of the product that gives the limit of arithmetic
LIMIT_BYTES = 1 << 28  # that the copy reads


@dataclass(frozen=True, slots=True)
class Operator:
    """What a trajectory computes, in PyTorch's words.

    `terms`: how many are summed for an element, which bounds the rounding; `operations`: multiplications and additions
    in all, 0 where bytes are the limit.
    """

    eager: Callable[[Tensors], torch.Tensor]
    terms: int
    operations: int


def operator(name: str, size: tuple[int, ...]) -> Operator:
    """The operator of a trajectory at a size."""
    functional = torch.nn.functional
    match name, size:
        case "matmul", (m, n, k):
            return Operator(lambda t: torch.mm(t["A"], t["W"]), k, 2 * m * n * k)
        case "convolution", (batch, out, rows, columns, channels):
            terms = channels * 9
            work = 2 * batch * out * rows * columns * terms
            return Operator(lambda t: functional.conv2d(t["A"], t["C"], padding=1), terms, work)
        case "attention", (heads, queries, keys, width):
            work = 4 * heads * queries * keys * width
            attend = functional.scaled_dot_product_attention
            return Operator(lambda t: attend(t["A"], t["C"], t["D"]), keys + width, work)
        case "softmax", (_, n):
            return Operator(lambda t: torch.softmax(t["A"], -1), n, 0)
        case "layer_norm", (_, n):
            return Operator(lambda t: functional.layer_norm(t["A"], (n,), t["C"], t["D"]), n, 0)
        case "transpose", (_, _):
            return Operator(lambda t: t["A"].t().contiguous(), 1, 0)
        case _:
            raise ValueError(f"no operator of PyTorch is known for {name} of {size}")


def seconds_at_least(program: Program) -> float:
    """What the longest thread of a program takes, coarsely: its iterations one after the other."""
    total = 0
    for _, node, around in walk_enclosed(program):
        if isinstance(node, Equation):
            total += math.prod(level.extent for level in around if isinstance(level, Loop) and level.kind != "B")
    return total * ITERATION_S


def measure(
    found: Trajectory, name: str, size: tuple[int, ...], numbers: tuple[int, ...], turn: AbstractContextManager[object]
) -> dict[str, Any]:
    """The report on a trajectory: `states` by number, `source_s`, `eager_s`, the `limit` and what is reached of it.

    `turn` is entered when all programs are compiled and the GPU is needed. A state that does not compile or run, or
    whose result is wrong, has an `error` in place of `seconds`. The source is timed where more than one state is.
    """
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    wanted = operator(name, size)
    quick = [number for number in numbers if seconds_at_least(found.states[number]) < LONGEST_S]
    compiled = {number: compiled_or_error(found.states[number]) for number in quick}
    source = bound_outermost(found.states[0])
    is_timed = len(numbers) > 1 and seconds_at_least(source) < LONGEST_SOURCE_S
    baseline = compiled_or_error(source) if is_timed else "not timed"
    with turn, torch.no_grad():
        given = _inputs(found.states[0])
        expected = wanted.eager({key: value.double() for key, value in given.items()})
        eager_s = seconds_of(lambda: wanted.eager(given))
        limit_s, limit = _limit(found.states[0], wanted)
        states = [
            {"number": number, "state_id": state_id(found.states[number])}
            | _measured(compiled[number], given, expected, wanted.terms)
            for number in quick
        ]
        timed_source = _measured(baseline, given, expected, wanted.terms)
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "eager_s": eager_s,
        "source": timed_source, "limit": limit, "limit_s": limit_s, "states": states,
        "left_out": [number for number in numbers if number not in quick],
    }  # fmt: skip
    if states and "seconds" in states[-1]:
        last = states[-1]["seconds"]
        report |= {"seconds": last, "over_eager": eager_s / last, "of_limit": limit_s / last}
        report |= {"over_source": timed_source["seconds"] / last} if "seconds" in timed_source else {}
    return report


def compiled_or_error(program: Program) -> Executable | str:
    """The program for the GPU, or why it does not compile."""
    try:
        return compile_cuda([program], contraction=True)[0]
    except CudaCompileError as error:
        return str(error)


def _inputs(program: Program) -> Tensors:
    generator = torch.Generator(device="cuda").manual_seed(0)
    return {
        declared.tensor: torch.randn(declared.shape, generator=generator, device="cuda") for declared in program.inputs
    }


def _measured(executable: Executable | str, given: Tensors, expected: torch.Tensor, terms: int) -> dict[str, Any]:
    """The `seconds` of a run, its result found right; or the `error`."""
    if isinstance(executable, str):
        return {"error": executable}
    buffers = [
        given[p.name] if p.name in given else torch.full(p.shape, math.nan, device="cuda")
        for p in executable.parameters
    ]
    function = executable.module[executable.name]
    try:
        seconds = seconds_of(lambda: function(*buffers))
    except RuntimeError as error:  # of the driver, through TVM or PyTorch
        return {"error": str(error)}
    (result,) = (b for p, b in zip(executable.parameters, buffers, strict=True) if p.role == "output")
    # Roundings of a sum grow with its terms at most: beyond that, something else is wrong. NaN is never below.
    apart = float((result - expected).abs().max() / expected.abs().max())
    if not apart <= (terms + 16) * 2.0**-24:
        return {"error": f"the result is {apart:.2e} of the largest value away from PyTorch's"}
    return {"seconds": seconds, "apart": apart}


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of one run: the median of several rounds of runs, warm; of a run of a second or more, the first."""
    first = lap(work, "cuda", 1)
    if first > 1.0:
        return first
    once = lap(work, "cuda", 1)
    if once > ROUND_S:
        return statistics.median([once, *(lap(work, "cuda", 1) for _ in range(2))])
    runs = max(1, min(MOST_RUNS, int(ROUND_S / max(once, 1e-6))))
    return statistics.median(lap(work, "cuda", runs) for _ in range(ROUNDS))


def _limit(program: Program, wanted: Operator) -> tuple[float, str]:
    """The seconds that the operator takes at the rate of what is fastest, and what that is."""
    if wanted.operations:
        one, other = (torch.randn(LIMIT_SIZE, LIMIT_SIZE, device="cuda") for _ in range(2))
        rate = 2 * LIMIT_SIZE**3 / seconds_of(lambda: torch.mm(one, other))
        return wanted.operations / rate, f"torch.mm, {rate / 1e12:.1f} TFLOP/s"
    moved = sum(4 * math.prod(declared.shape) for declared in (*program.inputs, *program.outputs))
    given = torch.randn(LIMIT_BYTES // 4, device="cuda")
    taken = torch.empty_like(given)
    rate = 2 * LIMIT_BYTES / seconds_of(lambda: taken.copy_(given))
    return moved / rate, f"a copy, {rate / 1e12:.2f} TB/s"
