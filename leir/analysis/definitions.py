"""What a value is made of: reads of temporaries replaced by what the equation computes that wrote them.

A temporary that one equation writes is known by it: the instance that wrote an element is the one whose subscripts give
the element. So a read can be opened, where the equation stands before it in the text and the solution of the subscripts
is proved by isl: they give the element, within the loops and guards of the equation. Accumulations are not replaced;
they are noted, with the values of the variables that their subscripts fix.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from leir.analysis.affine import Interval, affine, condition
from leir.analysis.box import as_expression, as_sum, quotient_and_remainder
from leir.analysis.isl import TooHard, example, question
from leir.analysis.model import Statement, lifetimes, statements_of
from leir.analysis.types import Type, is_float, type_of
from leir.edit import accesses, dtypes, variables_of, with_operands
from leir.names import substitute_in
from leir.syntax import Access, Binary, Equation, Expr, Integer, Loop, Path, Program, Select, Variable, operands

Values = Mapping[str, Expr]
Wanted = Callable[[Access, Statement, set[str]], bool]


@dataclass(frozen=True, slots=True)
class Frame:
    """Integer points for which expressions are compared: variables with their ranges, and what holds of them."""

    variables: tuple[tuple[str, int, int], ...]  # name, first value, extent
    where: tuple[Expr, ...] = ()

    def names(self) -> dict[str, str]:
        return {name: f"x{number}" for number, (name, _, _) in enumerate(self.variables)}

    def ranges(self) -> dict[str, Interval]:
        return {name: (first, first + extent - 1) for name, first, extent in self.variables}

    def domain(self) -> list[str]:
        """isl constraints of the points; what is not quasi-affine counts as true."""
        names = self.names()
        own = [f"{first} <= {names[name]} < {first + extent}" for name, first, extent in self.variables]
        return own + [condition(e, names) for e in self.where]

    def never(self, wrong: str) -> bool:
        """Whether no point meets an isl constraint; False where that cannot be decided."""
        try:
            return example(question(list(self.names().values()), [*self.domain(), wrong])) is None
        except TooHard:
            return False

    def equal(self, one: Expr, other: Expr) -> bool:
        """Whether two expressions have one value at every point, given that equal accesses have.

        Integer parts are compared as quasi-affine functions; operands of sums and products in either order.
        """
        if one == other:
            return True
        names = self.names()
        a, b = affine(one, names), affine(other, names)
        if a is not None and b is not None:
            return self.never(f"{a} != {b}")
        below, others = operands(one), operands(other)
        if type(one) is not type(other) or not below or len(below) != len(others):
            return False
        if with_operands(one, others) != other:
            return False
        if all(self.equal(x, y) for x, y in zip(below, others, strict=True)):
            return True
        return is_commutative(one) and self.equal(below[0], others[1]) and self.equal(below[1], others[0])


def is_commutative(expression: Expr) -> bool:
    """Whether the two operands may change places without any change of the value."""
    return isinstance(expression, Binary) and expression.op in ("+", "*")


@dataclass(frozen=True, slots=True)
class Reduction:
    """An accumulation whose element is read: the equation, and the values of the variables that the element fixes."""

    statement: Statement
    values: Values

    @property
    def equation(self) -> Equation:
        assert isinstance(self.statement.node, Equation)
        return self.statement.node

    def free(self) -> tuple[Loop, ...]:
        """The loops that run over the terms."""
        return tuple(loop for _, loop in self.statement.loops if loop.variable not in self.values)


class Definitions:
    """The equations of a program by what they write."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.signature = {d.tensor for d in (*program.inputs, *program.outputs)}
        self.statements = {s.path: s for s in statements_of(program) if isinstance(s.node, Equation)}
        self.writers: dict[str, list[Path]] = {}
        for path, statement in self.statements.items():
            assert isinstance(statement.node, Equation)
            self.writers.setdefault(statement.node.target.tensor, []).append(path)
        self.dtypes = dtypes(program)
        self.lifetimes = lifetimes(program)

    def sole(self, tensor: str) -> Statement | None:
        """The equation that alone writes a temporary."""
        paths = self.writers.get(tensor, [])
        return self.statements[paths[0]] if len(paths) == 1 and tensor not in self.signature else None

    def frame(self, path: Path) -> Frame:
        """The instances of an equation."""
        statement = self.statements[path]
        variables = tuple((loop.variable, loop.first, loop.extent) for _, loop in statement.loops)
        return Frame(variables, tuple(guard.condition for _, guard in statement.guards))

    def depends_on(self, tensor: str, wanted: Callable[[Equation], bool]) -> bool:
        """Whether an equation of a kind writes the tensor, or what it is computed from."""
        waiting, seen = [tensor], {tensor}
        while waiting:
            for path in self.writers.get(waiting.pop(), []):
                node = self.statements[path].node
                assert isinstance(node, Equation)
                if wanted(node):
                    return True
                new = [a.tensor for a in accesses(node.value) if a.tensor not in seen]
                seen.update(new)
                waiting += new
        return False


@dataclass(slots=True)
class Opening:
    """Expressions in the variables of a frame, with the temporaries opened that `wanted` names.

    `wanted(access, statement, shared)`: whether a read of an element, in the frame's variables, is opened; the
    statement is the one that wrote it, and `shared` the variables of the loops around both it and the read.
    `opened`: the equations that were, `reductions`: the accumulations, by what reads them. `leaves`: what is read and
    not opened, with the path of the equation that reads it.
    """

    definitions: Definitions
    wanted: Wanted
    opened: dict[Path, None] = field(default_factory=dict[Path, None])
    reductions: dict[Access, Reduction] = field(default_factory=dict[Access, Reduction])
    leaves: dict[tuple[Access, Path], None] = field(default_factory=dict[tuple[Access, Path], None])

    def expression(self, expression: Expr, values: Values, at: Path, frame: Frame) -> Expr:
        """The expression of the equation at `at`, of which `values` are the loops' variables in terms of the frame."""
        match expression:
            case Variable(name):
                return values[name]
            case Access(tensor, indices):
                access = Access(tensor, tuple(self.expression(e, values, at, frame) for e in indices))
                return self._read(access, values, at, frame)
            case Select(chosen, then, otherwise):
                test = self.expression(chosen, values, at, frame)
                on = Frame(frame.variables, (*frame.where, test))
                return Select(
                    test,
                    self.expression(then, values, at, on),
                    self.expression(otherwise, values, at, frame),
                )
            case _:
                below = tuple(self.expression(e, values, at, frame) for e in operands(expression))
                return with_operands(expression, below)

    def _read(self, access: Access, values: Values, at: Path, frame: Frame) -> Expr:
        statement = self.definitions.sole(access.tensor)
        bound = None if statement is None else self._bound(statement, access, values, at, frame)
        if statement is None or bound is None:
            self.leaves[access, at] = None
            return access
        assert isinstance(statement.node, Equation)
        if statement.node.op != "=":
            self.reductions[access] = Reduction(statement, bound)
            self.opened[statement.path] = None
            return access
        self.opened[statement.path] = None
        return self.expression(statement.node.value, bound, statement.path, frame)

    def _bound(
        self, statement: Statement, access: Access, values: Values, at: Path, frame: Frame
    ) -> dict[str, Expr] | None:
        """The values of the variables of the instance that wrote an element; None if it is not to be opened."""
        equation, path = statement.node, statement.path
        assert isinstance(equation, Equation)
        common = shared_levels(path, at)
        if path == at or path[common] >= at[common]:
            return None
        shared = {loop.variable for where, loop in statement.loops if len(where) <= common}
        if not self.wanted(access, statement, shared):
            return None
        if equation.op == "=" and not self._keeps_type(equation):
            return None
        if equation.op != "=" and not self._is_finished(statement, shared):
            return None
        around = {name: values[name] for name in sorted(shared)}
        loops = {loop.variable: loop for _, loop in statement.loops if loop.variable not in shared}
        solved = solution(equation.target.indices, access.indices, around, loops, frame)
        if solved is None or (equation.op == "=" and len(solved) < len(statement.loops)):
            return None
        for _, guard in statement.guards:
            if variables_of(guard.condition) <= set(solved) and not frame.never(
                condition(substitute_in(guard.condition, solved), frame.names(), holds=False)
            ):
                return None
        return solved

    def _keeps_type(self, equation: Equation) -> bool:
        """Whether a value is no other once it is stored, up to rounding."""
        stored = self.definitions.dtypes[equation.target.tensor]
        kind: Type = type_of(equation.value, self.definitions.dtypes)
        return kind == stored or (is_float(stored) and kind not in ("bool", "i8", "i32", "i64"))

    def _is_finished(self, statement: Statement, shared: set[str]) -> bool:
        """Whether an accumulation takes no terms from the iterations of loops that are also around the read."""
        assert isinstance(statement.node, Equation)
        target = statement.node.target
        life = self.definitions.lifetimes.get(target.tensor, 0)
        outer = [loop.variable for _, loop in statement.loops[:life]]
        return all(name in outer or Variable(name) in target.indices for name in shared)


def shared_levels(one: Path, other: Path) -> int:
    """How many levels two places in the text share."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def solution(
    patterns: Sequence[Expr], values: Sequence[Expr], known: Values, loops: Mapping[str, Loop], frame: Frame
) -> dict[str, Expr] | None:
    """What the variables of `loops` must be for the patterns to have the values, proved to be in range and to do so.

    Variables that occur in no pattern are left out. `known`: the values of the patterns' other variables. None where it
    is not found, or may not be the only one.
    """
    found: dict[str, Expr] = {**known, **_from_quotients(patterns, values, loops)}
    for pattern, value in zip(patterns, values, strict=True):
        if variables_of(pattern) <= set(found):
            continue  # proved below
        total = as_sum(pattern)
        unknown = {term.name: f for term, f in total.terms.items() if isinstance(term, Variable) and term.name in loops}
        rest = {term: f for term, f in total.terms.items() if not isinstance(term, Variable) or term.name in known}
        if any(variables_of(term) - set(known) for term in rest):
            return None
        solved = _digits(unknown, loops, _less(value, rest, total.constant, known), frame)
        if solved is None:
            return None
        found |= solved
    return found if _is_proved(patterns, values, found, loops, frame) else None


def _from_quotients(patterns: Sequence[Expr], values: Sequence[Expr], loops: Mapping[str, Loop]) -> dict[str, Expr]:
    """The variables x of which both x//n and x%n are patterns."""
    found: dict[str, Expr] = {}
    for pattern, value in zip(patterns, values, strict=True):
        match pattern:
            case Binary("//", Variable(name) as variable, Integer() as size) if name in loops:
                rest = Binary("%", variable, size)
                for other, remainder in zip(patterns, values, strict=True):
                    if other == rest:
                        whole = Binary("+", Binary("*", value, size), remainder)
                        found[name] = joined(value, remainder, size) or as_expression(as_sum(whole))
            case _:
                pass
    return found


def joined(quotient: Expr, remainder: Expr, size: Integer) -> Expr | None:
    """The expression of which these are the quotient and the remainder as they are written."""
    match quotient, remainder:
        case Binary("//", one, Integer() as a), Binary("%", other, Integer() as b) if one == other and a == b == size:
            return one
        case _:
            return None


def _less(value: Expr, terms: Mapping[Expr, int], constant: int, known: Values) -> Expr:
    """The value without known terms of the pattern."""
    result = value
    for term, factor in terms.items():
        part = Binary("*", substitute_in(term, dict(known)), Integer(abs(factor)))
        result = Binary("-" if factor > 0 else "+", result, part)
    if constant:
        result = Binary("-" if constant > 0 else "+", result, Integer(abs(constant)))
    return value if result is value else as_expression(as_sum(result))


def _digits(unknown: Mapping[str, int], loops: Mapping[str, Loop], value: Expr, frame: Frame) -> dict[str, Expr] | None:
    """The variables of a sum of multiples, of which each is longer than all smaller ones together reach."""
    order = sorted(unknown, key=lambda name: (-unknown[name], name))
    if [unknown[name] for name in order] == [-1]:
        return {order[0]: as_expression(as_sum(Binary("-", Integer(0), value)))}
    found: dict[str, Expr] = {}
    for number, name in enumerate(order):
        factor = unknown[name]
        below = order[number + 1 :]
        if factor < 1 or (any(loops[other].first for other in (name, *below)) and len(order) > 1):
            return None
        if sum(unknown[other] * (loops[other].extent - 1) for other in below) >= factor:
            return None
        if factor == 1:
            found[name] = value
        else:
            found[name], value = quotient_and_remainder(value, factor, frame.ranges())
    return found


def _is_proved(
    patterns: Sequence[Expr], values: Sequence[Expr], found: Values, loops: Mapping[str, Loop], frame: Frame
) -> bool:
    names = frame.names()
    wrong: list[str] = []
    for name, loop in loops.items():
        if name in found:
            text = affine(found[name], names)
            if text is None:
                return False
            low, high = loop.first, loop.first + loop.extent
            wrong.append(f"({text} < {low} or {text} >= {high})")
    for pattern, value in zip(patterns, values, strict=True):
        got = substitute_in(pattern, dict(found))
        if got != value:
            a, b = affine(got, names), affine(value, names)
            if a is None or b is None:
                return False
            wrong.append(f"{a} != {b}")
    return all(frame.never(each) for each in dict.fromkeys(wrong))


def subscript_pairs(pattern: Expr, expression: Expr) -> Iterator[tuple[Expr, Expr]]:
    """Subscripts of one expression with those of another that stand in the same places, operands in either order."""
    match pattern, expression:
        case Access(one, indices), Access(other, values) if one == other and len(indices) == len(values):
            for index, value in zip(indices, values, strict=True):
                if any(True for _ in accesses(index)):
                    yield from subscript_pairs(index, value)
                else:
                    yield index, value
        case _:
            below, others = operands(pattern), operands(expression)
            if type(pattern) is not type(expression) or len(below) != len(others) or not below:
                return
            if is_commutative(pattern) and _shape(below[0]) != _shape(others[0]):
                others = others[::-1]
            for a, b in zip(below, others, strict=True):
                yield from subscript_pairs(a, b)


def _shape(expression: Expr) -> tuple[object, ...]:
    """What an expression looks like, subscripts and variables left out."""
    match expression:
        case Access(tensor):
            return (tensor,)
        case Variable():
            return ("variable",)
        case _:
            if not operands(expression):
                return (expression,)
            return (type(expression).__name__, *(_shape(operand) for operand in operands(expression)))
