"""Moves a temporary between global, shared and local memory, its declaration with it.

    Before    K^{n}_{x}[...T_{x,e}=...; ...T_{x,e}...]
    After     K^{n}_{x}[T^{t,l}_{m};...T_{e}=...; ...T_{e}...]

The declaration goes to the head of a list of statements that holds every access: for `l` the innermost one; for `s` the
innermost outside the thread loops; for `g` the program's own, and none is written where an undeclared tensor is the
same. To a list further out, the tensor gains one leading dimension for each loop in between, so that what were
lifetimes, or threads, keep their own elements. To a list further in, it loses the dimensions that are provably constant
within a lifetime: one subscript everywhere, of outer loops only.

Legal when: every read still finds the value of the same write, that is, no value crosses the new lifetime; a list of
the right kind holds all accesses; the tensor fits. That threads share a tensor only through `s`, and that each owns its
part of an `l` tensor, is proved again.

Pays when: a value is used soon after it is made and by the same thread (registers), or by the threads of one block
(shared memory): neither needs a trip through global memory, nor space for all iterations at once. The way outward frees
a value for a step that needs it elsewhere.

Inverse: set_storage_scope.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

from leir.analysis.access import Tensor, tensors
from leir.analysis.kernels import BYTES
from leir.analysis.placement import list_for, statements_using
from leir.edit import (
    accesses,
    enclosing,
    expressions,
    insert_at,
    iterations_around,
    loops_around,
    map_statement,
    replace_at,
    statement_at,
    statements_at,
    variables_of,
)
from leir.printer import header_text
from leir.syntax import SCOPES, Access, Alloc, Expr, Guard, Loop, Path, Program, Scope, Stmt, Variable
from strategies.base import BitExact, Fact, Level, Strategy, flow_preserved, listed, path_text, same_loops

WORDS = {"g": "global memory", "s": "shared memory", "l": "local memory"}
LARGEST = 2**31 - 1  # elements of a tensor


class SetStorageScope(Strategy):
    name: ClassVar[str] = "set_storage_scope"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "All {uses} statements that touch {tensor} stand below {header}, and no value of it is needed from one "
        "iteration of these loops to the next: {to} is enough for it.",
        "{tensor} takes {bytes} in {source} for values that live no longer than one pass through {header}.",
        "{tensor} is {shape} in {source}. In {to}, another choice of loops or of storage may become possible for the "
        "{uses} statements that touch it.",
        "{uses} statements touch {tensor}, {shape} of {dtype}; {source} is not the only memory that can hold them.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{tensor} moves from {source} to {to}: {shape} becomes {new_shape}. {declaration}",
        "What was {shape} in {source} is now {new_shape} in {to}, in every one of the {uses} statements. {declaration}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "Its storage goes from {bytes} to {new_bytes}. Every read still finds the value of the same write, so "
        "the results keep every bit.",
        "{touches} accesses of {tensor} now go to {to} instead of {source}. No value changes, and no rounding.",
    )

    tensor: str
    scope: Scope

    @classmethod
    def candidates(cls, program: Program) -> Iterator["SetStorageScope"]:
        for tensor in tensors(program).values():
            for scope in SCOPES:
                movable = tensor.role == "temporary" and scope != tensor.scope
                if movable and list_for(program, tensor.name, scope) is not None:
                    yield cls(tensor=tensor.name, scope=scope)

    def facts(self, program: Program) -> Iterator[Fact]:
        from leir.check import Limits  # the analyses behind it are slow to import: listing strategies does without

        tensor = tensors(program).get(self.tensor)
        role = tensor.role if tensor else "not a tensor of the program"
        yield Fact("tensor-is-a-temporary", role == "temporary", f"{self.tensor} is {role}")
        assert tensor is not None
        yield Fact("scope-is-another", tensor.scope != self.scope, f"{self.tensor} is {tensor.scope}")
        place = list_for(program, self.tensor, self.scope)
        uses = listed([path_text(path) for path in dict.fromkeys(statements_using(program, self.tensor))])
        where = f"the list at {path_text(place)}" if place is not None else f"no list for {self.scope}"
        yield Fact("accesses-share-a-list", place is not None, f"{where} holds every access: {uses}")
        assert place is not None
        size = math.prod(_Move(program, tensor, place).shape)
        limits = Limits()
        largest, owner = {
            "g": (LARGEST, "a tensor"),
            "s": (limits.shared_bytes // BYTES[tensor.dtype], "the shared memory of a block"),
            "l": (limits.local_bytes // BYTES[tensor.dtype], "the local memory of a thread"),
        }[self.scope]
        yield Fact("size-fits", size <= largest, f"{size} elements of {tensor.dtype}, {owner} holds {largest}")
        after = self.rewrite(program)
        yield flow_preserved(program, after, same_loops(program, after))

    def rewrite(self, program: Program) -> Program:
        tensor = tensors(program)[self.tensor]
        place = list_for(program, self.tensor, self.scope)
        assert place is not None
        move = _Move(program, tensor, place)
        after = Program(program.inputs, program.outputs, tuple(map_statement(s, move.access) for s in program.body))
        if tensor.alloc is not None:
            after = replace_at(after, tensor.alloc)
            place = _after_removal(place, tensor.alloc)
        if self.scope == "g":
            undeclared = tensors(after)[self.tensor]
            if (undeclared.dtype, undeclared.shape) == (tensor.dtype, move.shape):
                return after
        leading = 0
        while isinstance(statements_at(after, place)[leading], Alloc):
            leading += 1
        return insert_at(after, (*place, leading), Alloc(self.tensor, tensor.dtype, self.scope, move.shape))

    def terms(self, before: Program, after: Program) -> dict[str, str]:
        old, new = tensors(before)[self.tensor], tensors(after)[self.tensor]
        using = list(dict.fromkeys(statements_using(before, self.tensor)))
        result = {
            "tensor": self.tensor,
            "dtype": old.dtype,
            "source": WORDS[old.scope],
            "to": WORDS[new.scope],
            "shape": _shape_text(old),
            "new_shape": _shape_text(new),
            "bytes": _size_text(old),
            "new_bytes": _size_text(new),
            "uses": str(len(using)),
            "declaration": "It needs no declaration: undeclared tensors are global."
            if new.alloc is None
            else f"It is declared at {path_text(new.alloc)}, ahead of the statements that use it.",
        }
        place = list_for(before, self.tensor, self.scope)
        if place and len(place) > len(old.alloc or (0,)) - 1:
            result["header"] = header_text(node for _, node in enclosing(before, (*place, 0)))
        counts = [
            _accesses_in(statement_at(before, path), self.tensor) * iterations_around(before, path) for path in using
        ]
        guarded = any(isinstance(node, Guard) for path in using for _, node in enclosing(before, path))
        result["touches"] = f"{'Up to ' if guarded else ''}{sum(counts)}"
        return result


class _Move:
    """What becomes of a tensor's shape and subscripts when its declaration moves to the list at `place`."""

    def __init__(self, program: Program, tensor: Tensor, place: Path) -> None:
        self.tensor = tensor.name
        home = tensor.alloc[:-1] if tensor.alloc else ()
        between = [n for p, n in enclosing(program, (*home, 0)) if len(p) > len(place) and isinstance(n, Loop)]
        self.added = [(loop.variable, loop.first + loop.extent) for loop in between]
        self.kept = list(range(len(tensor.shape)))
        if len(place) > len(home):
            around = {loop.variable for loop in loops_around(program, (*place, 0))}
            self.kept = [n for n in self.kept if not _is_constant(program, tensor.name, n, around)]
        self.shape = (*(size for _, size in self.added), *(tensor.shape[n] for n in self.kept))

    def access(self, expression: Expr) -> Expr:
        if not isinstance(expression, Access) or expression.tensor != self.tensor:
            return expression
        added = tuple(Variable(variable) for variable, _ in self.added)
        return Access(self.tensor, (*added, *(expression.indices[n] for n in self.kept)))


def _is_constant(program: Program, tensor: str, dimension: int, around: set[str]) -> bool:
    """Whether a subscript is one expression of the given loops in every access, and reads no tensor."""
    used = list(dict.fromkeys(a.indices[dimension] for a in accesses(program) if a.tensor == tensor))
    return len(used) == 1 and variables_of(used[0]) <= around and not any(accesses(used[0]))


def _accesses_in(statement: Stmt, tensor: str) -> int:
    return sum(a.tensor == tensor for expression in expressions(statement) for a in accesses(expression))


def _shape_text(tensor: Tensor) -> str:
    return f"{'x'.join(map(str, tensor.shape))} elements" if tensor.shape else "one element"


def _size_text(tensor: Tensor) -> str:
    owner = {"g": "", "s": " a block", "l": " a thread"}[tensor.scope]
    return f"{math.prod(tensor.shape) * BYTES[tensor.dtype]} bytes{owner}"


def _after_removal(place: Path, removed: Path) -> Path:
    """The path of a list once the statement at `removed`, which is not above it, is gone."""
    level = len(removed) - 1
    if len(place) > level and place[:level] == removed[:-1] and place[level] > removed[-1]:
        return (*place[:level], place[level] - 1, *place[level + 1 :])
    return place
