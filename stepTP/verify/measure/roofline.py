"""The least time in which a program can have run: what is faster than that was not measured, or did not do the work.

    bytes           every output element is written, and every input element that some nest reads is read: once at least
    multiply-adds   a term of a float sum or product that is accumulated: LLVM and CUDA's compiler keep each, since they
                    may not reorder floats. Other operations may be shared, hoisted or folded, and do not count

Both are lower bounds; what is not known exactly counts as 0. Bytes bound the time only where data comes from memory.
"""

from dataclasses import dataclass

from leir.analysis.access import tensors
from leir.analysis.cost import cost
from leir.analysis.footprint import iterations
from leir.analysis.kernels import BYTES
from leir.edit import accesses, expressions, walk_enclosed
from leir.syntax import Equation, Guard, Loop, Program
from stepTP.records import Roofline
from stepTP.verify.compare import significant
from stepTP.verify.measure.machine import Peaks


@dataclass(frozen=True, slots=True)
class Work:
    """What any execution of a program must do at least. `f32`: accumulated terms that are computed in f32; `f64`."""

    bytes: int
    f32: int
    f64: int


def least_work(program: Program) -> Work:
    """The least that the program's machine code does."""
    known = tensors(program)
    read: dict[str, int] = {}
    for nest in cost(program).nests:
        for traffic in nest.reads:
            if known[traffic.tensor].role == "input" and traffic.elements.exact:
                read[traffic.tensor] = max(read.get(traffic.tensor, 0), traffic.bytes)
    written = sum(_elements(d.shape) * BYTES[d.dtype] for d in program.outputs)
    counted = {"f32": 0, "f64": 0}
    for _, statement, around in walk_enclosed(program):
        match statement:
            case Equation(target, "+=" | "*=", _) if _is_used(program, target.tensor):
                dtype = known[target.tensor].dtype
                kind = "f64" if dtype == "f64" else "f32" if dtype in ("f16", "bf16", "f32") else None
                loops = {node.variable: node for node in around if isinstance(node, Loop)}
                runs = iterations(loops, tuple((node.condition, True) for node in around if isinstance(node, Guard)))
                if kind and runs.exact:
                    counted[kind] += runs.value
            case _:
                pass
    return Work(sum(read.values()) + written, counted["f32"], counted["f64"])


def roofline(work: Work, peaks: Peaks, median_s: float, *, cold: bool) -> Roofline:
    """The ceiling of a run that took `median_s` seconds. `cold`: its data came from memory."""
    memory = work.bytes / peaks.bytes_per_s if cold else None
    compute = max(work.f32 / peaks.f32_per_s, work.f64 / peaks.f64_per_s)
    ceiling = max(memory or 0.0, compute)
    return Roofline(
        bytes=work.bytes,
        accumulations=work.f32 + work.f64,
        memory_us=None if memory is None else significant(memory * 1e6),
        compute_us=significant(compute * 1e6),
        ceiling_us=significant(ceiling * 1e6),
        fraction=significant(ceiling / median_s),
        peak_bytes_per_s=significant(peaks.bytes_per_s),
        peak_f32_per_s=significant(peaks.f32_per_s),
        peaks_from=peaks.source,
    )


def is_impossible(found: Roofline) -> bool:
    """Whether the measured time is below the ceiling."""
    return found.fraction > 1.0


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _is_used(program: Program, tensor: str) -> bool:
    """Whether a tensor is an output or read: what is not, a compiler may leave out."""
    if any(declaration.tensor == tensor for declaration in program.outputs):
        return True
    values = (e for _, s, _ in walk_enclosed(program) for e in (expressions(s)[-1:] if isinstance(s, Equation) else ()))
    return any(access.tensor == tensor for value in values for access in accesses(value))
