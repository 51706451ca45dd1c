"""The polyhedral model of a program: statement instances, their domains, their order, and what each touches.

A statement is an equation, or a guard whose condition reads tensors; an instance is one of its iterations, named by the
values of the loops around it. Domains are exact for quasi-affine guards; an opaque one counts as true where a set must
not be too small, as false where it must not be too large. Order is the 2d+1 schedule: list positions and loop values in
turn. Storage is a tensor's element together with the iteration of the loops around its declaration, so that two
lifetimes of one name never share anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from leir.analysis.affine import Interval, affine, condition, interval
from leir.edit import walk_with_enclosed
from leir.printer import expression_text
from leir.remembered import remembered
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Select,
    Stmt,
    operands,
)

Mode = Literal["read", "write", "update"]  # an update is an accumulation's target: read, then written
Condition = tuple[Expr, bool]  # an expression, and whether it is true or false


@dataclass(frozen=True, slots=True)
class Use:
    """One access of a statement. `conditions` are those under which lazy evaluation reaches it."""

    place: Place
    access: Access
    mode: Mode
    conditions: tuple[Condition, ...]
    op: AssignOp | None = None


@dataclass(frozen=True, slots=True)
class Statement:
    """`loops` and `guards` are those around it with their paths, outside first; `uses` in order of evaluation."""

    path: Path
    node: Equation | Guard
    loops: tuple[tuple[Path, Loop], ...]
    guards: tuple[tuple[Path, Guard], ...]
    uses: tuple[Use, ...]

    def dimensions(self, tag: str, shared: int = 0) -> list[str]:
        """Names of the loops' values; the first `shared` are called s0, s1, ... whatever the tag."""
        return [f"s{n}" if n < shared else f"{tag}{n}" for n in range(len(self.loops))]

    def names(self, tag: str, shared: int = 0) -> dict[str, str]:
        """From each loop variable in scope to the name of its value."""
        return {loop.variable: name for (_, loop), name in zip(self.loops, self.dimensions(tag, shared), strict=True)}


def statements_of(program: Program) -> tuple[Statement, ...]:
    """The statements of a program in the order of the text."""
    return _statements(program)


@remembered
@lru_cache(maxsize=256)
def _statements(program: Program) -> tuple[Statement, ...]:
    return tuple(s for number, nest in enumerate(program.body) for s in statements_at(nest, number))


@lru_cache(maxsize=2048)
def statements_at(nest: Stmt, number: int) -> tuple[Statement, ...]:
    """The statements of an outermost statement, the `number`th of its program."""
    return tuple(_statements_of(nest, (number,), (), ()))


def _statements_of(
    node: Stmt, here: Path, loops: tuple[tuple[Path, Loop], ...], guards: tuple[tuple[Path, Guard], ...]
) -> Iterator[Statement]:
    match node:
        case Equation():
            yield Statement(here, node, loops, guards, tuple(_uses(node, here)))
        case Guard(condition, body):
            found = tuple(_reads(condition, here, (0,), ()))
            if found:
                yield Statement(here, node, loops, guards, found)
            for number, below in enumerate(body):
                yield from _statements_of(below, (*here, number), loops, (*guards, (here, node)))
        case Loop():
            for number, below in enumerate(node.body):
                yield from _statements_of(below, (*here, number), (*loops, (here, node)), guards)
        case Alloc():
            pass


def _uses(node: Equation, path: Path) -> Iterator[Use]:
    for number, index in enumerate(node.target.indices):
        yield from _reads(index, path, (0, number), ())
    yield from _reads(node.value, path, (1,), ())
    yield Use(Place(path, (0,)), node.target, "write" if node.op == "=" else "update", (), node.op)


def _reads(expression: Expr, path: Path, within: Path, conditions: tuple[Condition, ...]) -> Iterator[Use]:
    """The accesses of an expression, subscripts before what they index, with the conditions that guard them."""
    for number, operand in enumerate(operands(expression)):
        inner = conditions
        match expression:
            case Binary("&&", left) if number == 1:
                inner = (*conditions, (left, True))
            case Binary("||", left) if number == 1:
                inner = (*conditions, (left, False))
            case Select(chosen) if number > 0:
                inner = (*conditions, (chosen, number == 1))
            case _:
                pass
        yield from _reads(operand, path, (*within, number), inner)
    if isinstance(expression, Access):
        yield Use(Place(path, within), expression, "read", conditions)


def bounds(statement: Statement, tag: str, shared: int = 0) -> list[str]:
    """isl constraints: every loop value stays in its loop."""
    return [
        f"{loop.first} <= {name} < {loop.first + loop.extent}"
        for name, (_, loop) in zip(statement.dimensions(tag, shared), statement.loops, strict=True)
    ]


def domain(statement: Statement, tag: str, shared: int = 0, *, opaque: bool = True, known: int = 0) -> list[str]:
    """isl constraints on the instances of a statement; opaque parts of the first `known` guards hold."""
    result = bounds(statement, tag, shared)
    for number, (path, guard) in enumerate(statement.guards):
        names = names_at(statement, path, tag, shared)
        result.append(condition(guard.condition, names, opaque=opaque or number < known))
    return result


def reach(
    statement: Statement, use: Use, tag: str, shared: int = 0, *, opaque: bool = True, known: int = 0
) -> list[str]:
    """isl constraints on the instances in which a statement evaluates an access."""
    names = statement.names(tag, shared)
    lazily = [condition(e, names, holds=holds, opaque=opaque) for e, holds in use.conditions]
    return [*domain(statement, tag, shared, opaque=opaque, known=known), *lazily]


def names_at(statement: Statement, path: Path, tag: str, shared: int = 0) -> dict[str, str]:
    """The variables that are in scope at a guard around the statement."""
    count = sum(1 for loop_path, _ in statement.loops if len(loop_path) < len(path))
    dimensions = statement.dimensions(tag, shared)
    return {loop.variable: dimensions[n] for n, (_, loop) in enumerate(statement.loops[:count])}


def subscripts(use: Use, names: dict[str, str]) -> list[str | None]:
    """The subscripts as isl text; None where one is opaque."""
    return [affine(index, names) for index in use.access.indices]


def element_text(access: Access, values: Mapping[str, int], opaque: Iterable[int] = ()) -> str:
    """The element that an access touches, as `C_{0,1}`, where loop variables have these values.

    `opaque` gives the values of opaque subscripts, in order. Empty where one of them is not known.
    """
    ranges: dict[str, Interval] = {name: (value, value) for name, value in values.items()}
    given = iter(opaque)
    indices: list[Expr] = []
    for index in access.indices:
        low, high = interval(index, ranges)
        value = low if low == high else next(given, -1)
        if value < 0:
            return ""
        indices.append(Integer(int(value)))
    return expression_text(Access(access.tensor, tuple(indices)))


def ranges_of(statement: Statement) -> dict[str, Interval]:
    """The interval of every loop variable in scope."""
    return {loop.variable: (loop.first, loop.first + loop.extent - 1) for _, loop in statement.loops}


def common_loops(first: Statement, second: Statement) -> int:
    """The number of loops around both."""
    count = 0
    for (a, _), (b, _) in zip(first.loops, second.loops, strict=False):
        if a != b:
            break
        count += 1
    return count


def lifetimes(program: Program) -> dict[str, int]:
    """For each allocated tensor, the number of loops around its declaration: their values name the lifetime."""
    result: dict[str, int] = {}
    for nest in program.body:
        for tensor, depth in lifetimes_at(nest):
            result.setdefault(tensor, depth)
    return result


@lru_cache(maxsize=4096)  # a step leaves most statements as they are
def lifetimes_at(nest: Stmt) -> tuple[tuple[str, int], ...]:
    """The same for the allocations of an outermost statement, in the order of the text."""
    return tuple(
        (node.tensor, sum(isinstance(level, Loop) for level in around))
        for _, node, around in walk_with_enclosed(nest)
        if isinstance(node, Alloc)
    )


def fills(program: Program) -> dict[str, AssignOp | None]:
    """For each tensor that is written: the operator whose identity fills it, None if its first write is a store."""
    return fills_of(statements_of(program))


def fills_of(statements: Iterable[Statement]) -> dict[str, AssignOp | None]:
    """The same for the tensors that some statements write, given in the order of the text."""
    result: dict[str, AssignOp | None] = {}
    for statement in statements:
        if isinstance(statement.node, Equation):
            op = statement.node.op
            result.setdefault(statement.node.target.tensor, None if op == "=" else op)
    return result


def time(statement: Statement, tag: str, shared: int = 0) -> list[str]:
    """The 2d+1 schedule: list positions and loop values in turn, outside first; a guard's read precedes its body."""
    dimensions = dict(zip((path for path, _ in statement.loops), statement.dimensions(tag, shared), strict=True))
    result: list[str] = []
    for length in range(1, len(statement.path) + 1):
        result.append(str(statement.path[length - 1]))
        if statement.path[:length] in dimensions:
            result.append(dimensions[statement.path[:length]])
    return [*result, "-1"] if isinstance(statement.node, Guard) else result
