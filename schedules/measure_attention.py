"""Attention on a GPU: the plain program, one pass of it, and every state of the tiled trajectory, beside PyTorch's.

Inputs are standard normal. A state's result is compared with PyTorch's in float64 on three heads. Memory is what is
held besides inputs and output: the tensors between the kernels of a program, or the peak of what PyTorch allocates.
"""

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from leir.canonical import state_id
from leir.lowering import Executable
from schedules import attention
from schedules.measure import LONGEST_SOURCE_S, compiled_or_error, seconds_at_least, seconds_of
from schedules.trajectory import Trajectory
from stepTP.verify.measure.baseline import bound_outermost

DTYPES = {"f16": torch.float16, "f32": torch.float32}
BACKENDS = {
    "math": SDPBackend.MATH,
    "memory_efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
}
BATCH, HEADS = 4, 16
THREADS = 128  # rows of a block where a thread takes a row
LONGEST_STATE_S = 12.0  # of the states between, as the coarse bound of `seconds_at_least` has it


@dataclass(frozen=True, slots=True)
class Case:
    """A size: `tokens` are queries and keys of each of 64 heads, `width` the elements of each."""

    tokens: int
    width: int
    dtype: str
    causal: bool

    def operations(self) -> int:
        """Multiplications and additions of both products, masked ones included."""
        return 4 * BATCH * HEADS * self.tokens**2 * self.width

    def trajectory(self, tiles: dict[str, Any]) -> Trajectory:
        """The tiled trajectory; lists of tiles as tuples."""
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in tiles.items()}
        size = (BATCH * HEADS, self.tokens, self.tokens, self.width)
        return attention.trajectory(*size, causal=self.causal, dtype=self.dtype, **given)


def measure_torch(case: Case) -> dict[str, Any]:
    """The seconds and the memory of each backend of PyTorch, or why it does not take the case."""
    q, k, v = (tensor.view(BATCH, HEADS, case.tokens, case.width) for tensor in _inputs(case))
    report: dict[str, Any] = {}
    for name, backend in BACKENDS.items():

        def run(backend: SDPBackend = backend) -> torch.Tensor:
            with sdpa_kernel([backend]):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=case.causal)

        try:
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            result = run()
            torch.cuda.synchronize()
            held = torch.cuda.max_memory_allocated() - before - result.nbytes
            report[name] = {"seconds": seconds_of(run), "bytes": held}
        except RuntimeError as error:
            report[name] = {"error": str(error)[:300]}
    return report


def measure_tiled(
    case: Case, tiles: dict[str, Any], every: int, turn: AbstractContextManager[object]
) -> dict[str, Any]:
    """The tiled trajectory: its last state, and where `every` is not 0 also one state in so many, last states first."""
    found = case.trajectory(tiles)
    last = len(found.states) - 1
    numbers = [last, *range(last - every, 1, -every)] if every else [last]
    wanted = [n for n in numbers if n == last or seconds_at_least(found.states[n]) < LONGEST_STATE_S]
    compiled = {number: compiled_or_error(found.states[number]) for number in wanted}
    report: dict[str, Any] = {"steps": last, "left_out": [n for n in numbers if n not in wanted], "states": []}
    with turn, torch.no_grad():
        given, expected = _inputs(case), _expected(case)
        for number in wanted:
            state = {"number": number, "state_id": state_id(found.states[number])}
            if number:
                state["step"] = found.steps[number - 1].name
            report["states"].append(state | _measured(compiled[number], case, given, expected))
    return report | {key: value for key, value in report["states"][0].items() if key in ("seconds", "bytes", "error")}


def measure_rows(case: Case, turn: AbstractContextManager[object], *, outermost: bool) -> dict[str, Any]:
    """The plain program and the one pass without tiles, a row a thread; also the source, outermost loops bound."""
    programs = {"plain": _plain(case).program, "one_pass": _one_pass(case).program}
    if outermost:
        programs["source"] = bound_outermost(_plain(case).states[0])
    quick = {name: p for name, p in programs.items() if seconds_at_least(p) < LONGEST_SOURCE_S}
    compiled = {name: compiled_or_error(program) for name, program in quick.items()}
    report: dict[str, Any] = {"left_out": [name for name in programs if name not in quick]}
    with turn, torch.no_grad():
        given, expected = _inputs(case), _expected(case)
        for name in quick:
            report[name] = _measured(compiled[name], case, given, expected)
    return report


def _plain(case: Case) -> Trajectory:
    """The plain program with the rows of every nest bound to threads."""
    t = Trajectory(attention.source(BATCH * HEADS, case.tokens, case.tokens, case.width, case.causal, case.dtype))
    for root in list(t.places(())):
        _bind_rows(t, root)
    return t


def _one_pass(case: Case) -> Trajectory:
    """The program after flashattention_wo_tiling, with its rows bound to threads."""
    t = Trajectory(attention.source(BATCH * HEADS, case.tokens, case.tokens, case.width, case.causal, case.dtype))
    t.take("flashattention_wo_tiling", path=attention.product_nest(t))
    for root in list(t.places(())):
        _bind_rows(t, root)
    return t


def _bind_rows(t: Trajectory, root: tuple[int, ...]) -> None:
    t.take("loop_fusion", path=root)
    row = next(iter(t.nest(root)))
    thread = t.split(root, row, THREADS)
    t.bind(root, bx=row, tx=thread)


def _inputs(case: Case) -> list[torch.Tensor]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    shape = (BATCH * HEADS, case.tokens, case.width)
    kind = DTYPES[case.dtype]
    return [torch.randn(shape, generator=generator, device="cuda", dtype=torch.float32).to(kind) for _ in range(3)]


def _checked_heads() -> list[int]:
    return [0, BATCH * HEADS // 2, BATCH * HEADS - 1]


def _expected(case: Case) -> torch.Tensor:
    """The result in float64 for three heads."""
    q, k, v = (tensor[_checked_heads()].double() for tensor in _inputs(case))
    with sdpa_kernel([SDPBackend.MATH]):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=case.causal)


def _measured(
    executable: Executable | str, case: Case, given: list[torch.Tensor], expected: torch.Tensor
) -> dict[str, Any]:
    """The `seconds` of a run, its result found right, and the `bytes` between its kernels; or the `error`."""
    if isinstance(executable, str):
        return {"error": executable[:1000]}
    inputs = iter(given)
    kinds = {**DTYPES, "f64": torch.float64, "bool": torch.bool}
    buffers = [
        next(inputs) if p.role == "input" else torch.full(p.shape, math.nan, device="cuda", dtype=kinds[p.dtype])
        for p in executable.parameters
    ]
    function = executable.module[executable.name]
    try:
        seconds = seconds_of(lambda: function(*buffers))
    except RuntimeError as error:  # of the driver, through TVM or PyTorch
        return {"error": str(error)[:1000]}
    (result,) = (b for p, b in zip(executable.parameters, buffers, strict=True) if p.role == "output")
    apart = float((result[_checked_heads()].double() - expected).abs().max() / expected.abs().max())
    # Roundings of a sum grow with its terms at most; the output's own are added. NaN is never below.
    limit = (case.tokens + case.width + 16) * 2.0**-24 + (2.0**-10 if case.dtype == "f16" else 0.0)
    if not apart <= limit:
        return {"error": f"the result is {apart:.2e} of the largest value away from PyTorch's"}
    held = sum(b.nbytes for p, b in zip(executable.parameters, buffers, strict=True) if p.role == "temporary")
    return {"seconds": seconds, "apart": apart, "bytes": held, "tflops": case.operations() / seconds / 1e12}
