"""Moves a temporary between global, shared and local memory, its declaration with it.

    Before    K^{n}_{x}[...T_{x,e}=...; ...T_{x,e}...]
    After     K^{n}_{x}[T^{t,l}_{m};...T_{e}=...; ...T_{e}...]

The declaration goes to the head of a list of statements that holds every access: for `l` the innermost one; for `s` the
innermost outside the thread loops; for `g` the program's own, and none is written where an undeclared tensor is the
same. To a list further out, the tensor gains one leading dimension for each loop in between, so that what were
lifetimes, or threads, keep their own elements. To a list further in, it loses the dimensions that are provably constant
within a lifetime: one subscript everywhere, of outer loops only.

Legal when: something accesses the tensor; every read still finds the value of the same write, that is, no value crosses
the new lifetime; a list of the right kind holds all accesses; the tensor fits. That threads share a tensor only through
`s`, and that each owns its part of an `l` tensor, is proved again.

Pays when: a value is used soon after it is made and by the same thread (registers), or by the threads of one block
(shared memory): neither needs a trip through global memory, nor space for all iterations at once. The way outward frees
a value for a step that needs it elsewhere.

Leads to: loop_unrolling, operator_fission.

Inverse: set_storage_scope.
"""

import math
from collections.abc import Iterable, Iterator
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
    walk,
    walk_expression,
)
from leir.printer import expression_text, header_text
from leir.syntax import (
    SCOPES,
    Access,
    Alloc,
    Binary,
    Equation,
    Expr,
    Guard,
    Loop,
    Path,
    Program,
    Scope,
    Select,
    Stmt,
    Variable,
    reads,
)
from strategies.base import BitExact, Fact, Level, Strategy, flow_preserved, listed, path_text, same_loops
from strategies.memories import WORDS, capacity, role_text, room_text


class SetStorageScope(Strategy):
    name: ClassVar[str] = "set_storage_scope"
    level: ClassVar[Level] = "memory"
    bit_exact: ClassVar[BitExact] = "always"
    choice: ClassVar[tuple[str, ...]] = (
        "{tensor} is {used}, always in one iteration of {header}: {bytes} in {source} for values that live no longer "
        "than that. {To} is enough for it.",
        "No iteration of {header} needs a value of {tensor} from another, yet {tensor} has {shape} in {source}; "
        "{fewer} in {to} will do.",
        "{tensor} lives in {source}, anew in each iteration of {lifetime}. In {to} every iteration has elements of its "
        "own, so that no storage ties the writes at {writers} and the reads at {readers} to one iteration.",
        "{tensor} is {used}, and takes {bytes} in {source}; {to} can hold it too.",
    )
    change: ClassVar[tuple[str, ...]] = (
        "{tensor} moves from {source} to {to}: from {shape} to {new_shape}. {declaration}",
        "{tensor} moves from {source} to {to}, with {same_shape} as before. {declaration}",
        "In {uses}, {access} becomes {new_access}: {new_shape} in {to} instead of {shape} in {source}. {declaration}",
    )
    effect: ClassVar[tuple[str, ...]] = (
        "The storage of {tensor} goes from {bytes} to {new_bytes}. Every read still finds the value of the same write, "
        "so the results keep every bit.",
        "{touches} accesses of {tensor} now go to {to} instead of {source}. No value changes, and no rounding.",
    )

    tensor: str
    scope: Scope

    @classmethod
    def candidates(cls, program: Program) -> Iterator["SetStorageScope"]:
        used = {a.tensor for _, node in walk(program) for expression in expressions(node) for a in accesses(expression)}
        for tensor in tensors(program).values():
            for scope in SCOPES:
                movable = tensor.role == "temporary" and tensor.name in used and scope != tensor.scope
                if movable and list_for(program, tensor.name, scope) is not None:
                    yield cls(tensor=tensor.name, scope=scope)

    def facts(self, program: Program) -> Iterator[Fact]:
        tensor = tensors(program).get(self.tensor)
        is_own = tensor is not None and tensor.role == "temporary"
        yield Fact("tensor-is-a-temporary", is_own, role_text(program, self.tensor))
        assert tensor is not None
        evidence = f"{self.tensor} is in {WORDS[tensor.scope]}"
        yield Fact("scope-is-another", tensor.scope != self.scope, evidence)
        place = list_for(program, self.tensor, self.scope)
        using = tuple(statements_using(program, self.tensor))
        where = f"{self.tensor} is accessed at {_paths_text(using)}" if using else f"nothing accesses {self.tensor}"
        yield Fact("tensor-is-accessed", bool(using), where)
        where = f"no list for {WORDS[self.scope]} holds" if place is None else f"{_list_text(program, place)} hold"
        yield Fact("accesses-share-a-list", place is not None, f"{where} every access of {self.tensor}")
        assert place is not None
        size, largest = math.prod(_Move(program, tensor, place).shape), capacity(self.scope, tensor.dtype)
        yield Fact("size-fits", size <= largest, room_text(self.tensor, size, self.scope, tensor.dtype))
        after = self.rewrite(program)
        yield flow_preserved(program, after, same_loops(program, after), because=self._lifetime_text(program, after))

    def _lifetime_text(self, before: Program, after: Program) -> str:
        """How long a value lives that the narrower of the two declarations allows."""
        narrow = max((before, after), key=lambda p: len(tensors(p)[self.tensor].alloc or ()))
        alloc = tensors(narrow)[self.tensor].alloc or ()
        header = header_text(node for _, node in enclosing(narrow, alloc)) if len(alloc) > 1 else ""
        return f"no value of {self.tensor} passes from one iteration of {header} to another" if header else ""

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
        writers = [p for p in using if _writes(statement_at(before, p), self.tensor)]
        readers = [p for p in using if _reads(statement_at(before, p), self.tensor)]
        read = f"read at {_paths_text(readers)}" if readers else "never read"
        result = {
            "tensor": self.tensor,
            "source": WORDS[old.scope],
            "to": WORDS[new.scope],
            "To": WORDS[new.scope].capitalize(),
            "bytes": _size_text(old),
            "new_bytes": _size_text(new),
            "writers": _paths_text(writers),
            "readers": _paths_text(readers) if readers else "no place",
            "used": f"written at {_paths_text(writers)} and {read}",
            "declaration": f"{self.tensor} needs no declaration: undeclared tensors are global."
            if new.alloc is None
            else f"{self.tensor} is declared at {path_text(new.alloc)}, ahead of the statements that use it.",
        }
        if _shape_text(old) == _shape_text(new):
            result["same_shape"] = _shape_text(old)
        else:
            result |= {"shape": _shape_text(old), "new_shape": _shape_text(new)}
        if math.prod(new.shape) < math.prod(old.shape):
            result["fewer"] = _shape_text(new)
        place = list_for(before, self.tensor, self.scope)
        home = len(old.alloc or (0,)) - 1
        if place and len(place) > home:
            result["header"] = header_text(node for _, node in enclosing(before, (*place, 0)))
        elif self.scope == "g" and home and readers:
            result["lifetime"] = header_text(node for _, node in enclosing(before, old.alloc or ()))
        accessed, moved = (
            list(dict.fromkeys(a for a in accesses(p) if a.tensor == self.tensor)) for p in (before, after)
        )
        if accessed != moved and len(accessed) == 1:
            result["access"], result["new_access"] = expression_text(accessed[0]), expression_text(moved[0])
            result["uses"] = "the statement" if len(using) == 1 else f"its {len(using)} statements"
        counts = [
            _accesses_in(statement_at(before, path), self.tensor) * iterations_around(before, path) for path in using
        ]
        maybe = any(isinstance(node, Guard) for path in using for _, node in enclosing(before, path))
        maybe |= any(
            _has_choice(expression) for path in using for expression in expressions(statement_at(before, path))
        )
        result["touches"] = f"{'Up to ' if maybe else ''}{sum(counts)}"
        return result


def _paths_text(paths: Iterable[Path]) -> str:
    return listed(path_text(path) for path in dict.fromkeys(paths))


def _list_text(program: Program, place: Path) -> str:
    """The list of statements at a path, in words that `hold` can follow."""
    if not place:
        return "the statements of the program"
    return f"the statements below {header_text(node for _, node in enclosing(program, (*place, 0)))}"


def _has_choice(expression: Expr) -> bool:
    """Whether a part of an expression may not be computed."""
    parts = (part for _, part in walk_expression(expression))
    return any(isinstance(part, Select) or (isinstance(part, Binary) and part.op in ("&&", "||")) for part in parts)


def _writes(statement: Stmt, tensor: str) -> bool:
    return isinstance(statement, Equation) and statement.target.tensor == tensor


def _reads(statement: Stmt, tensor: str) -> bool:
    """Whether a statement reads a tensor, other than to accumulate into it."""
    match statement:
        case Equation(target, _, value):
            return any(reads(part, tensor) for part in (*target.indices, value))
        case Guard(condition):
            return reads(condition, tensor)
        case Loop() | Alloc():
            return False


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
    return f"{'x'.join(map(str, tensor.shape))} elements" if math.prod(tensor.shape) > 1 else "one element"


def _size_text(tensor: Tensor) -> str:
    owner = {"g": "", "s": " a block", "l": " a thread"}[tensor.scope]
    return f"{math.prod(tensor.shape) * BYTES[tensor.dtype]} bytes{owner}"


def _after_removal(place: Path, removed: Path) -> Path:
    """The path of a list once the statement at `removed`, which is not above it, is gone."""
    level = len(removed) - 1
    if len(place) > level and place[:level] == removed[:-1] and place[level] > removed[-1]:
        return (*place[:level], place[level] - 1, *place[level + 1 :])
    return place
