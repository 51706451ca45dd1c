"""Two nests that are one computation on different tensors, and the nest that does the work of both."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from leir.analysis.box import as_sum, plus
from leir.analysis.matching import COMMUTING, is_of_indices, pairings
from leir.edit import dtypes, variables_of, with_operands
from leir.names import substitute_in, unused_variable
from leir.printer import equation_text, expression_text
from leir.syntax import (
    BINARY_FUNCTIONS,
    Access,
    Binary,
    Call,
    DType,
    Equation,
    Expr,
    Guard,
    Integer,
    Loop,
    Path,
    Program,
    Stmt,
    Variable,
    operands,
)
from strategies.work import Work, copy_of, into, moved, new_names, out_of, result_entry

Pair = tuple[Path, Expr, Expr]  # where a read, or an expression of indices, stands in the first value; it; the other's


@dataclass(frozen=True, slots=True)
class Alike:
    """The works with loops that count from zero, the second in the loop variables of the first.

    `reads`: where the first value reads what, and what the second reads there; those that are not the same in both
    works are to be laid together. `axis`: the loop along which, or "".
    """

    one: Work
    other: Work
    axis: str
    reads: tuple[tuple[Path, Access, Access], ...]

    @property
    def shared(self) -> tuple[Access, ...]:
        return tuple(a for _, a, b in self.reads if a == b and self.axis not in variables_of(a))

    @property
    def differing(self) -> tuple[tuple[Access, Access], ...]:
        pairs = ((a, b) for _, a, b in self.reads if a != b or self.axis in variables_of(a))
        return tuple(dict.fromkeys(pairs))


@dataclass(frozen=True, slots=True)
class Unlike:
    """Why two works are not one computation that could be joined."""

    reason: str


@dataclass(frozen=True, slots=True)
class Joint:
    """The statements of the joint work, in order, and the temporaries that they need; `names`: all but the last, the
    result. `levels`, `equation`: of the joint nest; `loop`: the variable along which it is joint; `taken`: what takes
    the results apart."""

    statements: tuple[Stmt, ...]
    new: tuple[tuple[str, DType, tuple[int, ...]], ...]
    names: tuple[str, ...]
    levels: tuple[Loop | Guard, ...]
    loop: str
    equation: Equation
    taken: tuple[Equation, Equation]


def alike(one: Work, other: Work, axis: str, types: Mapping[str, DType]) -> Alike | Unlike:
    """The two works as one computation along an axis of the first, or along a new one (""); or why they are not."""
    if one.equation.op != other.equation.op or types[one.target] != types[other.target]:
        a, b = equation_text(one.equation), equation_text(other.equation)
        return Unlike(f"{a} and {b} combine or store their values otherwise")
    shown = [expression_text(work.equation.value) for work in (other, one)]
    problems: list[Unlike] = []
    if len(one.loops) != len(other.loops):
        return Unlike(f"one has {len(one.loops)} loops, the other {len(other.loops)}")
    found: list[Alike] = []
    one, other = _from_zero(one), _from_zero(other)
    for pairs in alignments(one.equation.value, other.equation.value):
        for names in _renamings(one, other, pairs):
            match = _fitted(one, _renamed(other, names), axis, types)
            if isinstance(match, Alike):
                found.append(match)
            else:
                problems.append(match)
    if found:
        return max(found, key=lambda match: len(match.shared))
    return problems[0] if problems else Unlike(f"{shown[0]} is not {shown[1]} up to names")


def alignments(one: Expr, other: Expr, within: Path = ()) -> Iterator[tuple[Pair, ...]]:
    """The ways in which two expressions are alike up to what they read; operands may have changed sides."""
    match one, other:
        case Access(), Access():
            yield ((within, one, other),)
            return
        case _ if is_of_indices(one) and is_of_indices(other):
            yield ((within, one, other),)
            return
        case Binary(op), Binary(same) if op == same:
            orders = ((0, 1), (1, 0)) if op in COMMUTING else ((0, 1),)
        case Call(function), Call(same) if function == same:
            orders = ((0, 1), (1, 0)) if function in BINARY_FUNCTIONS else ((0,),)
        case _:
            below = operands(one)
            if type(one) is not type(other) or len(below) != len(operands(other)) or with_operands(other, below) != one:
                return
            orders = (tuple(range(len(below))),)
    for order in orders:
        yield from _all_aligned(operands(one), [operands(other)[number] for number in order], within, 0)


def _all_aligned(one: tuple[Expr, ...], other: list[Expr], within: Path, number: int) -> Iterator[tuple[Pair, ...]]:
    if number == len(one):
        yield ()
        return
    for first in alignments(one[number], other[number], (*within, number)):
        yield from ((*first, *rest) for rest in _all_aligned(one, other, within, number + 1))


def _renamings(one: Work, other: Work, pairs: tuple[Pair, ...]) -> Iterator[dict[str, Expr]]:
    """Ways to pair the second work's loops with the first's: as tensors that both read, all that they read, or the
    results have them in their subscripts, and the rest in order."""
    own, others = ([loop.variable for loop in work.loops] for work in (one, other))
    reads = [(a, b) for _, a, b in pairs]
    common = [(a, b) for a, b in reads if isinstance(a, Access) and isinstance(b, Access) and a.tensor == b.tensor]
    results: list[tuple[Expr, Expr]] = [(one.equation.target, other.equation.target)]
    tried: list[dict[str, str]] = []
    for order in ([*common, *reads, *results], [*results, *reads], []):
        names: dict[str, str] = {}
        for a, b in order:
            for left, right in zip(_subscripts(a), _subscripts(b), strict=False):
                match left, right:
                    case Variable(mine), Variable(its) if mine in own and its in others:
                        if its not in names and mine not in names.values():
                            names[its] = mine
                    case _:
                        pass
        rest = [name for name in own if name not in names.values()]
        names |= dict(zip([name for name in others if name not in names], rest, strict=True))
        if names not in tried:
            tried.append(names)
            yield {its: Variable(mine) for its, mine in names.items()}


def _subscripts(expression: Expr) -> tuple[Expr, ...]:
    return expression.indices if isinstance(expression, Access) else (expression,)


def _renamed(work: Work, names: dict[str, Expr]) -> Work:
    def level_of(level: Loop | Guard) -> Loop | Guard:
        if isinstance(level, Guard):
            return Guard(substitute_in(level.condition, names), ())
        new = names[level.variable]
        assert isinstance(new, Variable)
        return replace(level, variable=new.name)

    target = substitute_in(work.equation.target, names)
    assert isinstance(target, Access)
    equation = Equation(target, work.equation.op, substitute_in(work.equation.value, names))
    return replace(work, levels=tuple(map(level_of, work.levels)), equation=equation)


def _from_zero(work: Work) -> Work:
    for loop in work.loops:
        work = moved(work, loop, loop.first, loop.extent)
    return work


def _fitted(one: Work, other: Work, axis: str, types: Mapping[str, DType]) -> Alike | Unlike:
    """The works, if loops, guards and what they read fit together."""
    by_name = {loop.variable: loop for loop in other.loops}
    for loop in one.loops:
        its = by_name[loop.variable].extent
        if loop.variable != axis and its != loop.extent:
            return Unlike(f"loop {loop.variable} has {loop.extent} iterations in one, {its} in the other")
    if {loop.variable for loop in one.spatial} != {loop.variable for loop in other.spatial}:
        return Unlike("their results are subscripted by other loops")
    if [loop.variable for loop in one.reduced] != [loop.variable for loop in other.reduced]:
        return Unlike("they reduce over their loops in another order")
    guards = [[level.condition for level in work.levels if isinstance(level, Guard)] for work in (one, other)]
    if len(guards[0]) != len(guards[1]) or not all(map(_same_condition, *guards)):
        return Unlike("their guards differ")
    if any(axis in variables_of(guard) for guard in guards[0]):
        return Unlike(f"a guard depends on {axis}")
    problems: list[Unlike] = []
    for pairs in alignments(one.equation.value, other.equation.value):
        match = _laid(one, other, axis, pairs, types)
        if isinstance(match, Alike):
            return match
        problems.append(match)
    return problems[0]


def _same_condition(one: Expr, other: Expr) -> bool:
    return any(all(as_sum(a) == as_sum(b) for a, b in pairs) for pairs in pairings(one, other))


def _laid(one: Work, other: Work, axis: str, pairs: tuple[Pair, ...], types: Mapping[str, DType]) -> Alike | Unlike:
    reads: list[tuple[Path, Access, Access]] = []
    for within, a, b in pairs:
        if not isinstance(a, Access) or not isinstance(b, Access):
            if a != b or axis in variables_of(a):
                return Unlike(f"{expression_text(a)} and {expression_text(b)} are other values along the axis")
            continue
        reads.append((within, a, b))
    match = Alike(one, other, axis, tuple(reads))
    for a, b in match.differing:
        shown = f"{expression_text(a)} and {expression_text(b)}"
        if types[a.tensor] != types[b.tensor]:
            return Unlike(f"{shown} have different types")
        if not _is_plain(a, one) or not _is_plain(b, other) or variables_of(a) != variables_of(b):
            return Unlike(f"{shown} cannot be laid together: their subscripts are not the same plain variables")
        if axis and axis not in variables_of(a):
            return Unlike(f"{shown} differ, and are the same all along {axis}")
    return match


def _is_plain(access: Access, work: Work) -> bool:
    """Whether the subscripts are different loop variables of the work, or do without them."""
    own = {loop.variable for loop in work.loops}
    moving = [index for index in access.indices if variables_of(index) & own]
    return all(isinstance(index, Variable) for index in moving) and len(set(moving)) == len(moving)


def joined(program: Program, match: Alike) -> Joint:
    """The joint work of two: operands laid together, one nest, and its results taken apart."""
    names, types = new_names(program), dtypes(program)
    loop = match.one.axis(match.axis)
    if loop is None:
        taken = {v for level in (*match.one.around, *match.one.loops) for v in (level.variable,)}
        loop = Loop("L", unused_variable(taken), 1, 0, ())
        levels = (replace(loop, extent=2), *match.one.levels)
        sizes = (1, 1)
    else:
        along = match.other.axis(match.axis)
        assert along is not None
        sizes = (loop.extent, along.extent)
        whole = replace(loop, extent=sum(sizes))
        levels = tuple(whole if level == loop else level for level in match.one.levels)

    def part(entry: Access, number: int) -> Access:
        """The element of a joint tensor that holds what the first or the second work has at `entry`."""
        if not match.axis:
            return Access(entry.tensor, (Integer(number), *entry.indices))
        values: dict[str, Expr] = {match.axis: plus(Variable(match.axis), Integer(sizes[0]))} if number else {}
        new = substitute_in(entry, values)
        assert isinstance(new, Access)
        return new

    def whole_of(entry: Access) -> Access:
        return entry if match.axis else Access(entry.tensor, (Variable(loop.variable), *entry.indices))

    loops = (*match.one.around, *(level for level in levels if isinstance(level, Loop)))
    ends = {level.variable: level.first + level.extent for level in loops}
    statements: list[Stmt] = []
    new: list[tuple[str, DType, tuple[int, ...]]] = []

    def declare(entry: Access, dtype: DType) -> None:
        new.append((entry.tensor, dtype, tuple(ends[i.name] for i in entry.indices if isinstance(i, Variable))))

    entries: dict[tuple[Access, Access], Access] = {}
    for a, b in match.differing:
        entry = Access(next(names), match.one.indices_of(a))
        statements += [copy_of(match.one, a, part(entry, 0)), copy_of(match.other, b, part(entry, 1))]
        entries[a, b] = whole_of(entry)
        declare(entries[a, b], types[a.tensor])
    value = match.one.equation.value
    for within, a, b in match.reads:
        value = _replaced(value, within, entries.get((a, b), a))
    result = result_entry(next(names), match.one)
    declare(whole_of(result), types[match.one.target])
    joint = replace(match.one, levels=levels, equation=replace(match.one.equation, value=value))
    statements.append(into(joint, whole_of(result)))
    outs = (out_of(match.one, part(result, 0)), out_of(match.other, part(result, 1)))
    equations = tuple(replace(w.equation, value=part(result, n)) for n, w in enumerate((match.one, match.other)))
    laid = tuple(entry.tensor for entry in entries.values())
    equation = Equation(whole_of(result), match.one.equation.op, value)
    return Joint((*statements, *outs), tuple(new), laid, levels, loop.variable, equation, (equations[0], equations[1]))


def _replaced(expression: Expr, within: Path, new: Expr) -> Expr:
    if not within:
        return new
    below = list(operands(expression))
    below[within[0]] = _replaced(below[within[0]], within[1:], new)
    return with_operands(expression, tuple(below))
