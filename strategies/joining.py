"""One nest over operands laid end to end, the nests that compute its wrong results again, and the copies between."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from leir.analysis.box import plus
from leir.analysis.isl import Box
from leir.analysis.likeness import with_reads
from leir.analysis.seams import right_boxes
from leir.analysis.windows import Operand, Windows
from leir.edit import accesses, dtypes, loops_around, nested, statement_at, walk
from leir.names import substitute_in, tensor_names, tensor_sequence, variable_sequence
from leir.syntax import Access, Alloc, Binary, DType, Equation, Expr, Guard, Integer, Loop, Program, Stmt, Variable
from strategies.base import path_text


class Joint:
    """The statements that take the nests' place, in this order, and the declarations that they need.

    `copies` lay operands end to end or stack them; `nest` computes all as one, into `result`; `corrections` compute
    the boxes of `wrong` again, nest by nest; `taken` are the copies of all other results.
    """

    def __init__(self, program: Program, windows: Windows, wrong: Sequence[Sequence[Box]]) -> None:
        self.windows = windows
        self.dtypes = dtypes(program)
        self.default = program.outputs[0].dtype
        self.around = loops_around(program, (*windows.list_, 0))
        self.unused = (name for name in tensor_sequence() if name not in tensor_names(program))
        self.declared: list[Alloc] = []
        self.sources: dict[object, str] = {}
        self.laid: list[str] = []
        self.stacked: list[str] = []
        self.copies: list[Stmt] = []
        reads = [self._joint_read(operand) for operand in windows.operands]
        x = windows.x
        self.long = replace(x, extent=windows.pitch * (len(windows.forms) - 1) + x.extent)
        shape = [self.long.extent if loop == x else loop.first + loop.extent for loop in windows.kept]
        name = self._new(self.dtypes[windows.targets[0].tensor], shape)
        self.result = self._element(name, tuple(Variable(loop.variable) for loop in windows.kept))
        value = windows.widened(with_reads(windows.equations[0].value, iter(reads)))
        self.levels = tuple(self._widened(level) for level in windows.levels[0])
        (self.nest,) = nested(self.levels, (Equation(self.result, windows.equations[0].op, value),))
        self.corrections = [self._again(n, box) for n, boxes in enumerate(wrong) for box in boxes]
        self.taken = [self._taken(n, box) for n, boxes in enumerate(wrong) for box in right_boxes(windows, boxes)]

    @property
    def statements(self) -> tuple[Stmt, ...]:
        return (*self.copies, self.nest, *self.corrections, *self.taken)

    def _widened(self, level: Loop | Guard) -> Loop | Guard:
        if isinstance(level, Guard):
            return Guard(self.windows.widened(level.condition), ())
        return self.long if level == self.windows.x else level

    def _new(self, dtype: DType, shape: Sequence[int]) -> str:
        name = next(self.unused)
        if dtype != self.default:  # an undeclared tensor is just that
            whole = (*(loop.first + loop.extent for loop in self.around), *shape)
            self.declared.append(Alloc(name, dtype, "g", whole))
        return name

    def _element(self, name: str, places: tuple[Expr, ...]) -> Access:
        """An element of a new tensor: every iteration of the loops around has its own."""
        return Access(name, (*(Variable(loop.variable) for loop in self.around), *places))

    def _joint_read(self, operand: Operand) -> Access:
        """The joint nest's access to an operand. The copies that make it are added once for each source."""
        if operand.is_shared:
            return operand.reads[0]
        x, count = self.windows.x, len(self.windows.forms)
        if operand.source not in self.sources:
            shape = list(operand.shape)
            if operand.along is None:
                shape.insert(0, count)
            else:
                shape[operand.along] *= count
            name = self._new(self.dtypes[operand.reads[0].tensor], shape)
            self.sources[operand.source] = name
            (self.stacked if operand.along is None else self.laid).append(name)
            self.copies += [self._copied(operand, name, number) for number in range(count)]
        if operand.along is not None:
            return self._element(self.sources[operand.source], operand.indices)
        which = Binary("//", Variable(x.variable), Integer(self.windows.pitch))
        return self._element(self.sources[operand.source], (which, *operand.indices))

    def _copied(self, operand: Operand, name: str, number: int) -> Stmt:
        taken = {loop.variable for loop in self.around}
        unused = (name for name in variable_sequence() if name not in taken)
        loops = [Loop("L", v, size, 0, ()) for v, size in zip(unused, operand.shape, strict=False)]
        places: tuple[Expr, ...] = tuple(Variable(loop.variable) for loop in loops)
        along = operand.along
        if along is None:
            target = self._element(name, (Integer(number), *places))
        else:
            moved = plus(places[along], Integer(number * operand.shape[along]))
            target = self._element(name, (*places[:along], moved, *places[along + 1 :]))
        return nested(loops, (Equation(target, "=", operand.read(number, places)),))[0]

    def _again(self, number: int, box: Box) -> Stmt:
        """The nest of one operand as it was, over the results in a box."""
        levels, equation = self.windows.levels[number], self.windows.equations[number]
        return nested(self._inside(levels, box), (equation,))[0]

    def _taken(self, number: int, box: Box) -> Stmt:
        """The copy of one operand's results in a box from the joint ones."""
        x = self.windows.x
        moved = plus(Variable(x.variable), Integer(number * self.windows.pitch))
        source = substitute_in(self.result, {x.variable: moved})
        levels = [
            replace(level, kind="L") if isinstance(level, Loop) and level.kind == "V" else level
            for level in self._inside(self.windows.kept, box)
        ]
        return nested(levels, (Equation(self.windows.targets[number], "=", source),))[0]

    def _inside(self, levels: Sequence[Loop | Guard], box: Box) -> list[Loop | Guard]:
        """The levels with the loops of results cut down to a box, x in front and the others in their order."""
        x = self.windows.x
        order = [x, *(loop for loop in self.windows.kept if loop != x)]
        runs = {loop.variable: run for loop, run in zip(order, box, strict=True)}
        return [
            _cut(level, *runs[level.variable]) if isinstance(level, Loop) and level.variable in runs else level
            for level in levels
        ]


def meeting_place(program: Program, windows: Windows) -> tuple[int | None, str]:
    """The number of the statement before which the joint nest can stand, and why; None where there is none."""
    numbers = [path[len(windows.list_)] for path in windows.nests]
    reasons: list[str] = [windows.changed] if windows.changed else []
    for place in dict.fromkeys((numbers[-1], *numbers, numbers[-1] + 1)) if not reasons else ():
        whys = (_why_not_moved(program, windows, nest, place) for nest in range(len(numbers)))
        reason = next((why for why in whys if why), "")
        if not reason:
            return place, f"({place}) can hold them all: what they read is the same there, and nobody waits for them"
        reasons.append(reason)
    return None, reasons[0]


def _why_not_moved(program: Program, windows: Windows, nest: int, place: int) -> str:
    """Why a nest may not move before a statement of its list, past all that stands between, and be one with others."""
    above, own = windows.list_, windows.nests[nest]
    number, form = own[len(above)], windows.forms[nest]
    between = range(place, number + 1) if place <= number else range(number, place)
    made = form.equation.target.tensor
    read = {access.tensor for part in (form.equation.value, *form.guards) for access in accesses(part)}
    shown = path_text(own)
    if used := [target.tensor for target in windows.targets if target.tensor in read]:
        return f"{shown} reads {used[0]}, which one of them makes"
    for path, statement in walk(program, above) if not above else walk(statement_at(program, above), above):
        if path in windows.nests or path[len(above)] not in between or not isinstance(statement, Equation | Guard):
            continue
        used = statement.condition if isinstance(statement, Guard) else statement.value
        places = () if isinstance(statement, Guard) else statement.target.indices
        if any(access.tensor == made for part in (used, *places) for access in accesses(part)):
            return f"{path_text(path)} reads {made}, which {shown} makes"
        if isinstance(statement, Equation) and statement.target.tensor in read:
            return f"{path_text(path)} writes {statement.target.tensor}, which {shown} reads"
    return ""


def size_of(box: Box) -> int:
    return prod(high - low + 1 for low, high in box)


def _cut(loop: Loop, low: int, high: int) -> Loop:
    """The loop from `low` to `high`: a vector or a bound loop of another width may not be one, so it is serial."""
    if (low, high) == (loop.first, loop.first + loop.extent - 1):
        return loop
    return replace(loop, kind="L" if loop.kind == "V" else loop.kind, first=low, extent=high - low + 1)
