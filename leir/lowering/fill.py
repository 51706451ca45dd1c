"""Where accumulations start: the fills that a program implies, written out as equations.

A tensor whose first write is an accumulation is filled with the operator's identity on entry to each lifetime. Doing it
there is always right. It is cheaper deeper, next to the accumulation, and no difference can be seen as long as

- the first accumulation reaches every element that anything touches (so that none is left unfilled), and
- the loops around the fill touch different elements in different iterations (so that none is filled twice).

Both are decided on the subscripts as they are written: sums of variables with constant factors. Anything else is filled
on entry.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from leir.analysis.access import Tensor
from leir.analysis.affine import interval
from leir.analysis.types import identity
from leir.edit import accesses, enclosing, statement_at, statements_at, walk
from leir.lowering.linear import is_gapless, linear, occurs, span
from leir.lowering.names import Target
from leir.names import unused_variable
from leir.syntax import (
    Access,
    Alloc,
    Binary,
    Equation,
    Expr,
    Guard,
    Integer,
    Kind,
    Loop,
    Path,
    Program,
    Stmt,
    Variable,
)

THREADS_OF_A_FILL = 256
UNROLLED_FILL = 64  # elements of a thread's part, which unrolling keeps in registers


@dataclass(frozen=True, slots=True)
class _Use:
    """An access in a lifetime: the statement that makes it and the loops around it, from the lifetime's list down."""

    path: Path
    access: Access
    loops: tuple[Loop, ...]

    def ranges(self, depth: int = 0) -> dict[str, tuple[float, float]]:
        """The values of the variables that the loops from `depth` on bind."""
        return {loop.variable: (loop.first, loop.first + loop.extent - 1) for loop in self.loops[depth:]}


def with_fills(
    program: Program, tensors: Mapping[str, Tensor], target: Target, without: Collection[str] = ()
) -> Program:
    """The program with every implied fill as an equation, and the loops it needs, before what it must precede.

    `without`: tensors whose fill is left out, because something else stands for it.
    """
    insertions: dict[Path, list[Stmt]] = {}
    for name, (path, first) in _first_writes(program).items():
        if first.op == "=" or name in without:
            continue
        tensor = tensors[name]
        plan = _plan(program, tensor, path, first)
        value = identity(first.op, tensor.dtype)
        if plan.whole:
            statement = _whole(program, tensor, plan, value, target)
        else:
            statement = Equation(first.target, "=", value)
            for loop in reversed(plan.loops):
                if any(occurs(loop.variable, index) for index in first.target.indices):
                    statement = replace(loop, kind="L" if loop.kind == "P" else loop.kind, body=(statement,))
        insertions.setdefault(plan.place, []).append(statement)
    return replace(program, body=_inserted(program.body, (), insertions)) if insertions else program


def initial_values(program: Program, tensors: Mapping[str, Tensor]) -> dict[str, Expr]:
    """The tensors whose first accumulation may fill each element just before it first adds to it, with the values.

    That is where no other statement touches an element before the accumulation has.
    """
    result: dict[str, Expr] = {}
    for name, (path, first) in _first_writes(program).items():
        if first.op != "=" and _plan(program, tensors[name], path, first).starts_itself:
            result[name] = identity(first.op, tensors[name].dtype)
    return result


def _first_writes(program: Program) -> dict[str, tuple[Path, Equation]]:
    result: dict[str, tuple[Path, Equation]] = {}
    for path, statement in walk(program):
        if isinstance(statement, Equation):
            result.setdefault(statement.target.tensor, (path, statement))
    return result


def _inserted(body: tuple[Stmt, ...], path: Path, insertions: Mapping[Path, list[Stmt]]) -> tuple[Stmt, ...]:
    result: list[Stmt] = []
    for number, statement in enumerate(body):
        here = (*path, number)
        result += insertions.get(here, [])
        if isinstance(statement, Loop | Guard):
            statement = replace(statement, body=_inserted(statement.body, here, insertions))
        result.append(statement)
    return tuple(result)


@dataclass(frozen=True, slots=True)
class _Plan:
    """Where a fill goes: before the statement at `place`, of the `whole` tensor or as the equation in `loops`."""

    place: Path
    whole: bool
    loops: tuple[Loop, ...]
    uses: tuple[_Use, ...]
    starts_itself: bool


def _plan(program: Program, tensor: Tensor, path: Path, first: Equation) -> _Plan:
    local = tensor.alloc is not None and tensor.scope != "g"
    entry = (*tensor.alloc[:-1], tensor.alloc[-1] + 1) if local and tensor.alloc is not None else (0,)
    base = len(entry) - 1
    every = uses = _uses(program, tensor.name, path[:base])
    own = next(use for use in uses if use.path == path and use.access == first.target)
    guarded = any(isinstance(statement_at(program, path[:n]), Guard) for n in range(base + 1, len(path)))
    if guarded or not _covers(own, uses):
        return _Plan(entry, True, (), uses, False)
    depth = 0
    while True:
        child = path[: base + depth + 1]
        place = min(use.path[: len(child)] for use in uses)
        uses = tuple(use for use in uses if use.path[: len(child)] == child)
        if place < child or depth == len(own.loops) or not _separates(depth, uses):
            break
        depth += 1
    alone = place == child and all(use.path == path for use in uses)
    return _Plan(place, False, own.loops[depth:], every, alone)


def _uses(program: Program, name: str, parent: Path) -> tuple[_Use, ...]:
    """Every access to the tensor, in the order of the text, with the loops below `parent`."""
    return _uses_below(program, parent).get(name, ())


@lru_cache(maxsize=64)
def _uses_below(program: Program, parent: Path) -> dict[str, tuple[_Use, ...]]:
    """The accesses of all tensors below `parent`, by tensor."""
    found: dict[str, list[_Use]] = {}

    def note(node: Equation | Expr, path: Path, loops: tuple[Loop, ...]) -> None:
        for access in accesses(node):
            found.setdefault(access.tensor, []).append(_Use(path, access, loops))

    def visit(body: tuple[Stmt, ...], path: Path, loops: tuple[Loop, ...]) -> None:
        for number, statement in enumerate(body):
            here = (*path, number)
            match statement:
                case Loop():
                    visit(statement.body, here, (*loops, statement))
                case Guard(condition, inner):
                    note(condition, here, loops)
                    visit(inner, here, loops)
                case Equation():
                    note(statement, here, loops)
                case Alloc():
                    pass

    visit(statements_at(program, parent), parent, ())
    return {name: tuple(uses) for name, uses in found.items()}


def _covers(own: _Use, uses: tuple[_Use, ...]) -> bool:
    """Whether the elements of the use `own` are a box that holds those of every other use."""
    mine = own.ranges()
    seen: set[str] = set()
    for position, index in enumerate(own.access.indices):
        form = linear(index)
        if form is None:
            return False
        inner = {name: factor for name, factor in form.factors.items() if name in mine}
        if seen & inner.keys() or not is_gapless(inner, mine):
            return False
        seen |= inner.keys()
        low, high = span(form, inner, mine)
        outer = {name: factor for name, factor in form.factors.items() if name not in mine}
        for use in uses:
            ranges = use.ranges()
            other = linear(use.access.indices[position])
            if other is None:
                if outer:
                    return False
                a, b = interval(use.access.indices[position], ranges)
            else:
                if {name: factor for name, factor in other.factors.items() if name not in ranges} != outer:
                    return False
                a, b = span(other, {n: f for n, f in other.factors.items() if n in ranges}, ranges)
            if a < low or b > high:
                return False
    return True


def _separates(depth: int, uses: tuple[_Use, ...]) -> bool:
    """Whether the uses, all below one loop at `depth`, touch different elements in different iterations of it.

    They do if some subscript has one and the same factor for its variable in all of them, the same for everything
    bound further out, and the rest of it moves by less than that factor.
    """
    variable = uses[0].loops[depth].variable
    return any(_separates_by(position, variable, depth, uses) for position in range(len(uses[0].access.indices)))


def _separates_by(position: int, variable: str, depth: int, uses: tuple[_Use, ...]) -> bool:
    first: tuple[int, dict[str, int]] | None = None
    ends: list[float] = []
    for use in uses:
        form = linear(use.access.indices[position])
        if form is None:
            return False
        ranges = use.ranges(depth + 1)
        inner = {name: factor for name, factor in form.factors.items() if name in ranges}
        outer = {name: factor for name, factor in form.factors.items() if name not in ranges and name != variable}
        own = (form.factors.get(variable, 0), outer)
        if own[0] == 0 or (first is not None and first != own):
            return False
        first = own
        ends += span(form, inner, ranges)
    return first is not None and max(ends) - min(ends) < abs(first[0])


def _whole(program: Program, tensor: Tensor, plan: _Plan, value: Expr, target: Target) -> Stmt:
    """A fill of every element. On the GPU that of a global tensor is a kernel; of a local one, each thread's own."""
    if target == "cuda" and tensor.scope == "g" and tensor.shape:
        return _kernel(tensor, value)
    entry = plan.place
    around = {n.variable for _, n in enclosing(program, entry) if isinstance(n, Loop)}
    owners = thread_dimensions(tensor, plan.uses) if target == "cuda" else ()
    kind: Kind = "U" if owners and math.prod(tensor.shape[len(owners) :]) <= UNROLLED_FILL else "L"
    taken = around | {loop.variable for loop in owners}
    loops: list[Loop] = list(owners)
    for size in tensor.shape[len(owners) :]:
        variable = unused_variable(taken)
        taken.add(variable)
        loops.append(Loop(kind, variable, size, 0, ()))
    statement: Stmt = Equation(Access(tensor.name, tuple(Variable(loop.variable) for loop in loops)), "=", value)
    for loop in reversed(loops):
        statement = replace(loop, body=(statement,))
    return statement


def thread_dimensions(tensor: Tensor, uses: tuple[_Use, ...]) -> tuple[Loop, ...]:
    """The thread loops whose variables are the leading subscripts of every use, as loops wide enough for all uses.

    Only loops below the declaration count: a tensor declared inside a thread loop is that thread's already.
    """
    if tensor.scope != "l" or not uses:
        return ()
    result: list[Loop] = []
    for position in range(len(tensor.shape)):
        loops: list[Loop] = []
        for use in uses:
            index = use.access.indices[position]
            bound = {loop.variable: loop for loop in use.loops if loop.kind == "B" and loop.variable[0] == "t"}
            if not isinstance(index, Variable) or index.name not in bound:
                return tuple(result)
            loops.append(bound[index.name])
        axis = loops[0].variable[:2]
        if any(loop.variable[:2] != axis for loop in loops):
            return tuple(result)
        first = min(loop.first for loop in loops)
        result.append(Loop("B", loops[0].variable, max(loop.first + loop.extent for loop in loops) - first, first, ()))
    return tuple(result)


def owned_dimensions(program: Program, tensor: Tensor) -> int:
    """How many leading dimensions of a local tensor number its threads: each thread holds one part of the rest."""
    if tensor.alloc is None:
        return 0
    return len(thread_dimensions(tensor, _uses(program, tensor.name, tensor.alloc[:-1])))


def _kernel(tensor: Tensor, value: Expr) -> Stmt:
    """A kernel of one thread an element."""
    count = math.prod(tensor.shape)
    threads = min(count, THREADS_OF_A_FILL)
    offset: Expr = Binary("+", Binary("*", Variable("bx"), Integer(threads)), Variable("tx"))
    indices: list[Expr] = []
    stride = 1
    for size in reversed(tensor.shape):
        part = offset if stride == 1 else Binary("//", offset, Integer(stride))
        indices.insert(0, part if len(indices) == len(tensor.shape) - 1 else Binary("%", part, Integer(size)))
        stride *= size
    statement: Stmt = Equation(Access(tensor.name, tuple(indices)), "=", value)
    if count % threads:
        statement = Guard(Binary("<", offset, Integer(count)), (statement,))
    blocks = -(-count // threads)
    return Loop("B", "bx", blocks, 0, (Loop("B", "tx", threads, 0, (statement,)),))
