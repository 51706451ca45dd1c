"""One nest over operands laid end to end, the nests that compute its wrong results again, and the copies between."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from leir.analysis.affine import constant
from leir.analysis.box import plus
from leir.analysis.isl import Box
from leir.analysis.windows import Operand, Windows, right_boxes, with_reads
from leir.edit import dtypes, nested
from leir.names import substitute_in, tensor_names, tensor_sequence, variable_sequence
from leir.syntax import Access, Alloc, Binary, DType, Equation, Expr, Guard, Integer, Loop, Program, Stmt, Variable


class Joint:
    """The statements that take the nests' place, in this order, and the declarations that they need.

    `copies` lay operands end to end or stack them; `nest` computes all as one, into `result`; `corrections` compute
    the boxes of `wrong` again, nest by nest; `taken` are the copies of all other results.
    """

    def __init__(self, program: Program, windows: Windows, wrong: Sequence[Sequence[Box]]) -> None:
        self.windows = windows
        self.dtypes = dtypes(program)
        self.default = program.outputs[0].dtype
        self.unused = (name for name in tensor_sequence() if name not in tensor_names(program))
        self.declared: list[Alloc] = []
        self.sources: dict[object, str] = {}
        self.laid: list[str] = []
        self.stacked: list[str] = []
        self.copies: list[Stmt] = []
        reads = [self._joint_read(operand) for operand in windows.operands]
        x = windows.x
        self.long = replace(x, extent=windows.pitch * (len(windows.nests) - 1) + x.extent)
        shape = [self.long.extent if loop == x else loop.first + loop.extent for loop in windows.kept]
        name = self._new(self.dtypes[windows.targets[0].tensor], shape)
        self.result = Access(name, tuple(Variable(loop.variable) for loop in windows.kept))
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
            self.declared.append(Alloc(name, dtype, "g", tuple(shape)))
        return name

    def _joint_read(self, operand: Operand) -> Access:
        """The joint nest's access to an operand. The copies that make it are added once for each source."""
        if operand.is_shared:
            return operand.reads[0]
        x, count = self.windows.x, len(self.windows.nests)
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
            return Access(self.sources[operand.source], operand.indices)
        which = Binary("//", Variable(x.variable), Integer(self.windows.pitch))
        return Access(self.sources[operand.source], (which, *operand.indices))

    def _copied(self, operand: Operand, name: str, number: int) -> Stmt:
        loops = [Loop("L", v, size, 0, ()) for v, size in zip(variable_sequence(), operand.shape, strict=False)]
        places: list[Expr] = [Variable(loop.variable) for loop in loops]
        own = iter(places)
        read = operand.reads[number]
        source = Access(read.tensor, tuple(i if constant(i) is not None else next(own) for i in read.indices))
        along = operand.along
        if along is None:
            target = Access(name, (Integer(number), *places))
        else:
            moved = plus(places[along], Integer(number * operand.shape[along]))
            target = Access(name, (*places[:along], moved, *places[along + 1 :]))
        return nested(loops, (Equation(target, "=", source),))[0]

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


def size_of(box: Box) -> int:
    return prod(high - low + 1 for low, high in box)


def _cut(loop: Loop, low: int, high: int) -> Loop:
    """The loop from `low` to `high`: a vector or a bound loop of another width may not be one, so it is serial."""
    if (low, high) == (loop.first, loop.first + loop.extent - 1):
        return loop
    return replace(loop, kind="L" if loop.kind == "V" else loop.kind, first=low, extent=high - low + 1)
