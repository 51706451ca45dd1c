"""Which results come out wrong where operands are laid end to end: those near the seams, as boxes."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from leir.analysis.affine import condition, is_exact
from leir.analysis.box import plus
from leir.analysis.isl import Box, box_hulls, question
from leir.analysis.likeness import COMPARISONS
from leir.analysis.windows import Windows
from leir.edit import accesses, variables_of
from leir.names import substitute_in
from leir.syntax import Access, Binary, Expr, Integer, Variable, operands


def conditions_on(value: Expr, x: str) -> Iterator[Expr | None]:
    """The comparisons of a value that x decides; None for any other use of x than in a subscript."""
    match value:
        case Access():
            return
        case Variable(name):
            if name == x:
                yield None
        case Binary(op) if op in COMPARISONS and not any(accesses(value)):
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
    if isinstance(value, Binary) and value.op in COMPARISONS and not any(accesses(value)):
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
