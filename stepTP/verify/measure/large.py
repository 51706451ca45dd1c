"""Timing at real sizes, for searches on a GPU: tasks that compile side by side and take turns on the device.

The sizes are those at which a schedule matters, too large for the verification of `stepTP.verify`. A state is legal by
the facts of its steps there, and what it computes is compared with the module's own result in float64 on every timing:
roundings of a sum grow with its terms at most, so that an error beyond (terms + 16) * 2^-24 of the largest value is a
wrong result. Times are medians of back-to-back runs, warm; float32 throughout (no TF32).

Payload of all: `code` (a file in KernelBench's form, without parameters, whose inputs are those of the program in
order), `leir` (the plain program), `target`, `lock`. Result: {"seconds", "error"}; seconds are None where there is an
error. `time_program` tells its "verdict" besides, as `stepTP.records.Verdict` has it, of what it ran.

`lock` is a file. Who times holds it alone; who starts using the device, or lets torch.compile try its kernels there,
shares it with others that do: that takes long, most of it on a core, and must disturb no timing.
"""

import fcntl
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from leir.edit import variables_of, walk_enclosed
from leir.lowering import CudaCompileError, Executable, compile_cuda, compile_llvm
from leir.parser import parse
from leir.syntax import Equation, Loop, Program
from stepTP.verify.measure.baseline import bound_outermost
from stepTP.verify.measure.roofline import least_work

_ROUND_S, _ROUNDS, _MOST_RUNS, _LONG_S = 0.01, 5, 50, 0.3
_ITERATION_S = 4e-8  # of one thread that waits for memory: coarse, to leave out what would take too long
_LIMIT_SIZE, _LIMIT_BYTES = 4096, 1 << 28  # of the product and the copy that give the limits, on a GPU


def time_program(payload: dict[str, Any]) -> dict[str, Any]:
    """The state `state`, its nests bound where they are not; `longest_s`: what is not run if it is expected to take
    longer."""
    target, plain = payload["target"], parse(payload["leir"])
    program = parse(payload["state"])
    if target == "cuda":
        program = bound_outermost(program)
        least = _longest_thread(program)
        if least > payload["longest_s"]:
            return _failed(f"left out: its longest thread takes {least:.1f} s or so")
    try:
        executable = _compiled(program, target)
    except CudaCompileError as error:
        return _failed(f"does not compile: {str(error)[:500]}")
    _begun(target, payload["lock"])
    with _turn(payload["lock"]), torch.no_grad():
        _float32()
        given = _inputs(plain, target)
        module = _module(payload["code"])
        expected = _outputs(module(*(tensor.double() for tensor in given.values())))
        buffers = [
            given[p.name] if p.name in given else torch.full(p.shape, math.nan, device=_device(target))
            for p in executable.parameters
        ]
        function = executable.module[executable.name]
        try:
            seconds = _time(lambda: function(*buffers), target)
        except RuntimeError as error:  # of the driver, through TVM or PyTorch
            return _failed(str(error)[:500])
        found = {p.name: b for p, b in zip(executable.parameters, buffers, strict=True) if p.role == "output"}
        results = [found[declared.tensor] for declared in plain.outputs]
        bound = (_terms(plain) + 16) * 2.0**-24
        compared = [_compared(one, other, bound) for one, other in zip(results, expected, strict=True)]
    for errors in compared:
        if not errors["bound_used"] <= 1:  # NaN is never below
            apart = errors["bound_used"] * bound
            return _failed(f"wrong result: {apart:.2e} of the largest value away from the module's (bound {bound:.1e})")
    worst = max(compared, key=lambda errors: errors["bound_used"])
    verdict = {"target": target, "inputs": ["normal/0"], **worst, "bit_equal": None}
    return {"seconds": seconds, "error": "", "verdict": verdict}


def time_module(payload: dict[str, Any]) -> dict[str, Any]:
    """The module itself: eagerly, or with `compiled` by torch.compile."""
    target, plain = payload["target"], parse(payload["leir"])
    module = _module(payload["code"])
    _begun(target, payload["lock"])
    if payload["compiled"]:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a worker starts no processes of its own
        module = torch.compile(module)
        with _turn(payload["lock"], shared=True), torch.no_grad():
            _float32()
            try:
                module(*_inputs(plain, target).values())
            except Exception as error:  # the compiler raises errors of many libraries
                return _failed(f"torch.compile: {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")
    with _turn(payload["lock"]), torch.no_grad():
        _float32()
        given = list(_inputs(plain, target).values())
        return {"seconds": _time(lambda: module(*given), target), "error": ""}


def time_limits(payload: dict[str, Any]) -> dict[str, Any]:
    """Rates of this device: bytes of a copy and float operations of a product, a second; and its name."""
    target = payload["target"]
    cuda = target == "cuda"
    _begun(target, payload["lock"])
    with _turn(payload["lock"]), torch.no_grad():
        _float32()
        size, count = (_LIMIT_SIZE, _LIMIT_BYTES // 4) if cuda else (512, 1 << 22)
        one, other = (torch.randn(size, size, device=_device(target)) for _ in range(2))
        rate = 2 * size**3 / _time(lambda: torch.mm(one, other), target)
        given = torch.randn(count, device=_device(target))
        taken = torch.empty_like(given)
        bytes_per_s = 8 * count / _time(lambda: taken.copy_(given), target)
    name = torch.cuda.get_device_name() if cuda else "cpu"
    return {"bytes_per_s": bytes_per_s, "flops_per_s": rate, "device": name, "torch": torch.__version__}


def least(payload: dict[str, Any]) -> dict[str, Any]:
    """What the program must do at least: bytes moved, and float operations of its accumulations."""
    work = least_work(parse(payload["leir"]))
    return {"bytes": work.bytes, "flops": 2 * (work.f32 + work.f64)}


def _failed(error: str) -> dict[str, Any]:
    return {"seconds": None, "error": error}


def _device(target: str) -> str:
    return "cuda" if target == "cuda" else "cpu"


def _compiled(program: Program, target: str) -> Executable:
    if target == "cuda":
        return compile_cuda([program], contraction=True)[0]
    return compile_llvm([program], optimised=True)[0]


@lru_cache(maxsize=4)
def _module(code: str) -> Any:
    """The file's model. It has no parameters, so that it runs on any device and in any precision."""
    names: dict[str, Any] = {}
    exec(compile(code, "<program>", "exec"), names)
    return names["Model"](*names["get_init_inputs"]())


def _inputs(program: Program, target: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator(device=_device(target)).manual_seed(0)
    return {
        declared.tensor: torch.randn(declared.shape, generator=generator, device=_device(target))
        for declared in program.inputs
    }


def _outputs(found: Any) -> list[torch.Tensor]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _compared(found: torch.Tensor, expected: torch.Tensor, bound: float) -> dict[str, float]:
    """How far a result is from the float64 one, as a verdict tells it; `bound`: of the largest value."""
    error, size = (found.reshape(expected.shape) - expected).abs(), expected.abs()
    largest, worst = float(size.max()), float(error.max())
    plain = size >= largest * 2.0**-10
    _, exponent = torch.frexp(size)
    ulp = torch.ldexp(torch.ones_like(size), exponent - 24)  # of a float32
    return {
        "max_abs": worst,
        "tolerance": bound * largest,
        "bound_used": worst / max(bound * largest, 1e-300),
        "max_rel": float((error / size)[plain].max()),
        "max_ulp": float((error / ulp)[plain].max()),
    }


def _terms(program: Program) -> int:
    """How many roundings may add up along a value: the extents of all reductions, one after the other."""
    total = 0
    for _, node, around in walk_enclosed(program):
        if isinstance(node, Equation) and node.op != "=":
            kept = {name for index in node.target.indices for name in variables_of(index)}
            total += math.prod(
                level.extent for level in around if isinstance(level, Loop) and level.variable not in kept
            )
    return total


def _longest_thread(program: Program) -> float:
    total = 0
    for _, node, around in walk_enclosed(program):
        if isinstance(node, Equation):
            total += math.prod(level.extent for level in around if isinstance(level, Loop) and level.kind != "B")
    return total * _ITERATION_S


def _float32() -> None:
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def _begun(target: str, lock: str) -> None:
    """This process has begun to use the device: the first use takes seconds, in which others may begin too."""
    if target == "cuda" and not torch.cuda.is_initialized():
        with _turn(lock, shared=True):
            one = torch.ones(8, 8, device="cuda")
            torch.mm(one, one)
            torch.cuda.synchronize()


@contextmanager
def _turn(lock: str, shared: bool = False) -> Iterator[None]:
    """The device for this process alone, or with others that do not time; its memory is given back."""
    with Path(lock).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        try:
            yield
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _time(work: Callable[[], object], target: str) -> float:
    """Seconds of one run: the median of several rounds, warm; of a run that takes long, the first or the second."""
    first = lap(work, target, 1)
    if first > _LONG_S:
        return first
    once = lap(work, target, 1)
    if once > _ROUND_S:
        return once
    runs = max(1, min(_MOST_RUNS, int(_ROUND_S / max(once, 1e-6))))
    return statistics.median(lap(work, target, runs) for _ in range(_ROUNDS))


def lap(work: Callable[[], object], target: str, runs: int) -> float:
    """Seconds of one run, of several in a row; the device is idle before and after."""
    if target != "cuda":
        begun = time.perf_counter()
        for _ in range(runs):
            work()
        return (time.perf_counter() - begun) / runs
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    first.record()
    for _ in range(runs):
        work()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3 / runs
