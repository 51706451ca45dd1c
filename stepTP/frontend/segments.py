"""Equal segments of a program as one loop: what differs between them becomes a function of the loop's variable.

`rolling` says which segments are equal, and by which rules they fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from leir.edit import map_statement, tensors_written, walk_with, with_operands
from leir.names import unused_tensor
from leir.syntax import (
    Access,
    Alloc,
    AssignOp,
    Binary,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Program,
    Stmt,
    Unary,
    Variable,
    equation,
    operands,
)
from stepTP.frontend.nesting import grown, named_by_depth, tidy

_FARTHEST_BACK = 4  # copies
_STEP = "step"  # the loop's variable, until loops are named by depth

Kinds = dict[str, tuple[DType, tuple[int, ...]]]


class Misfit(Exception):
    """A run that no rule fits; `copy`: the first one that differs from those before it, 0 where none is known."""

    def __init__(self, copy: int = 0) -> None:
        self.copy = copy
        super().__init__(copy)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor's name, or an integer literal, in a statement. `is_offset`: the literal is a term of a subscript."""

    value: str | int
    is_offset: bool = False


@dataclass(frozen=True, slots=True)
class Shape:
    """A statement apart from its leaves: equal for two that differ in nothing else."""

    skeleton: object
    leaves: tuple[Leaf, ...]


def shape_of(statement: Stmt) -> Shape:
    leaves: list[Leaf] = []

    def of_expression(expression: Expr, inside: bool) -> object:
        match expression:
            case Access(tensor, indices):
                leaves.append(Leaf(tensor))
                return ("access", *(of_expression(index, True) for index in indices))
            case Integer(value):
                leaves.append(Leaf(value, inside))
                return "integer"
            case _:
                sums = inside and isinstance(expression, Binary | Unary) and expression.op in ("+", "-")
                below = tuple(of_expression(operand, sums) for operand in operands(expression))
                kind = with_operands(expression, (Integer(0),) * len(below)) if below else expression
                return (kind, *below)

    def of_statement(node: Stmt) -> object:
        match node:
            case Equation(target, op, value):
                return (op, of_expression(target, False), of_expression(value, False))
            case Guard(condition, body):
                return ("guard", of_expression(condition, False), *(of_statement(s) for s in body))
            case Loop(kind, variable, extent, first, body):
                return (kind, variable, extent, first, *(of_statement(s) for s in body))
            case Alloc():
                raise AssertionError("the front end declares temporaries at top level only")

    return Shape(of_statement(statement), tuple(leaves))


@dataclass(slots=True)
class Group:
    """The temporaries of one place in the segment, one a copy. `back`: how many copies back they are read."""

    members: list[str]
    first_op: AssignOp
    back: int = 0
    before: dict[int, str] = field(default_factory=dict[int, str])  # row before the loop's: the tensor read there


class Segments:
    """One run: `copies` segments of `period` statements from `start` on."""

    def __init__(
        self,
        program: Program,
        kinds: Kinds,
        statements: Sequence[Stmt],
        shapes: Sequence[Shape],
        start: int,
        period: int,
        copies: int,
    ) -> None:
        self.source = program
        self.statements = statements
        self.start, self.period, self.copies = start, period, copies
        self.end = start + period * copies
        self.known = kinds
        self.signature = {d.tensor for d in (*program.inputs, *program.outputs)}
        self.outputs = {d.tensor for d in program.outputs}
        leaves = [[leaf for s in shapes[n : n + period] for leaf in s.leaves] for n in range(start, self.end, period)]
        self.leaves = [list(column) for column in zip(*leaves, strict=True)]
        self.groups: list[Group] = []
        self.owner: dict[str, tuple[int, int]] = {}  # a copy's own temporary: its group and copy
        self.find_groups()
        self.replacements = [self.replacement(column) for column in self.leaves]

    def segment(self, copy: int) -> Sequence[Stmt]:
        first = self.start + copy * self.period
        return self.statements[first : first + self.period]

    def find_groups(self) -> None:
        """The tensors that each copy writes and no other does, by the order of their first writes."""
        written = [
            [node.target for s in self.segment(copy) for _, node in walk_with(s) if isinstance(node, Equation)]
            for copy in range(self.copies)
        ]
        ops: list[AssignOp] = [
            node.op for s in self.segment(0) for _, node in walk_with(s) if isinstance(node, Equation)
        ]  # fmt: skip
        for place, op in enumerate(ops):
            members = [targets[place].tensor for targets in written]
            if len(set(members)) == 1 or members[0] in self.owner:
                continue
            if len(set(members)) < self.copies or any(name in self.owner for name in members):
                raise Misfit(_first_change(members))
            self.owner |= {name: (len(self.groups), copy) for copy, name in enumerate(members)}
            self.groups.append(Group(members, op))
        self.written = {name for copy in range(self.copies) for s in self.segment(copy) for name in tensors_written(s)}
        others = (*self.statements[: self.start], *self.statements[self.end :])
        elsewhere = {name for s in others for name in tensors_written(s)}
        for group in self.groups:
            if len({self.known[name] for name in group.members}) > 1:
                raise Misfit
            if sum(name in self.outputs for name in group.members) > 1:
                raise Misfit
            if any(name in elsewhere for name in group.members):
                raise Misfit

    def replacement(self, column: list[Leaf]) -> "int | tuple[int, int] | None":
        """What stands at a place of every copy: the growth of a constant, (group, copies back), or None: one tensor."""
        values = [leaf.value for leaf in column]
        first = values[0]
        if isinstance(first, int):
            numbers = [value for value in values if isinstance(value, int)]
            steps = [b - a for a, b in pairwise(numbers)]
            if len(set(steps)) > 1 or (steps[0] and not column[0].is_offset):
                raise Misfit(next((n for n, step in enumerate(steps, 1) if step != steps[0]), 1))
            return steps[0]
        names = [value for value in values if isinstance(value, str)]
        if len(set(names)) == 1:
            if names[0] in self.owner:
                raise Misfit
            return None
        number, copy = self.owner.get(names[-1], (-1, -1))
        back = self.copies - 1 - copy
        if number < 0 or not 0 <= back <= _FARTHEST_BACK:
            raise Misfit(_first_change(names))
        group = self.groups[number]
        if names[back:] != group.members[: self.copies - back]:
            raise Misfit
        for row, name in enumerate(names[:back]):
            fits = name not in self.written and self.known[name] == self.known[group.members[0]]
            if not fits or group.before.setdefault(row - back, name) != name:
                raise Misfit
        group.back = max(group.back, back)
        return number, back

    def program(self) -> Program:
        """The program with the run as a loop."""
        body_names = {name for s in self.statements for name in tensors_written(s)}
        taken = {*self.signature, *body_names, *self.known}
        rows: dict[str, tuple[str, int]] = {}  # a tensor that becomes a row of another
        starts: list[Stmt] = []
        ends: list[Stmt] = []
        copied: list[Stmt] = []
        allocations: list[Stmt] = []
        written: list[tuple[str, int]] = []
        read: list[tuple[str, int]] = []
        for group in self.groups:
            # A tensor that is filled holds no row that is stored: what is carried is copied to another one.
            apart = group.back > 0 and group.first_op != "="
            first = 0 if apart else group.back
            own = self.fresh(taken, group, allocations, self.copies + first)
            carried = self.fresh(taken, group, allocations, self.copies + group.back) if apart else own
            written.append((own, first))
            read.append((carried, group.back))
            for copy, name in enumerate(group.members):
                rows[name] = (own, first + copy)
                if name in self.outputs:
                    copied.append(self.copy(Access(name), Access(own, (Integer(first + copy),)), name))
            for row, name in sorted(group.before.items()):
                place = group.back + row
                if self.may_be_renamed(name, rows):
                    rows[name] = (carried, place)
                else:
                    starts.append(self.copy(Access(carried, (Integer(place),)), Access(name), name))
            if carried != own:
                target = Access(carried, (grown(Integer(group.back), 1, _STEP),))
                ends.append(self.copy(target, Access(own, (grown(Integer(0), 1, _STEP),)), group.members[0]))
        body = [*self.body(written, read), *ends]
        loop = named_by_depth(Loop("L", _STEP, self.copies, 0, tuple(body)))
        before = [_with_rows(s, rows) for s in self.statements[: self.start]]
        after = [_with_rows(s, rows) for s in self.statements[self.end :]]
        loop = _with_rows(loop, rows)  # what the first copies read may be read by all of them too
        kept = [s for s in self.source.body if isinstance(s, Alloc) and s.tensor not in rows]
        starts = [_with_rows(s, rows) for s in starts]
        return replace(self.source, body=(*kept, *allocations, *before, *starts, loop, *copied, *after))

    def fresh(self, taken: set[str], group: Group, allocations: list[Stmt], rows: int) -> str:
        """A new temporary with rows like the group's members; declared where they are."""
        name = unused_tensor(taken)
        taken.add(name)
        dtype, shape = self.known[group.members[0]]
        self.known[name] = dtype, (rows, *shape)
        if dtype != self.source.outputs[0].dtype:
            allocations.append(Alloc(name, dtype, "g", (rows, *shape)))
        return name

    def may_be_renamed(self, name: str, rows: dict[str, tuple[str, int]]) -> bool:
        """Whether a tensor that the first copies read is a temporary that may become a row: written before, only."""
        if name in self.signature or name in rows:
            return False
        return not any(name in tensors_written(s) for s in self.statements[self.start :])

    def copy(self, target: Access, source: Access, like: str) -> Stmt:
        """A nest that copies a tensor, or a row, of the shape of `like`."""
        _, shape = self.known[like]
        names = [f"copied{axis}" for axis in range(len(shape))]
        at = tuple(Variable(name) if size > 1 else Integer(0) for name, size in zip(names, shape, strict=True))
        statement: Stmt = Equation(
            Access(target.tensor, (*target.indices, *at)), "=", Access(source.tensor, (*source.indices, *at))
        )
        for name, size in reversed(list(zip(names, shape, strict=True))):
            if size > 1:
                statement = Loop("L", name, size, 0, (statement,))
        return named_by_depth(statement)

    def body(self, written: Sequence[tuple[str, int]], read: Sequence[tuple[str, int]]) -> Iterator[Stmt]:
        """The statements of the first copy, with what differs between copies as functions of the loop's variable.

        For each group the tensor that a copy writes, and the one that later copies read, with the first copy's row.
        """
        left = iter(zip(self.leaves, self.replacements, strict=True))

        def of_expression(expression: Expr) -> Expr:
            match expression:
                case Access(tensor, indices):
                    _, found = next(left)
                    below = tuple(tidy(of_expression(index)) for index in indices)
                    if not isinstance(found, tuple):
                        return Access(tensor, below)
                    number, back = found
                    name, first = read[number] if back else written[number]
                    return Access(name, (grown(Integer(first - back), 1, _STEP), *below))
                case Integer():
                    _, found = next(left)
                    assert isinstance(found, int)
                    return grown(expression, found, _STEP)
                case _:
                    return with_operands(expression, tuple(of_expression(operand) for operand in operands(expression)))

        def of_statement(node: Stmt) -> Stmt:
            match node:
                case Equation(target, op, value):
                    new_target = of_expression(target)
                    assert isinstance(new_target, Access)
                    return equation(new_target, op, of_expression(value))
                case Guard(condition, body):
                    return Guard(of_expression(condition), tuple(of_statement(s) for s in body))
                case Loop(body=body):
                    return replace(node, body=tuple(of_statement(s) for s in body))
                case Alloc():
                    return node

        for statement in self.segment(0):
            yield of_statement(statement)


def _first_change(names: Sequence[str]) -> int:
    """The first copy whose name is another than the first one's."""
    return next(n for n, name in enumerate(names) if name != names[0])


def _with_rows(statement: Stmt, rows: dict[str, tuple[str, int]]) -> Stmt:
    """The statement with tensors that became rows of others."""

    def change(expression: Expr) -> Expr:
        if isinstance(expression, Access) and expression.tensor in rows:
            name, row = rows[expression.tensor]
            return Access(name, (Integer(row), *expression.indices))
        return expression

    return map_statement(statement, change)
