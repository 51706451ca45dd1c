"""Nests that slide the same window over different operands, and what one nest over operands laid end to end gets wrong.

Each nest holds one equation, and all are alike but for the tensors. *Along* one loop, `x` below, of N iterations, an
operand is read at `c*x+e` in a dimension of c*n elements, n no less than N: laid end to end, the s-th operand's windows
are those of the iterations s*n, s*n+1, ..., s*n+N-1, and a bound from above that stops a window at its operand's end
must stop it at the end of all. Near the seams, windows then reach into the neighbour. Which results this makes wrong is
a question to isl: those with an iteration in which some condition on x comes out otherwise than in the nest of their
own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product

from leir.analysis.access import tensors
from leir.analysis.affine import condition, constant, is_exact
from leir.analysis.box import as_expression, as_sum, plus
from leir.analysis.isl import Box, box_hulls, question
from leir.edit import accesses, perfect_nest, sole_equation, statement_at, variables_of, with_operands
from leir.names import substitute_in
from leir.printer import expression_text
from leir.syntax import Access, Binary, Equation, Expr, Guard, Integer, Loop, Path, Program, Stmt, Variable, operands

_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_MOST_ORDERS = 32  # in which the operands of an equation are tried
_HOLE = Access("")  # where an operand stands in the shape of an equation


class NotAlike(Exception):
    """The nests are not one computation on different operands; the message says what differs."""


@dataclass(frozen=True, slots=True)
class Operand:
    """What the nests read at one place of their equation, nest by nest, in the loops of the first.

    `indices`: the subscripts that are no numbers, the same for all nests, with the sizes of their dimensions. `along`
    is the number of the one that moves with x, None where none does.
    """

    reads: tuple[Access, ...]
    indices: tuple[Expr, ...]
    shape: tuple[int, ...]
    along: int | None

    @property
    def is_shared(self) -> bool:
        return self.along is None and len(dict.fromkeys(self.reads)) == 1

    @property
    def source(self) -> tuple[object, ...]:
        """Operands with one source differ in where they are read, not in what they are."""
        fixed = tuple(tuple(constant(index) for index in read.indices) for read in self.reads)
        return tuple(read.tensor for read in self.reads), fixed, self.along


@dataclass(frozen=True, slots=True)
class Windows:
    """The nests as one, in the loops of the first, which begin at 0. `x`: the loop along which operands are laid.

    `nests`: their paths; `levels`: loops and guards of each; `pitch`: how many iterations of x further the next operand
    begins; `equations`: each nest's; `operands`: by place, in the order of the first's text.
    """

    nests: tuple[Path, ...]
    levels: tuple[tuple[Loop | Guard, ...], ...]
    x: Loop
    pitch: int
    equations: tuple[Equation, ...]
    operands: tuple[Operand, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(level for level in self.levels[0] if isinstance(level, Loop))

    @property
    def targets(self) -> tuple[Access, ...]:
        return tuple(equation.target for equation in self.equations)

    @property
    def kept(self) -> tuple[Loop, ...]:
        """The loops that tell results apart, x among them."""
        names = variables_of(self.targets[0])
        return tuple(loop for loop in self.loops if loop.variable in names)

    def guards(self, number: int) -> tuple[Expr, ...]:
        return tuple(level.condition for level in self.levels[number] if isinstance(level, Guard))

    def widened(self, expression: Expr) -> Expr:
        """The expression with every bound from above on x moved to the end of all operands."""
        return _widened(expression, self.x.variable, (len(self.nests) - 1) * self.pitch)


def windows_at(program: Program, nests: Sequence[Path], along: Path) -> Windows:
    """The nests at these paths, which hold one equation each, laid end to end along a loop of the first.

    Raises NotAlike.
    """
    levels, equation = _from_zero(statement_at(program, nests[0]))
    at = len(along) - len(nests[0])
    x = levels[at] if along[: len(nests[0])] == nests[0] and 0 <= at < len(levels) else None
    if not isinstance(x, Loop) or any(along[len(nests[0]) :]):
        raise NotAlike("it is no loop of the first nest")
    all_levels, equations = [levels], [equation]
    _, reads = _shape(equation.value)
    all_reads = [reads]
    for path in nests[1:]:
        own_levels, own = _from_zero(statement_at(program, path))
        names = _names(levels, own_levels)
        all_levels.append(tuple(_renamed_level(level, names) for level in own_levels))
        own = replace(own, target=_renamed(own.target, names), value=substitute_in(own.value, names))
        own, reads = _alike(equation, own, all_reads[0])
        equations.append(own)
        all_reads.append(reads)
    _require_targets([own.target for own in equations], x, levels, equation)
    sizes = {name: tensor.shape for name, tensor in tensors(program).items()}
    operands_found = [_operand(same, x, sizes) for same in zip(*all_reads, strict=True)]
    pitches = [_pitch(operand, x) for operand in operands_found if operand.along is not None]
    if len(dict.fromkeys(pitches)) != 1:
        what = "more than operands of one length" if pitches else "nothing that they read"
        raise NotAlike(f"{what} moves with {x.variable}")
    alike = [
        _of_one_kind(same)
        for same in zip(*([v for v in own if isinstance(v, Loop)] for own in all_levels), strict=True)
    ]
    merged = tuple(tuple(_next_loop(own, iter(alike))) for own in all_levels)
    x = next(loop for loop in alike if loop.variable == x.variable)
    return Windows(tuple(nests), merged, x, pitches[0], tuple(equations), tuple(operands_found))


def _from_zero(statement: Stmt) -> tuple[tuple[Loop | Guard, ...], Equation]:
    """The levels of a nest of one equation, and the equation, with all loops beginning at 0."""
    found = sole_equation(statement)
    assert found is not None
    levels = [level for _, level in perfect_nest(statement)]
    moved: dict[str, Expr] = {
        level.variable: plus(Variable(level.variable), Integer(level.first))
        for level in levels
        if isinstance(level, Loop) and level.first > 0
    }

    def shifted(expression: Expr) -> Expr:
        if isinstance(expression, Access):
            places = [substitute_in(index, moved) for index in expression.indices]
            return Access(expression.tensor, tuple(as_expression(as_sum(place)) for place in places))
        if isinstance(expression, Variable):
            return moved.get(expression.name, expression)
        return with_operands(expression, tuple(shifted(operand) for operand in operands(expression)))

    if not moved:
        return tuple(replace(level, body=()) for level in levels), found[1]
    target = shifted(found[1].target)
    assert isinstance(target, Access)
    new = [
        Guard(shifted(level.condition), ()) if isinstance(level, Guard) else replace(level, first=0, body=())
        for level in levels
    ]
    return tuple(new), replace(found[1], target=target, value=shifted(found[1].value))


def _names(first: Sequence[Loop | Guard], other: Sequence[Loop | Guard]) -> dict[str, Expr]:
    """The loop variables of a nest in terms of the first's, where both have loops of the same extents."""
    loops = [[level for level in levels if isinstance(level, Loop)] for levels in (first, other)]
    if [loop.extent for loop in loops[0]] != [loop.extent for loop in loops[1]]:
        raise NotAlike("their headers differ")
    if any("B" in (a.kind, b.kind) and a.kind != b.kind for a, b in zip(*loops, strict=True)):
        raise NotAlike("one is bound to the GPU otherwise than another")
    return {b.variable: Variable(a.variable) for a, b in zip(*loops, strict=True)}


def _of_one_kind(loops: Sequence[Loop]) -> Loop:
    """The first of several loops; serial, where they are of different kinds."""
    kinds = dict.fromkeys(loop.kind for loop in loops)
    return loops[0] if len(kinds) == 1 else replace(loops[0], kind="L")


def _next_loop(levels: Sequence[Loop | Guard], loops: Iterator[Loop]) -> Iterator[Loop | Guard]:
    for level in levels:
        yield next(loops) if isinstance(level, Loop) else level


def _renamed_level(level: Loop | Guard, names: dict[str, Expr]) -> Loop | Guard:
    return Guard(substitute_in(level.condition, names), ()) if isinstance(level, Guard) else level


def _renamed(target: Access, names: dict[str, Expr]) -> Access:
    result = substitute_in(target, names)
    assert isinstance(result, Access)
    return result


def _alike(first: Equation, own: Equation, reads: Sequence[Access]) -> tuple[Equation, tuple[Access, ...]]:
    """The equation with operands of sums and products in the first's order, and what it reads. Raises NotAlike."""
    wanted, _ = _shape(first.value)
    if own.op == first.op:
        for value in islice(_commuted(own.value), _MOST_ORDERS):
            shape, found = _shape(value)
            if shape == wanted and all(_places(a) == _places(b) for a, b in zip(reads, found, strict=True)):
                return replace(own, value=value), found
    raise NotAlike("their equations differ in more than tensors")


def _commuted(value: Expr) -> Iterator[Expr]:
    """The value with the operands of its sums and products in all orders, first as it is. No rounding depends on it."""
    if isinstance(value, Access):
        yield value
        return
    orders = [islice(_commuted(operand), _MOST_ORDERS) for operand in operands(value)]
    for below in product(*orders):
        yield with_operands(value, below)
        if isinstance(value, Binary) and value.op in ("+", "*"):
            yield with_operands(value, below[::-1])


def _places(read: Access) -> tuple[object, ...]:
    """The subscripts that are no numbers, as sums that do not depend on how they are written."""
    sums = [as_sum(index) for index in read.indices if constant(index) is None]
    return tuple(
        (tuple(sorted((expression_text(t), n) for t, n in total.terms.items())), total.constant) for total in sums
    )


def _shape(value: Expr) -> tuple[Expr, tuple[Access, ...]]:
    """A value with holes where it reads tensors or compares numbers, and what it reads."""
    if isinstance(value, Access):
        return _HOLE, (value,)
    if isinstance(value, Binary) and value.op in _COMPARISONS and not any(accesses(value)):
        return Binary("==", _HOLE, _HOLE), ()
    below = [_shape(operand) for operand in operands(value)]
    return with_operands(value, tuple(shape for shape, _ in below)), tuple(a for _, found in below for a in found)


def with_reads(value: Expr, reads: Iterator[Access]) -> Expr:
    """The value with other accesses, in the order of the text."""
    if isinstance(value, Access):
        return next(reads)
    return with_operands(value, tuple(with_reads(operand, reads) for operand in operands(value)))


def _operand(reads: tuple[Access, ...], x: Loop, sizes: dict[str, tuple[int, ...]]) -> Operand:
    texts = " and ".join(dict.fromkeys(read.tensor for read in reads))
    kept = [[n for n, index in enumerate(read.indices) if constant(index) is None] for read in reads]
    found = [_places(read) for read in reads]
    indices = tuple(index for index in reads[0].indices if constant(index) is None)
    shapes = [tuple(sizes[read.tensor][n] for n in places) for read, places in zip(reads, kept, strict=True)]
    if any(any(accesses(index)) for index in indices):
        raise NotAlike(f"another tensor says where {texts} is read")
    if len(dict.fromkeys(found)) > 1 or len(dict.fromkeys(shapes)) > 1:
        raise NotAlike(f"places or shapes of {texts} differ")
    moving = [n for n, index in enumerate(indices) if x.variable in variables_of(index)]
    if not moving:
        return Operand(reads, indices, shapes[0], None)
    if len(moving) > 1:
        raise NotAlike(f"{x.variable} moves in more than one dimension of {texts}")
    others = [t for t in as_sum(indices[moving[0]]).terms if t != Variable(x.variable)]
    if any(x.variable in variables_of(term) for term in others):
        raise NotAlike(f"the place in {texts} does not move with {x.variable} evenly")
    return Operand(reads, indices, shapes[0], moving[0])


def _pitch(operand: Operand, x: Loop) -> int:
    """How many iterations of x an operand is long."""
    assert operand.along is not None
    stride = as_sum(operand.indices[operand.along]).terms.get(Variable(x.variable), 0)
    size = operand.shape[operand.along]
    if stride < 1 or size % stride or size < stride * x.extent:
        texts = " and ".join(dict.fromkeys(read.tensor for read in operand.reads))
        raise NotAlike(f"{size} elements of {texts} are not {stride} for each of {x.extent} or more results")
    return size // stride


def _require_targets(targets: Sequence[Access], x: Loop, levels: Sequence[Loop | Guard], first: Equation) -> None:
    loops = [level.variable for level in levels if isinstance(level, Loop)]
    kept = [sorted(index.name for index in target.indices if isinstance(index, Variable)) for target in targets]
    plain = all(isinstance(index, Variable) or constant(index) is not None for t in targets for index in t.indices)
    if not plain or any(names != kept[0] or len(set(names)) != len(names) for names in kept):
        raise NotAlike("a result's subscripts are more than loop variables, or differ")
    if x.variable not in kept[0]:
        raise NotAlike(f"{x.variable} does not number results")
    if first.op == "=" and sorted(loops) != kept[0]:
        raise NotAlike("a result is stored more than once")


def _widened(expression: Expr, x: str, more: int) -> Expr:
    """See `Windows.widened`; `more` iterations are added to x."""
    match expression:
        case Access():
            return expression
        case Binary("<" | "<=" | ">" | ">=" as op, left, right) if not any(accesses(expression)):
            slope = as_sum(left).terms.get(Variable(x), 0) - as_sum(right).terms.get(Variable(x), 0)
            if op in ("<", "<="):
                return Binary(op, left, plus(right, Integer(slope * more))) if slope > 0 else expression
            return Binary(op, plus(left, Integer(-slope * more)), right) if slope < 0 else expression
        case _:
            return with_operands(expression, tuple(_widened(operand, x, more) for operand in operands(expression)))


def conditions_on(value: Expr, x: str) -> Iterator[Expr | None]:
    """The comparisons of a value that x decides; None for any other use of x than in a subscript."""
    match value:
        case Access():
            return
        case Variable(name):
            if name == x:
                yield None
        case Binary(op) if op in _COMPARISONS and not any(accesses(value)):
            if x in variables_of(value):
                yield value
        case _:
            for operand in operands(value):
                yield from conditions_on(operand, x)


def wrong_boxes(windows: Windows, number: int) -> tuple[tuple[Box, ...], bool]:
    """The smallest boxes that hold each run of x at which a result of one operand comes out wrong end to end.

    Whether they hold wrong results only. A box has the first and last value of x, then of the other kept loops in
    their order. Raises TooHard; conditions must be quasi-affine.
    """
    x = windows.x
    kept = [x, *(loop for loop in windows.kept if loop != x)]
    rest = [loop for loop in windows.loops if loop not in kept]
    names = {loop.variable: f"x{n}" for n, loop in enumerate((*kept, *rest))}
    bounds = [f"{loop.first} <= {names[loop.variable]} < {loop.first + loop.extent}" for loop in (*kept, *rest)]
    moved: dict[str, Expr] = {x.variable: plus(Variable(x.variable), Integer(number * windows.pitch))}

    def text(expression: Expr, joint: bool, holds: bool) -> str:
        own = substitute_in(windows.widened(expression), moved) if joint else expression
        return condition(own, names, holds=holds)

    def differs(alone: Sequence[Expr], joint: Sequence[Expr]) -> str:
        """isl text for: all of these hold in the nest of its own, or in the joint one, but not in both."""
        own, together = (_all(text(e, side, True) for e in es) for es, side in ((alone, False), (joint, True)))
        not_own, not_joint = (_any(text(e, side, False) for e in es) for es, side in ((alone, False), (joint, True)))
        return f"(({own} and {not_joint}) or ({not_own} and {together}))"

    ways = [differs(windows.guards(number), windows.guards(0))]
    own = _all(text(guard, False, True) for guard in windows.guards(number))
    inner = [_compared(windows.equations[n].value) for n in (number, 0)]
    ways += [f"({own} and {differs([a], [b])})" for a, b in dict.fromkeys(zip(*inner, strict=True))]
    return box_hulls(question(list(names.values()), [*bounds, _any(ways)]), len(kept))


def _compared(value: Expr) -> list[Expr]:
    """The comparisons of numbers in a value, in the order of the text."""
    if isinstance(value, Access):
        return []
    if isinstance(value, Binary) and value.op in _COMPARISONS and not any(accesses(value)):
        return [value]
    return [found for operand in operands(value) for found in _compared(operand)]


def _all(texts: Iterator[str] | Sequence[str]) -> str:
    found = list(texts)
    return f"({' and '.join(found)})" if found else "true"


def _any(texts: Iterator[str] | Sequence[str]) -> str:
    found = list(texts)
    return f"({' or '.join(found)})" if found else "false"


def why_not_affine(windows: Windows) -> str:
    """Which condition, or use of x, cannot be decided; empty if all can."""
    x = windows.x.variable
    found: list[Expr | None] = []
    for number, equation in enumerate(windows.equations):
        guards = windows.guards(number)
        if any(any(accesses(guard)) for guard in guards):
            return "a guard reads a tensor"
        found += [*guards, *conditions_on(equation.value, x), *_compared(equation.value)]
    if None in found:
        return f"{x} stands in a value, not only in subscripts and conditions"
    names = {loop.variable: loop.variable for loop in windows.loops}
    if not all(is_exact(c, names) for c in found if c is not None):
        return "a condition is not quasi-affine"
    return ""


def right_boxes(windows: Windows, wrong: Sequence[Box]) -> tuple[Box, ...]:
    """All results of one operand that no box holds, as boxes."""
    x, *others = [windows.x, *(loop for loop in windows.kept if loop != windows.x)]
    whole = tuple((loop.first, loop.first + loop.extent - 1) for loop in others)
    ends = [(-1, -1), *(box[0] for box in wrong), (x.extent, x.extent)]
    between = [((a[1] + 1, b[0] - 1), *whole) for a, b in pairwise(ends) if a[1] + 1 < b[0]]
    return (*between, *(part for box in wrong for part in _beside(box, whole)))


def _beside(box: Box, whole: Box) -> Iterator[Box]:
    """What is left of the values of the first dimension when a box is taken out; `whole`: the other dimensions."""
    for number, (low, high) in enumerate(whole, 1):
        before, after = (low, box[number][0] - 1), (box[number][1] + 1, high)
        for part in (before, after):
            if part[0] <= part[1]:
                yield (*box[:number], part, *whole[number:])
