"""What a program costs: iterations, work, traffic, reuse, parallelism and kernels, nest by nest.

Figures are counted, not estimated: footprints and iterations are exact where every subscript and condition is an
integer expression of loop variables, and otherwise upper bounds, which `Count.exact` tells apart. A *nest* is a
top-level statement. A *flop* is one float operation of the text: + - * / max min abs, a negation, a rounding, or the
operation of an accumulation; comparisons and index arithmetic are none. A *call* is an elementary function or `**`. The
two values of `if_then_else` count where their condition lets them run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from leir.analysis.access import Tensor, tensors
from leir.analysis.dependence import carries_dependence
from leir.analysis.footprint import Condition, Count, elements, iterations, touched
from leir.analysis.kernels import BYTES, kernels
from leir.analysis.types import is_float, type_of
from leir.edit import accesses, perfect_nest, walk_enclosed
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Program,
    Scope,
    Select,
    Stmt,
    Unary,
    operands,
)

_OPERATIONS = ("abs", "floor", "round", "max", "min")  # the functions that count as flops


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a nest does to one tensor in one direction: how often it is accessed, and how many elements that touches."""

    tensor: str
    dtype: DType
    scope: Scope
    accesses: Count
    elements: Count

    @property
    def bytes(self) -> int:
        """The footprint in bytes: what has to move at least once."""
        return self.elements.value * BYTES[self.dtype]

    @property
    def reuse(self) -> float:
        """Accesses per element touched."""
        return self.accesses.value / self.elements.value if self.elements.value else 0.0


@dataclass(frozen=True, slots=True)
class NestCost:
    """The cost of a top-level statement. `independent`: the loops around everything in it that carry no dependence;
    `parallel_iterations`: the product of their extents."""

    path: Path
    iterations: Count
    flops: Count
    calls: Count
    reads: tuple[Traffic, ...]
    writes: tuple[Traffic, ...]
    independent: tuple[Path, ...]
    parallel_iterations: int

    @property
    def bytes_read(self) -> int:
        """The footprint of all global tensors that it reads; an accumulation counts as a write."""
        return sum(traffic.bytes for traffic in self.reads if traffic.scope == "g")

    @property
    def bytes_written(self) -> int:
        return sum(traffic.bytes for traffic in self.writes if traffic.scope == "g")

    @property
    def exact(self) -> bool:
        """Whether every figure is a count and none an upper bound."""
        counts = [self.iterations, self.flops, self.calls]
        counts += [c for traffic in (*self.reads, *self.writes) for c in (traffic.accesses, traffic.elements)]
        return all(count.exact for count in counts)


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """`kernels`: how many there are in the text; `launches`: how often one starts, host loops counted."""

    nests: tuple[NestCost, ...]
    kernels: int
    launches: int

    @property
    def iterations(self) -> Count:
        return _total(nest.iterations for nest in self.nests)

    @property
    def flops(self) -> Count:
        return _total(nest.flops for nest in self.nests)

    @property
    def calls(self) -> Count:
        return _total(nest.calls for nest in self.nests)

    @property
    def bytes_read(self) -> int:
        """Summed over the nests: a tensor that two nests read counts twice."""
        return sum(nest.bytes_read for nest in self.nests)

    @property
    def bytes_written(self) -> int:
        return sum(nest.bytes_written for nest in self.nests)


def _total(counts: Iterator[Count]) -> Count:
    return sum(counts, start=Count(0, True))


@remembered
@lru_cache(maxsize=256)
def cost(program: Program) -> ProgramCost:
    """The cost of a well-formed program, nest by nest; allocations at top level are no nest."""
    known = tensors(program)
    nests: list[NestCost] = []
    for number, statement in enumerate(program.body):
        if isinstance(statement, Alloc):
            continue
        used = tuple(known[name] for name in dict.fromkeys(access.tensor for access in accesses(statement)))
        work = _work(statement, used)
        inside = _independent(replace(program, body=(statement,)))
        parallel = prod(loop.extent for path, loop in _outer_loops(statement) if path in inside)
        independent = tuple((number, *path[1:]) for path in inside)
        nests.append(NestCost((number,), *work, independent, parallel))
    found = list(kernels(program))
    launches = sum(prod(node.extent for node in kernel.host if isinstance(node, Loop)) for kernel in found)
    return ProgramCost(tuple(nests), len(found), launches)


def _outer_loops(statement: Stmt) -> list[tuple[Path, Loop]]:
    """The loops around everything in the only nest of a program, outside first."""
    return [(path, level) for path, level in perfect_nest(statement, (0,)) if isinstance(level, Loop)]


@lru_cache(maxsize=4096)
def _independent(nest: Program) -> tuple[Path, ...]:
    """The loops around everything in a program of one nest that carry no dependence; P, V and B loops claim it."""
    return tuple(
        path
        for path, loop in _outer_loops(nest.body[0])
        if loop.kind in ("P", "V", "B") or carries_dependence(nest, path) is None
    )


@lru_cache(maxsize=4096)
def _work(
    statement: Stmt, used: tuple[Tensor, ...]
) -> tuple[Count, Count, Count, tuple[Traffic, ...], tuple[Traffic, ...]]:
    """Iterations, flops, calls, reads and writes of a nest."""
    counting = _Counting({tensor.name: tensor for tensor in used})
    around = (statement,) if isinstance(statement, Loop | Guard) else ()
    placed = [((), statement, ()), *walk_enclosed(statement, (), around)]
    for _, inner, outside in placed:
        counting.statement(inner, outside)
    return (
        counting.iterations, counting.flops, counting.calls, counting.traffic(counting.reads),
        counting.traffic(counting.writes),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Use:
    loops: tuple[Loop, ...]
    conditions: tuple[Condition, ...]
    access: Access


class _Counting:
    """One walk over a nest that adds up what every execution of every part costs."""

    def __init__(self, known: dict[str, Tensor]) -> None:
        self.known = known
        self.dtypes: dict[str, DType] = {name: tensor.dtype for name, tensor in known.items()}
        self.iterations = self.flops = self.calls = Count(0, True)
        self.reads: dict[str, list[_Use]] = {}
        self.writes: dict[str, list[_Use]] = {}

    def statement(self, statement: Stmt, around: tuple[Loop | Guard, ...]) -> None:
        loops = tuple(node for node in around if isinstance(node, Loop))
        conditions = tuple((node.condition, True) for node in around if isinstance(node, Guard))
        match statement:
            case Equation(target, op, value):
                runs = self.runs(loops, conditions)
                self.iterations += runs
                if op != "=" and is_float(self.dtypes[target.tensor]):
                    self.flops += runs
                self.writes.setdefault(target.tensor, []).append(_Use(loops, conditions, target))
                for index in target.indices:
                    self.expression(index, loops, conditions)
                self.expression(value, loops, conditions)
            case Guard(condition):
                self.expression(condition, loops, conditions)
            case Loop() | Alloc():
                pass

    def runs(self, loops: tuple[Loop, ...], conditions: tuple[Condition, ...]) -> Count:
        return iterations({loop.variable: loop for loop in loops}, conditions)

    def expression(self, part: Expr, loops: tuple[Loop, ...], conditions: tuple[Condition, ...]) -> None:
        match part:
            case Select(condition, then, otherwise):
                self.expression(condition, loops, conditions)
                self.expression(then, loops, (*conditions, (condition, True)))
                self.expression(otherwise, loops, (*conditions, (condition, False)))
                return
            case Binary("&&" | "||" as op, left, right):
                self.expression(left, loops, conditions)
                self.expression(right, loops, (*conditions, (left, op == "&&")))
                return
            case Access(tensor):
                self.reads.setdefault(tensor, []).append(_Use(loops, conditions, part))
            case _:
                pass
        kind = type_of(part, self.dtypes)
        if isinstance(kind, str) and is_float(kind):
            match part:
                case Binary("+" | "-" | "*" | "/") | Unary("-"):
                    self.flops += self.runs(loops, conditions)
                case Call(function) if function in _OPERATIONS:
                    self.flops += self.runs(loops, conditions)
                case Binary("**") | Call():
                    self.calls += self.runs(loops, conditions)
                case _:
                    pass
        for inner in operands(part):
            self.expression(inner, loops, conditions)

    def traffic(self, uses: dict[str, list[_Use]]) -> tuple[Traffic, ...]:
        result: list[Traffic] = []
        for name, found in uses.items():
            tensor = self.known[name]
            runs = _total(self.runs(use.loops, use.conditions) for use in found)
            result.append(Traffic(name, tensor.dtype, tensor.scope, runs, _union(found, tensor.shape)))
        return tuple(result)


def _union(found: list[_Use], shape: tuple[int, ...]) -> Count:
    """The elements that any of several accesses touches."""
    import numpy as np

    different = list(dict.fromkeys(found))
    sizes = [elements({loop.variable: loop for loop in u.loops}, u.conditions, u.access, shape) for u in different]
    if len(different) == 1:
        return sizes[0]
    sets = [touched({loop.variable: loop for loop in u.loops}, u.conditions, u.access, shape) for u in different]
    if any(flat is None for flat in sets):
        return Count(min(sum(size.value for size in sizes), prod(shape)), False)
    return Count(len(np.unique(np.concatenate([flat for flat in sets if flat is not None]))), True)
