"""The first two nests of a softmax: the maximum of each row, and the sum of exp(a-maximum) over it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from leir.analysis.flow import Origin
from leir.analysis.matching import matching_values
from leir.edit import (
    equation_paths,
    loops_around,
    nested,
    perfect_nest,
    replace_at,
    sole_equation,
    statement_at,
    variables_of,
)
from leir.names import substitute_in
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
    """The equations of the two nests, which hold one each, with their paths."""
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


def in_one_nest(
    program: Program, maximum_nest: Path, sum_nest: Path, softmax: Softmax
) -> tuple[Program, Program, dict[Path, Origin]]:
    """The program with its sum taken of `a` alone, the same with both reductions in one nest, and where its equations
    come from.

    Without exp and maximum the two compare by the flow of values: what the sum needs of the maximum, an online softmax
    provides by rescaling.
    """
    _, (path, second) = equations_of(program, maximum_nest, sum_nest)
    terms = terms_of_sum(second, softmax.maximum.tensor)
    assert terms is not None
    before = replace_at(program, path, replace(second, value=terms[0]))
    pair = (Equation(softmax.maximum, "max=", softmax.value), Equation(softmax.total, "+=", softmax.value))
    after = replace_at(replace_at(before, sum_nest), maximum_nest, *nested(softmax.levels, pair))
    body = (*maximum_nest, *(0 for _ in softmax.levels[1:]))
    both = dict(zip(((*body, 0), (*body, 1)), softmax.origins, strict=True))
    replaced = {origin.path for origin in softmax.origins}
    others = [old for old in equation_paths(before) if old not in replaced]
    kept = zip((new for new in equation_paths(after) if new not in both), others, strict=True)
    same = {new: Origin(old, tuple(Variable(n.variable) for n in loops_around(after, new))) for new, old in kept}
    return before, after, {**same, **both}
