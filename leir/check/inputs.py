"""Ranges of integer inputs within which every gather of a program stays in its tensor.

A precondition says which values of a subscript are allowed; what draws inputs needs values of the inputs instead. The
search starts at one value for each input that violates nothing wherever it stands, and widens each input's range as
far as nothing can be violated. Ranges are therefore right, and widest one input after the other; an index that is only
right element by element (`A_{I_i-i}` of a tensor of size 1) has none.
"""

from collections.abc import Iterable

from leir.analysis.access import dtype_interval
from leir.analysis.affine import Interval
from leir.analysis.isl import Point, TooHard, example, left_over
from leir.check.bounds import Precondition, preconditions
from leir.syntax import Access, Cast, Expr, Program

_FURTHEST = 2**31  # from the start: no tensor is longer
_FREE = 16  # how far a range goes where nothing bounds it


def input_ranges(program: Program) -> dict[str, tuple[int, int]]:
    """For inputs that decide gathers: the least and largest value of their elements, for a well-formed program.

    Any elements in these ranges satisfy every precondition of the inputs named. Left out: inputs that no gather needs,
    and those for which isl finds no range.
    """
    known = {d.tensor: dtype_interval(d.dtype) for d in program.inputs}
    result: dict[str, tuple[int, int]] = {}
    for group in _linked(preconditions(program)):
        result |= _ranges(group, known)
    return result


def _linked(needs: Iterable[Precondition]) -> list[list[Precondition]]:
    """The preconditions in groups that have no input in common."""
    result: list[list[Precondition]] = []
    for need in needs:
        meets = [group for group in result if any(set(need.index) & set(other.index) for other in group)]
        result = [group for group in result if group not in meets]
        result.append([*(other for group in meets for other in group), need])
    return result


def _ranges(group: list[Precondition], known: dict[str, Interval]) -> dict[str, tuple[int, int]]:
    names = list(dict.fromkeys(name for need in group for name in need.index))
    owners = [[_owner(atom) for atom in need.atoms] for need in group]
    if any(owner is None for found in owners for owner in found):
        return {}
    try:
        start = _start(group, owners, names, known)
        if start is None:
            return {}
        ranges = {name: (value, value) for name, value in zip(names, start, strict=True)}
        for name in names:
            low, high = known[name]
            for end, limit in ((1, high), (0, low)):
                ranges = _widened(group, owners, ranges, name, end, int(limit))
    except TooHard:
        return {}
    return ranges


def _owner(atom: Expr) -> str | None:
    """The input whose element an opaque part of a subscript is, also through casts that keep it."""
    match atom:
        case Access(tensor):
            return tensor
        case Cast(_, operand):
            return _owner(operand)
        case _:
            return None


def _violations(need: Precondition, owners: list[str | None], within: dict[str, str]) -> str:
    """The set of a precondition's violations, with the constraint of `within` on the atoms of each input."""
    limits = [within[owner].format(f"z{n}") for n, owner in enumerate(owners) if owner is not None]
    return need.violated[:-1].rstrip() + " and " + " and ".join(limits) + " }"


def _start(
    group: list[Precondition], owners: list[list[str | None]], names: list[str], known: dict[str, Interval]
) -> Point | None:
    """One value for each input that violates nothing; the least that are not negative where there are such."""
    variables = {name: f"t{n}" for n, name in enumerate(names)}
    violations: list[str] = []
    for need, owned in zip(group, owners, strict=True):
        dimensions, _, constraints = need.violated.strip("{} ").partition(":")
        equal = "".join(f" and z{n} = {variables[owner]}" for n, owner in enumerate(owned) if owner is not None)
        hidden = dimensions.strip().strip("[]")
        violations.append(f"(exists {hidden} : {constraints.strip()}{equal})")
    shown = ",".join(variables.values())
    ends = [f"{int(known[name][0])} <= {t} <= {int(known[name][1])}" for name, t in variables.items()]
    violated = f"{{ [{shown}] : {' or '.join(violations)} }}"
    for more in ([f"{t} >= 0" for t in variables.values()], list[str]()):
        found = left_over(f"{{ [{shown}] : {' and '.join([*ends, *more])} }}", violated, 0)
        if found is not None:
            return found
    return None


def _widened(
    group: list[Precondition],
    owners: list[list[str | None]],
    ranges: dict[str, tuple[int, int]],
    name: str,
    end: int,
    limit: int,
) -> dict[str, tuple[int, int]]:
    """The ranges with one end of one input's moved out as far as nothing is violated, at most to `limit`."""

    def moved(distance: int) -> dict[str, tuple[int, int]]:
        low, high = ranges[name]
        return {**ranges, name: (low, min(high + distance, limit)) if end else (max(low - distance, limit), high)}

    def is_right(candidate: dict[str, tuple[int, int]]) -> bool:
        within = {tensor: f"{low} <= {{}} <= {high}" for tensor, (low, high) in candidate.items()}
        return all(example(_violations(need, owned, within)) is None for need, owned in zip(group, owners, strict=True))

    right, wrong = 0, 1
    while wrong <= _FURTHEST and is_right(moved(wrong)):
        right, wrong = wrong, wrong * 2
    if wrong > _FURTHEST:
        return moved(_FREE)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (middle, wrong) if is_right(moved(middle)) else (right, middle)
    return moved(right)
