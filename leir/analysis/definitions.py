"""What a value is made of: reads of temporaries replaced by what the equation computes that wrote them.

A temporary that one equation writes is known by it: the instance that wrote an element is the one whose subscripts give
the element. So a read can be opened, where the equation stands before it in the text and the solution of the subscripts
is proved by isl: they give the element, within the loops and guards of the equation. Accumulations are not replaced;
they are noted, with the values of the variables that their subscripts fix.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from leir.analysis.box import moving, rejoined
from leir.analysis.frames import Frame
from leir.analysis.model import Statement, lifetimes, statements_of
from leir.analysis.reduction import writes_apart
from leir.analysis.solving import Values, solution
from leir.analysis.types import Type, is_float, type_of
from leir.edit import accesses, dtypes, variables_of, with_operands
from leir.names import substitute_in
from leir.printer import equation_text
from leir.remembered import remembered
from leir.syntax import Access, Equation, Expr, Loop, Path, Program, Select, Variable, operands

Wanted = Callable[[Access, Statement, set[str]], bool]


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
        self.outputs = {declaration.tensor for declaration in program.outputs}
        self.statements = {s.path: s for s in statements_of(program) if isinstance(s.node, Equation)}
        self.writers: dict[str, list[Path]] = {}
        for path, statement in self.statements.items():
            assert isinstance(statement.node, Equation)
            self.writers.setdefault(statement.node.target.tensor, []).append(path)
        self.dtypes = dtypes(program)
        self.lifetimes = lifetimes(program)

    def sole(self, tensor: str) -> Statement | None:
        """The equation that alone writes a tensor."""
        paths = self.writers.get(tensor, [])
        return self.statements[paths[0]] if len(paths) == 1 else None

    def stores_once(self, tensor: str) -> bool:
        """Whether one equation stores all that is ever in a tensor, each element once."""
        statement = self.sole(tensor)
        if statement is None or not isinstance(statement.node, Equation) or statement.node.op != "=":
            return False
        return writes_apart(self.program, statement.path)

    def rows(self, statement: Statement) -> set[str]:
        """The loops around an equation that give every iteration an element, or a lifetime, of its own."""
        assert isinstance(statement.node, Equation)
        target = statement.node.target
        life = self.lifetimes.get(target.tensor, 0)
        own = {loop.variable for _, loop in statement.loops[:life]}
        return own | {name for index in target.indices if (name := moving(index)) is not None}

    def frame(self, path: Path) -> Frame:
        """The instances of an equation."""
        statement = self.statements[path]
        variables = tuple((loop.variable, loop.first, loop.extent) for _, loop in statement.loops)
        return Frame(variables, tuple(guard.condition for _, guard in statement.guards))

    def identity(self, path: Path) -> dict[str, Expr]:
        """The variables of the loops around an equation, each for itself."""
        return {loop.variable: Variable(loop.variable) for _, loop in self.statements[path].loops}

    def shared(self, one: Path, other: Path) -> set[str]:
        """The variables of the loops around both of two equations."""
        common = shared_levels(one, other)
        return {loop.variable for where, loop in self.statements[one].loops if len(where) <= common}

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
                access = Access(tensor, tuple(rejoined(self.expression(e, values, at, frame)) for e in indices))
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
            if variables_of(guard.condition) <= solved.keys() and not frame.always(
                substitute_in(guard.condition, solved)
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
        return shared <= self.definitions.rows(statement)


def read_reduction(definitions: Definitions, access: Access, path: Path, frame: Frame) -> Reduction | None:
    """The accumulation of which the equation at a path reads an element, finished by then; None if it is none."""

    def wanted(read: Access, statement: Statement, shared: set[str]) -> bool:
        del shared
        return read == access and isinstance(statement.node, Equation) and statement.node.op != "="

    opening = Opening(definitions, wanted)
    opening.expression(access, definitions.identity(path), path, frame)
    return opening.reductions.get(access)


def shared_levels(one: Path, other: Path) -> int:
    """How many levels two places in the text share."""
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def is_ahead(path: Path, at: Path) -> bool:
    """Whether the statement at a path stands before another in the list that holds both."""
    common = shared_levels(path, at)
    return common < min(len(path), len(at)) and path[common] < at[common]


@remembered
def definitions_of(program: Program) -> Definitions:
    """The equations of a program by what they write."""
    return Definitions(program)


def why_written_between(definitions: Definitions, tensor: str, reader: Path, place: Path) -> str:
    """Which equation may change what another reads of a tensor before, or after, a place; empty if none does.

    Only one iteration of the loops around both is looked at: what a later one writes, neither of them sees. What one
    equation stores, each element once, is as it was when it was first read.
    """
    common = shared_levels(reader, place)
    if common == min(len(reader), len(place)):
        return ""
    low, high = sorted((reader[common], place[common]))
    for writer in definitions.writers.get(tensor, []):
        is_between = writer[:common] == reader[:common] and low <= writer[common] <= high
        if not is_between or (is_ahead(reader, place) and _is_through(definitions, writer, reader)):
            continue
        if not definitions.stores_once(tensor):
            texts = [equation_text(definitions.statements[path].node) for path in (writer, reader, place)]
            return f"{texts[0]} stands between {texts[1]} and {texts[2]}, and writes {tensor}"
    return ""


def _is_through(definitions: Definitions, writer: Path, reader: Path) -> bool:
    """Whether an equation is done with every element when another reads it: in each iteration of the loops around both
    it stands before it, and has elements of its own."""
    if not is_ahead(writer, reader):
        return False
    written, read = (definitions.statements[path].node for path in (writer, reader))
    assert isinstance(written, Equation) and isinstance(read, Equation)
    indices = written.target.indices
    uses = [access.indices for access in accesses(read.value) if access.tensor == written.target.tensor]
    same = {moving(index) for n, index in enumerate(indices) if all(use[n] == index for use in uses)}
    return definitions.shared(writer, reader) <= same
