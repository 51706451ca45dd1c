"""Every subscript stays within its tensor, with guards, branches and lazy `&&`, `||` taken into account.

An integer read inside a subscript or a guard is a dimension of its own, bounded by its type, by what its defining
equations can store, and by the guards around: so a guarded or clamped gather is proved like any other subscript. A
subscript that only inputs decide is a precondition instead.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from leir.analysis.access import Tensor, dtype_interval, tensors
from leir.analysis.affine import UNBOUNDED, Interval, affine, condition, interval
from leir.analysis.dependence import at, iteration
from leir.analysis.isl import TooHard, example, largest, left_over, question, smallest
from leir.analysis.model import Statement, Use, bounds, names_at, ranges_of, statements_at, statements_of
from leir.analysis.types import is_integer, type_of
from leir.check.diagnostic import Diagnostic
from leir.edit import accesses, tensors_in, variables_of
from leir.printer import expression_text
from leir.syntax import Access, Cast, DType, Equation, Expr, Path, Place, Program, Stmt

_INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Precondition:
    """The value of `subscript`, which reads the inputs `index`, is in low..high wherever `place` is reached.

    `place` is the subscript, number `dimension` of an access to `tensor`. `violated`: isl text of the set of loop
    values, values of the expressions `atoms`, and values of the subscript, where it is reached and out of range.
    """

    index: tuple[str, ...]
    subscript: Expr
    low: int
    high: int
    tensor: str
    dimension: int
    place: Place
    violated: str = field(default="", compare=False, repr=False)
    atoms: tuple[Expr, ...] = field(default=(), compare=False, repr=False)


def check_bounds(program: Program) -> Iterator[Diagnostic]:
    """A diagnostic for every subscript that leaves its tensor, or is not proven to stay."""
    for finding in _findings(program):
        if isinstance(finding, Diagnostic):
            yield finding


def preconditions(program: Program) -> tuple[Precondition, ...]:
    """What inputs must satisfy so that every gather stays within its tensor."""
    return tuple(finding for finding in _findings(program) if isinstance(finding, Precondition))


@lru_cache(maxsize=64)
def _findings(program: Program) -> tuple[Diagnostic | Precondition, ...]:
    known = _Values(program)
    result: list[Diagnostic | Precondition] = []
    plain = [_stays_within(nest, known.shapes(nest)) for nest in program.body]
    for statement in statements_of(program):
        for use in statement.uses if not plain[statement.path[0]] else ():
            for number, (index, size) in enumerate(zip(use.access.indices, known.shape(use), strict=False)):
                finding = _finding(known, statement, use, number, index, size)
                if finding is not None and finding not in result:
                    result.append(finding)
    return tuple(result)


@lru_cache(maxsize=2048)
def _stays_within(nest: Stmt, shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> bool:
    """Whether loop extents alone show that every subscript of an outermost statement stays within its tensor."""
    sizes = dict(shapes)
    for statement in statements_at(nest, 0):  # its place in the program does not matter here
        ranges = ranges_of(statement)
        for use in statement.uses:
            for index, size in zip(use.access.indices, sizes[use.access.tensor], strict=False):
                low, high = interval(index, ranges)
                if low < 0 or high >= size:
                    return False
    return True


class _Values:
    """What is known of the integers that a program's tensors hold."""

    def __init__(self, program: Program) -> None:
        self.tensors: dict[str, Tensor] = tensors(program)
        self.dtypes: dict[str, DType] = {name: tensor.dtype for name, tensor in self.tensors.items()}
        self.statements = statements_of(program)
        self.known: dict[str, Interval] = {}

    def shapes(self, nest: Stmt) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The shapes of the tensors of an outermost statement."""
        return tuple((name, self.tensors[name].shape) for name in tensors_in(nest))

    def shape(self, use: Use) -> tuple[int, ...]:
        return self.tensors[use.access.tensor].shape

    def is_sized(self, name: str, dimension: int) -> bool:
        """Whether a declaration, or a quasi-affine subscript, says how large a dimension is."""
        if self.tensors[name].role != "temporary" or self.tensors[name].alloc is not None:
            return True
        return any(
            affine(use.access.indices[dimension], statement.names("x")) is not None
            for statement in self.statements
            for use in statement.uses
            if use.access.tensor == name and len(use.access.indices) > dimension
        )

    def interval(self, expression: Expr, statement: Statement) -> Interval:
        """Where an integer expression of a statement stays."""
        ranges = ranges_of(statement)

        def of_opaque(part: Expr) -> Interval:
            match part:
                case Access(tensor):
                    return self.of_tensor(tensor)
                case Cast(dtype, operand):
                    least, most = dtype_interval(dtype)
                    if self.is_integer(operand):
                        low, high = interval(operand, ranges, of_opaque)
                        return (low, high) if least <= low and high <= most else (least, most)
                    return (least, most)
                case _:
                    return UNBOUNDED

        return interval(expression, ranges, of_opaque)

    def is_integer(self, expression: Expr) -> bool:
        return is_integer(type_of(expression, self.dtypes))

    def of_tensor(self, name: str) -> Interval:
        """The interval of what an integer tensor's elements hold: for a temporary, what its equations store."""
        tensor = self.tensors[name]
        if name not in self.known:
            whole = dtype_interval(tensor.dtype)
            self.known[name] = whole  # what its own equations may assume of it
            if tensor.role != "input":
                stored = [self.stored(statement) for statement in self.writers(name)]
                low = min((a for a, _ in stored), default=-_INFINITE)
                high = max((b for _, b in stored), default=_INFINITE)
                if whole[0] <= low and high <= whole[1]:
                    self.known[name] = (low, high)
        return self.known[name]

    def writers(self, name: str) -> list[Statement]:
        return [s for s in self.statements if isinstance(s.node, Equation) and s.node.target.tensor == name]

    def stored(self, statement: Statement) -> Interval:
        """The interval of what an equation stores; unbounded for accumulations and what is no integer."""
        node = statement.node
        assert isinstance(node, Equation)
        if node.op != "=" or not self.is_integer(node.value):
            return UNBOUNDED
        low, high = self.interval(node.value, statement)
        if not statement.guards and low > -_INFINITE and high < _INFINITE:
            return (low, high)
        atoms = _Atoms(self, statement)
        text = affine(node.value, statement.names("x"), atoms)
        if text is None:
            return (low, high)
        where = [*bounds(statement, "x"), *_conditions(self, statement, statement.uses[-1], atoms), f"v = {text}"]
        asked = question(["v", *statement.dimensions("x"), *atoms.names()], [*where, *atoms.limits()])
        try:
            least, most = smallest(asked, 0), largest(asked, 0)
        except TooHard:
            return (low, high)
        return (low if least is None else max(low, least), high if most is None else min(high, most))


class _Atoms:
    """Dimensions `z0`, `z1`, ... that stand for the values of opaque integer expressions in one instance."""

    def __init__(self, values: _Values, statement: Statement) -> None:
        self.values = values
        self.statement = statement
        self.found: dict[tuple[Expr, tuple[str | None, ...]], str] = {}

    def __call__(self, expression: Expr) -> str | None:
        if not self.values.is_integer(expression):
            return None
        names = self.statement.names("x")
        if isinstance(expression, Cast) and self.values.is_integer(expression.operand):
            least, most = dtype_interval(expression.dtype)
            low, high = self.values.interval(expression.operand, self.statement)
            if least <= low and high <= most:
                return affine(expression.operand, names, self)
        key = (expression, tuple(names.get(variable) for variable in sorted(variables_of(expression))))
        return self.found.setdefault(key, f"z{len(self.found)}")

    def names(self) -> list[str]:
        return list(self.found.values())

    def limits(self) -> list[str]:
        """isl constraints: each value stays in its interval. 64-bit ends say nothing that a question could need."""
        result: list[str] = []
        for (expression, _), name in self.found.items():
            low, high = self.values.interval(expression, self.statement)
            result += [f"{name} >= {int(low)}"] if low > -(2**62) else []
            result += [f"{name} <= {int(high)}"] if high < 2**62 else []
        return result


def _conditions(values: _Values, statement: Statement, use: Use, atoms: "_Atoms", *, opaque: bool = True) -> list[str]:
    """isl constraints from the guards around a statement and the conditions that reach an access."""
    result: list[str] = []
    for path, guard in statement.guards:
        keeps: Callable[[Expr], str | None] = _Unwritten(values, path, atoms)
        result.append(condition(guard.condition, names_at(statement, path, "x"), opaque=opaque, atoms=keeps))
    names = statement.names("x")
    result += [condition(e, names, holds=holds, opaque=opaque, atoms=atoms) for e, holds in use.conditions]
    return result


class _Unwritten:
    """Atoms for a guard: only of values that nothing below the guard overwrites before they are read again."""

    def __init__(self, values: _Values, guard: Path, atoms: _Atoms) -> None:
        below = (s.node for s in values.statements if s.path[: len(guard)] == guard)
        self.written = {node.target.tensor for node in below if isinstance(node, Equation)}
        self.atoms = atoms

    def __call__(self, expression: Expr) -> str | None:
        if any(access.tensor in self.written for access in accesses(expression)):
            return None
        return self.atoms(expression)


def _finding(
    values: _Values, statement: Statement, use: Use, number: int, index: Expr, size: int
) -> Diagnostic | Precondition | None:
    low, high = values.interval(index, statement)
    if low >= 0 and high < size:
        return None
    atoms = _Atoms(values, statement)
    text = affine(index, statement.names("x"), atoms)
    in_subscript = tuple(expression for expression, _ in atoms.found)
    where = [*bounds(statement, "x"), *_conditions(values, statement, use, atoms), *atoms.limits()]
    dimensions = [*statement.dimensions("x"), *atoms.names(), "v"]
    place = Place(use.place.path, (*(use.place.within or ()), number))
    shown = f"subscript {number + 1} of {expression_text(use.access)}"
    outside = f"outside 0..{size - 1}, the range of {use.access.tensor}"
    if text is None:
        return Diagnostic("bounds-not-proven", f"{shown} is not quasi-affine: it may be {outside}", place)
    violated = question(dimensions, [*where, f"v = {text}", f"(v < 0 or v >= {size})"])
    try:
        point = example(violated)
    except TooHard as reason:
        return Diagnostic("bounds-not-proven", f"{shown} is too hard to bound ({reason}): it may be {outside}", place)
    if point is None:
        return None
    when, read = at(iteration(statement, point)), _inputs_that_decide(values, index)
    if read and values.is_sized(use.access.tensor, number):
        hopeless = _hopeless(values, statement, use, text, size, atoms)
        if hopeless is not None:
            names = ", ".join(read)
            reason = f"{shown} is {outside}{at(iteration(statement, hopeless))}, whatever {names} holds"
            return Diagnostic("gather-out-of-range", reason, place)
        return Precondition(
            read, index, 0, size - 1, use.access.tensor, number, place, violated, tuple(e for e, _ in atoms.found)
        )
    if in_subscript:
        chosen = zip(in_subscript, point[len(statement.loops) :], strict=False)
        parts = ", ".join(f"{expression_text(e)} = {v}" for e, v in chosen)
        code = "gather-out-of-range" if any(True for _ in accesses(index)) else "bounds-not-proven"
        advice = "" if values.is_sized(use.access.tensor, number) else "; declare the size"
        return Diagnostic(code, f"{shown} may be {point[-1]}{when} with {parts}, {outside}{advice}", place)
    if _is_exact(statement, use):
        return Diagnostic("out-of-bounds", f"{shown} is {point[-1]}{when}, {outside}", place)
    reason = f"{shown} may be {point[-1]}{when}, {outside}: a condition around it is not quasi-affine"
    return Diagnostic("bounds-not-proven", reason, place)


def _hopeless(
    values: _Values, statement: Statement, use: Use, subscript: str, size: int, atoms: _Atoms
) -> tuple[int, ...] | None:
    """An iteration that reaches a subscript out of range whatever its atoms are; None where isl finds none."""
    reached = _conditions(values, statement, use, atoms, opaque=False)
    limits = atoms.limits()
    kept = f"0 <= {subscript} < {size}"
    unreached = " or ".join(f"not ({text})" for text in reached if text != "true")
    dimensions = statement.dimensions("x")
    some = question([*dimensions, *atoms.names()], [*limits, f"({kept} or {unreached})" if unreached else kept])
    try:
        return left_over(question(dimensions, bounds(statement, "x")), some, len(atoms.names()))
    except TooHard:
        return None


def _inputs_that_decide(values: _Values, index: Expr) -> tuple[str, ...]:
    """The inputs that a subscript reads; none where it reads anything else."""
    read = tuple(dict.fromkeys(access.tensor for access in accesses(index)))
    return read if all(values.tensors[name].role == "input" for name in read) else ()


def _is_exact(statement: Statement, use: Use) -> bool:
    names = statement.names("x")
    return all(
        condition(e, names, holds=holds) == condition(e, names, holds=holds, opaque=False)
        for e, holds in [*((guard.condition, True) for _, guard in statement.guards), *use.conditions]
    )
