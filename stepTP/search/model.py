"""The analytic cost model: seconds that a program should take, from its text alone.

For each kernel the model counts, equation by equation, what its threads issue, what they move between registers, shared
memory, cache and memory, and how long the longest thread waits. The slowest resource decides, the others add a tenth of
theirs, so that of two programs with one bottleneck the leaner is preferred. After the roofline model (Williams,
Waterman, Patterson 2009) with the latency bound of Little's law; rates are those of an H200, and of one core of a
present x86 server for `llvm`. Nothing is measured: the same program always costs the same.

What is left out: what guards spare (they count as true), and the reuse of caches across blocks beyond the footprint.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from leir.analysis.access import Tensor, tensors
from leir.analysis.cost import cost
from leir.analysis.kernels import BYTES, Kernel, axis_of, kernels
from leir.analysis.nestforms import conjuncts
from leir.analysis.strides import stride
from leir.edit import accesses, variables_of, walk_enclosed, walk_expression
from leir.syntax import Access, Binary, Call, Equation, Expr, Guard, Loop, Program, Select, Unary
from stepTP.search.warps import bank_turns, sector_bytes
from stepTP.verify.measure.baseline import bound_outermost

_MEMORY, _CACHE, _SHARED = 4.1e12, 7.0e12, 29e12  # bytes a second: device memory, L2, shared memory
_ISSUE = 33e12  # thread instructions a second of all multiprocessors
_PROCESSORS, _RESIDENT = 132, 2048  # multiprocessors, and threads of one at most
_BUSY = 512  # threads of a multiprocessor that keep it busy
_WAIT = {"g": 120e-9, "s": 12e-9, "l": 0.0}  # seconds until a loaded value is there, a few loads being under way
_STEP = 1.2e-9  # seconds between two instructions of one thread that wait for each other
_LAUNCH = 3e-6
_CALL = 8  # instructions of an elementary function
_OVERLAP = 0.1  # of what is not the bottleneck, that is not hidden behind it
_MOST_UNROLLED = 8  # loads of a thread under way, where its loops are written out

_CPU_STEP, _CPU_LANES, _CPU_CORES = 0.7e-9, 8, 8
_CPU_MEMORY, _CPU_MISS = 12e9, 4.0  # bytes a second of one core; how much longer a strided access takes
_CPU_FORK = 5e-6


@dataclass(frozen=True, slots=True)
class _Place:
    """An equation with the loops and the guards around it, outside first."""

    equation: Equation
    loops: tuple[Loop, ...]
    guards: tuple[Guard, ...] = ()


def predicted_seconds(program: Program, target: str) -> float:
    """What the model says of a well-formed program on `llvm` or `cuda`, where unbound nests count as they are timed."""
    if target == "llvm":
        return float(f"{_on_cpu(program):.6g}")
    bound = bound_outermost(program)
    known = tensors(bound)
    moved = {nest.path[0]: nest.bytes_read + nest.bytes_written for nest in cost(bound).nests}
    total = 0.0
    for kernel in kernels(bound):
        launches = prod(loop.extent for loop in kernel.host if isinstance(loop, Loop))
        total += launches * (_on_gpu(kernel, known) + _LAUNCH)
    memory = sum(moved.values()) / _MEMORY
    return float(f"{max(total, memory) + _OVERLAP * min(total, memory):.6g}")


def _on_gpu(kernel: Kernel, known: dict[str, Tensor]) -> float:
    """Seconds of one launch, memory left out."""
    threads = max(1, kernel.threads)
    at_once = min(threads * max(1, kernel.blocks), _PROCESSORS * _RESIDENT)
    busy = min(1.0, at_once / (_PROCESSORS * _BUSY))
    waves = max(1.0, threads * kernel.blocks / (_PROCESSORS * _RESIDENT))
    issued = cached = shared = waiting = 0.0
    for place in _equations(kernel.statement):
        across = [loop for loop in place.loops if axis_of(loop)]
        inside = tuple(loop for loop in place.loops if not axis_of(loop))
        every = prod(loop.extent for loop in across)
        runs = prod(loop.extent for loop in inside)
        lanes = prod(loop.extent for loop in inside if loop.kind == "V")
        unrolled = min(_MOST_UNROLLED, prod(loop.extent for loop in inside if loop.kind in ("U", "V")))
        threads = tuple(loop for axis in ("tx", "ty", "tz") for loop in across if axis_of(loop) == axis)
        vector = next((loop for loop in inside if loop.kind == "V"), None)
        operations = _operations(place.equation)
        issued += every * (runs * operations + _asked(place.guards, inside))
        waiting += waves * runs * _STEP * max(1, operations) / unrolled
        for access in dict.fromkeys(_moved(place.equation)):
            tensor = known[access.tensor]
            times = _times(access, inside)
            if tensor.scope == "l":
                continue
            size = BYTES[tensor.dtype]
            issued += every * times / lanes
            waiting += waves * times * _WAIT[tensor.scope] / unrolled
            if tensor.scope == "s":
                shared += every * times * size * bank_turns(access, threads, vector, tensor.shape, size)
            else:
                cached += every * times * sector_bytes(access, threads, vector, tensor.shape, size)
    parts = (issued / (_ISSUE * busy), cached / (_CACHE * busy), shared / (_SHARED * busy), waiting)
    slowest = max(parts)
    return slowest + _OVERLAP * (sum(parts) - slowest)


def _equations(statement: object) -> Iterator[_Place]:
    around = (statement,) if isinstance(statement, Loop | Guard) else ()
    if isinstance(statement, Equation):
        yield _Place(statement, ())
        return
    assert isinstance(statement, Loop | Guard)
    for _, node, enclosing in walk_enclosed(statement, (), around):
        if isinstance(node, Equation):
            loops = tuple(level for level in enclosing if isinstance(level, Loop))
            yield _Place(node, loops, tuple(level for level in enclosing if isinstance(level, Guard)))


def _moved(equation: Equation) -> Iterator[Access]:
    """What an equation loads and stores; an accumulator is both, and counts once."""
    yield equation.target
    for index in equation.target.indices:
        yield from accesses(index)
    yield from accesses(equation.value)


@lru_cache(maxsize=4096)
def _operations(equation: Equation) -> int:
    """Instructions of the value and of the accumulation, those of addresses left out; a product is added at once."""
    fused = equation.op == "+=" and isinstance(equation.value, Binary) and equation.value.op == "*"
    return int(equation.op != "=" and not fused) + _instructions(equation.value)


def _asked(guards: tuple[Guard, ...], inside: tuple[Loop, ...]) -> int:
    """Instructions of guards in a thread: the copies of a loop that is written out share what lacks its variable."""
    total = 0
    for condition in (part for guard in guards for part in conjuncts(guard.condition)):
        names = variables_of(condition)
        runs = prod(loop.extent for loop in inside if loop.variable in names or loop.kind not in ("U", "V"))
        total += runs * (1 + _instructions(condition))
    return total


@lru_cache(maxsize=4096)
def _instructions(value: Expr) -> int:
    count = 0
    for expression in _values(value):
        match expression:
            case Call(function) if function not in ("max", "min", "abs"):
                count += _CALL
            case Binary("/" | "**"):
                count += _CALL
            case Binary() | Unary() | Select() | Call():
                count += 1
            case _:
                pass
    return count


def _values(expression: Expr) -> Iterator[Expr]:
    """The parts of a value, those of subscripts left out."""
    inside: list[tuple[int, ...]] = []
    for within, part in walk_expression(expression):
        if any(within[: len(above)] == above for above in inside):
            continue
        if isinstance(part, Access):
            inside.append(within)
        yield part


def _times(access: Access, inside: tuple[Loop, ...]) -> int:
    """How often a thread moves the element: a loop that it does not depend on keeps it in a register, inside out."""
    names = {name for index in access.indices for name in variables_of(index)}
    kept = len(inside)
    while kept and inside[kept - 1].variable not in names:
        kept -= 1
    return prod(loop.extent for loop in inside[:kept])


def _on_cpu(program: Program) -> float:
    """Seconds on one core, or several where loops are parallel."""
    known = tensors(program)
    total = 0.0
    for nest in cost(program).nests:
        work, cores = 0.0, 1
        for place in _equations(program.body[nest.path[0]]):
            runs = prod(loop.extent for loop in place.loops)
            parallel = prod(loop.extent for loop in place.loops if loop.kind == "P")
            cores = max(cores, min(parallel, _CPU_CORES))
            lanes = _CPU_LANES if any(loop.kind == "V" for loop in place.loops) else 1
            steps = _operations(place.equation) / lanes
            inner = place.loops[-1].variable if place.loops else ""
            for access in dict.fromkeys(_moved(place.equation)):
                times = _times(access, place.loops) / max(1, runs)
                step = stride(access, inner, known[access.tensor].shape) if inner else 0
                steps += times * (_CPU_MISS if step is None or abs(step) > 1 else 1 / lanes)
            loops = sum(1 / max(1, prod(loop.extent for loop in place.loops[n + 1 :])) for n in range(len(place.loops)))
            unrolled = place.loops and place.loops[-1].kind in ("U", "V")
            work += runs * (steps + loops * (0.2 if unrolled else 1.0)) * _CPU_STEP
        memory = (nest.bytes_read + nest.bytes_written) / _CPU_MEMORY
        total += max(work / cores, memory) + _OVERLAP * min(work / cores, memory) + (_CPU_FORK if cores > 1 else 0.0)
    return total
