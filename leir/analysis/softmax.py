"""The first two nests of a softmax: the maximum of each row, and the sum of exp(a-maximum) over it."""

from collections.abc import Sequence
from dataclasses import dataclass

from leir.analysis.flow import Origin
from leir.analysis.matching import matching_values
from leir.edit import loops_around, perfect_nest, sole_equation, statement_at, substitute_in, variables_of
from leir.syntax import Access, Binary, Call, Equation, Expr, Guard, Loop, Path, Program, Variable


@dataclass(frozen=True, slots=True)
class Softmax:
    """The two nests as one, in the loop variables of one of them.

    `levels`: its loops and guards; `rows` those around a row's work, `within` those of the reduction. `value`: the `a`
    of both. `maximum`, `total`: the accesses to D and E. `origins`: where their equations come from.
    """

    levels: tuple[Loop | Guard, ...]
    rows: tuple[Loop | Guard, ...]
    within: tuple[Loop | Guard, ...]
    value: Expr
    maximum: Access
    total: Access
    origins: tuple[Origin, Origin]


def _divided(
    levels: Sequence[Loop | Guard], maximum: Access
) -> tuple[tuple[Loop | Guard, ...], tuple[Loop | Guard, ...]]:
    """The levels around a row's work and those of its reduction, each in their order.

    A guard belongs to the reduction if it reads a variable of it, or follows a guard that does and may protect it.
    """
    rows: list[Loop | Guard] = []
    within: list[Loop | Guard] = []
    reduced = {level.variable for level in levels if isinstance(level, Loop)} - variables_of(maximum)
    for level in levels:
        match level:
            case Loop(variable=variable):
                inner = variable in reduced
            case Guard(condition):
                inner = bool(variables_of(condition) & reduced) or any(isinstance(other, Guard) for other in within)
        (within if inner else rows).append(level)
    return tuple(rows), tuple(within)


def equations_of(program: Program, maximum: Path, total: Path) -> tuple[tuple[Path, Equation], tuple[Path, Equation]]:
    first, second = (sole_equation(statement_at(program, path), path) for path in (maximum, total))
    assert first is not None and second is not None
    return first, second


def is_pair(maximum: Equation, total: Equation) -> bool:
    """Whether two equations look like a row's maximum and its sum of exponentials: cheap, and no proof."""
    return maximum.op == "max=" and terms_of_sum(total, maximum.target.tensor) is not None


def terms_of_sum(equation: Equation, maximum: str) -> tuple[Expr, Access] | None:
    """`a` and the access to the maximum, of `+= exp(a-D_{...})`."""
    match equation:
        case Equation(_, "+=", Call("exp", (Binary("-", value, Access(tensor) as access),))) if tensor == maximum:
            return value, access
        case _:
            return None


def softmax_at(program: Program, maximum_nest: Path, sum_nest: Path) -> Softmax | None:
    """The two nests in the variables of the one whose loops can express the other's; None if they are no softmax.

    Whether each is a full reduction, and whether both take the same terms, is for the caller to prove.
    """
    (first_path, first), (second_path, second) = equations_of(program, maximum_nest, sum_nest)
    terms = terms_of_sum(second, first.target.tensor)
    if terms is None:
        return None
    paths = (first_path, second_path)
    patterns = ((first.value, first.target), terms)
    nests = [[level for _, level in perfect_nest(statement_at(program, path))] for path in (maximum_nest, sum_nest)]
    variables = [[level.variable for level in nest if isinstance(level, Loop)] for nest in nests]
    for kept, other in ((0, 1), (1, 0)):
        values = matching_values(patterns[other], patterns[kept], variables[other])
        if values is None:
            continue
        value, maximum = patterns[kept]
        total = substitute_in(second.target, values if other == 1 else {})
        assert isinstance(maximum, Access) and isinstance(total, Access)
        rows = variables_of(maximum) & set(variables[kept])
        if variables_of(total) & set(variables[kept]) != rows:
            return None
        around = [tuple(Variable(loop.variable) for loop in loops_around(program, path)) for path in paths]
        moved = tuple(values.get(v.name, v) for v in around[other])
        origins = Origin(paths[0], moved if other == 0 else around[0]), Origin(paths[1], moved if other else around[1])
        return Softmax(tuple(nests[kept]), *_divided(nests[kept], maximum), value, maximum, total, origins)
    return None
