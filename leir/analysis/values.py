"""What values an expression can take at its place, given the bounds of the tensors: one walk up the tree.

Loops bound their variables, and guards, conditions of `if_then_else` and the left sides of `&&` and `||` bound what
stands behind them. `leir.analysis.ranges` finds the bounds of the tensors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from leir.analysis import elementary, intervals
from leir.analysis.box import moving
from leir.analysis.intervals import Range, convert, everything, join, span
from leir.analysis.matching import MIRRORED
from leir.analysis.maxima import is_term_of_maximum
from leir.analysis.spelling import same_spelling
from leir.analysis.types import COMPARISONS, NEGATED, Kinds, Weak, computing_type, is_float, promote, strong
from leir.edit import accesses, enclosing, expressions, statement_at, walk
from leir.printer import expression_text
from leir.syntax import (
    Access,
    Binary,
    BinaryOp,
    Call,
    Cast,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Place,
    Program,
    Real,
    Select,
    Unary,
    Variable,
    operands,
)


class NotYet(Exception):
    """A tensor is read whose bounds are still being found, and of which no value is known so far."""


Known = dict[Expr, Range]  # what conditions and loops around an expression say about its parts


@dataclass(frozen=True, slots=True)
class Write:
    """An equation, with the loops and guards around it."""

    path: Path
    equation: Equation
    around: tuple[Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The bounds of a program's tensors. `whole`: what any read may see. `settled`: what a read sees that comes after
    all writes of the tensor's lifetime, when no accumulation is half done and no fill is seen."""

    program: Program
    dtypes: Mapping[str, DType]
    whole: dict[str, Range]
    settled: dict[str, Range]
    writes: dict[str, tuple[Write, ...]]
    allocs: dict[str, Path]
    known: dict[Path, Known] = field(default_factory=dict[Path, Known])  # a cache
    found: dict[tuple[int, int, Path], tuple[Expr, Known, Range]] = field(
        default_factory=dict[tuple[int, int, Path], tuple[Expr, Known, Range]]
    )  # a cache by the identity of an expression and of what is known, both kept alive here
    kinds: Kinds = field(init=False)
    reasons: dict[str, str] = field(default_factory=dict[str, str])  # why a tensor's bounds hold, beyond its writes
    pending: set[str] = field(default_factory=set[str])  # tensors without a value yet, while the rounds run

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", Kinds(self.dtypes))

    def at(self, place: Place) -> Range:
        """The values of the expression at a place. Raises LookupError where there is none."""
        node, known = self.reached(place)
        return value_of(node, known, self, place.path)

    def of(self, expression: Expr, path: Path) -> Range:
        """The values of an expression, were it evaluated by the statement at `path`."""
        return value_of(expression, self.around(path), self, path)

    def reached(self, place: Place) -> tuple[Expr, Known]:
        """The expression at a place and what is known where it is evaluated. Raises LookupError where there is none."""
        if not place.within:
            raise LookupError(f"{place} is not the place of an expression")
        statement = statement_at(self.program, place.path)
        below = expressions(statement)
        if place.within[0] >= len(below):
            raise LookupError(f"no expression at {place}")
        known = self.around(place.path)
        node = below[place.within[0]]
        for number in place.within[1:]:
            node, known = _child(node, number, known, self, place.path)
        return node, known

    def around(self, path: Path) -> Known:
        """What the loops and guards around the statement at `path` say."""
        if path not in self.known:
            around = tuple(node for _, node in enclosing(self.program, path))
            self.known[path] = known_inside(around, self, path)
        return self.known[path]

    def forget(self) -> None:
        """Empties the caches: the bounds of a tensor have moved."""
        self.known.clear()
        self.found.clear()

    def read(self, access: Access, path: Path) -> Range:
        """What the statement at `path` may find in an element."""
        tensor = access.tensor
        if tensor in self.pending:
            raise NotYet
        table = self.settled if self.is_settled(access, path) else self.whole
        return table.get(tensor) or everything(computing_type(self.dtypes.get(tensor, "f32")))

    def is_settled(self, access: Access, path: Path) -> bool:
        """Whether all writes of the element, in its lifetime, come before the statement at `path`."""
        written = self.writes.get(access.tensor, ())
        depth = len(self.allocs[access.tensor]) - 1 if access.tensor in self.allocs else 0
        return bool(written) and all(_is_done(write, access, path, depth) for write in written)


def _is_done(write: Write, access: Access, path: Path, depth: int) -> bool:
    """Whether a write of the element comes before the statement at `path`, in the same iteration of the loops around
    both: those inside the lifetime, `depth` levels down, number elements."""
    common = 0
    while common < min(len(write.path), len(path)) and write.path[common] == path[common]:
        common += 1
    if not depth <= common < min(len(write.path), len(path)) or write.path[common] > path[common]:
        return False
    same = {moving(a) for a, b in zip(write.equation.target.indices, access.indices, strict=False) if a == b}
    loops = (level for level in write.around[depth:common] if isinstance(level, Loop))
    return all(loop.variable in same for loop in loops)


def known_inside(around: tuple[Loop | Guard, ...], table: Ranges, path: Path) -> Known:
    """What the loops and guards around a statement say: bounds of variables, and conditions that hold.

    A condition that reads a tensor written below its guard says nothing: the tensor may have changed since.
    """
    known: Known = {}
    for node in around:
        if isinstance(node, Loop):
            known[Variable(node.variable)] = span(node.first, node.first + node.extent - 1, "i64")
            continue
        written = {s.target.tensor for _, s in walk(node) if isinstance(s, Equation)}
        known = refine(known, node.condition, True, table, path, frozenset(written))
    return known


def _child(node: Expr, number: int, known: Known, table: Ranges, path: Path) -> tuple[Expr, Known]:
    """A child of an expression and what is known where it is evaluated."""
    if not 0 <= number < len(operands(node)):
        raise LookupError(f"no child {number} below {expression_text(node)}")
    match node:
        case Select(condition) if number > 0:
            known = refine(known, condition, number == 1, table, path)
        case Binary("&&" | "||" as op, left) if number == 1:
            known = refine(known, left, op == "&&", table, path)
        case _:
            pass
    return operands(node)[number], known


def refine(
    known: Known, condition: Expr, holds: bool, table: Ranges, path: Path, unstable: frozenset[str] = frozenset()
) -> Known:
    """What is known once a condition holds, or does not; nothing about expressions that read an `unstable` tensor."""
    match condition:
        case Unary("!", operand):
            return refine(known, operand, not holds, table, path, unstable)
        case Binary("&&" | "||" as op, left, right):
            if (op == "&&") != holds:
                return known
            return refine(refine(known, left, holds, table, path, unstable), right, holds, table, path, unstable)
        case Binary("<" | "<=" | ">" | ">=" | "==" | "!=" as op, left, right):
            effective = op if holds else NEGATED[op]
            ordered = holds == (op != "!=")  # NaN makes every comparison false but !=
            first = _narrowed(known, left, effective, right, ordered, table, path, unstable)
            return _narrowed(first, right, MIRRORED.get(effective, effective), left, ordered, table, path, unstable)
        case _:
            return known


def _narrowed(
    known: Known, subject: Expr, op: BinaryOp, other: Expr, ordered: bool, table: Ranges, path: Path,
    unstable: frozenset[str],
) -> Known:  # fmt: skip
    kind = table.kinds.of(subject)
    if isinstance(kind, Weak) or any(access.tensor in unstable for access in accesses(subject)):
        return known
    common = promote(kind, table.kinds.of(other))
    if any(access.tensor in unstable for access in accesses(other)):
        limit = everything(strong(common))
    else:
        limit = convert(value_of(other, known, table, path), strong(common))
    own = value_of(subject, known, table, path)
    if limit.nan and not ordered:
        return known  # the comparison may have failed for the other side's NaN
    if is_float(common) != is_float(kind) or common == "bool" or (common == "f64") != (kind == "f64"):
        return known  # the comparison converts the subject, so that its bounds are not the limit's
    low, high, zero = own.low, own.high, own.zero
    step = 0 if is_float(kind) else 1
    strict_zero = limit.low == 0 == limit.high
    match op:
        case "<" | "<=":
            high = min(high, limit.high - (step if op == "<" else 0))
            zero = zero and not (op == "<" and limit.high <= 0)
        case ">" | ">=":
            low = max(low, limit.low + (step if op == ">" else 0))
            zero = zero and not (op == ">" and limit.low >= 0)
        case "==":
            low, high, zero = max(low, limit.low), min(high, limit.high), zero and limit.zero
        case "!=":
            zero = zero and not strict_zero
        case _:
            return known
    if low > high:  # never reached
        return known
    nan = own.nan and not ordered
    return {**known, subject: Range(low, high, nan, zero and low <= 0 <= high, own.dtype)}


def value_of(expression: Expr, known: Known, table: Ranges, path: Path) -> Range:
    """The values of an expression that the statement at `path` evaluates, with what is known there.

    A condition is asked about for either of its outcomes; the cache keeps nested conditions from doubling each time.
    """
    if isinstance(expression, Integer | Real | Variable | Access):
        return _value_of(expression, known, table, path)
    key = (id(expression), id(known), path)
    if key not in table.found:
        table.found[key] = (expression, known, _value_of(expression, known, table, path))
    return table.found[key][2]


def _value_of(expression: Expr, known: Known, table: Ranges, path: Path) -> Range:
    found = known.get(expression)
    if found is not None:
        return found
    kind = table.kinds.of(expression)
    if isinstance(kind, Weak):
        return intervals.literal(kind.value)

    def visit(part: Expr) -> Range:
        return value_of(part, known, table, path)

    match expression:
        case Integer(value) | Real(value):
            return intervals.literal(value)
        case Variable():
            return everything("i64")
        case Access():
            return table.read(expression, path)
        case Unary("!"):
            return span(0, 1, "bool")
        case Unary(_, operand):
            return intervals.negate(convert(visit(operand), kind))
        case Binary(op, left, right):
            if op in COMPARISONS or op in ("&&", "||"):
                return span(0, 1, "bool")
            if op == "-" and isinstance(right, Access) and is_term_of_maximum(left, right, table, path):
                difference = intervals.subtract(visit(left), visit(right), kind)
                return span(difference.low, min(difference.high, 0.0), kind, difference.nan)
            return _binary(op, left, right, visit(left), visit(right), kind)
        case Call("max" | "min" as function, (left, right)):
            return intervals.extremum(function, visit(left), visit(right), kind)
        case Call("abs", (operand,)):
            return intervals.absolute(convert(visit(operand), kind))
        case Call(function, (operand, *_)):
            return elementary.apply(function, visit(operand), kind)
        case Call():
            return everything(kind)
        case Select(condition, then, otherwise):
            yes = value_of(then, refine(known, condition, True, table, path), table, path)
            no = value_of(otherwise, refine(known, condition, False, table, path), table, path)
            return join(convert(yes, kind), convert(no, kind))
        case Cast(dtype, operand):
            return convert(visit(operand), dtype)
        case _:
            assert_never(expression)


def _binary(op: BinaryOp, left: Expr, right: Expr, a: Range, b: Range, kind: DType) -> Range:
    match op:
        case "+":
            return intervals.add(a, b, kind)
        case "-":
            if same_spelling(left, right) and a.finite:
                return span(a.low - a.low, a.low - a.low, kind)
            return intervals.subtract(a, b, kind)
        case "*":
            return intervals.square(a, kind) if same_spelling(left, right) else intervals.multiply(a, b, kind)
        case "/":
            return intervals.divide(a, b, kind)
        case "//":
            return intervals.floor_divide(a, b, kind) if not is_float(kind) else everything(kind)
        case "%":
            return intervals.modulo(a, b, kind) if not is_float(kind) else everything(kind)
        case "**":
            return elementary.power(a, b, kind) if is_float(kind) else everything(kind)
        case _:
            return everything(kind)
