"""How many iterations run and how many different elements they touch, counted over the loops' integer points.

Loop variables fall into groups that no subscript and no condition connects; a group of up to `POINTS` iterations is
counted one by one, so that guards, // and % are exact. Where a group is larger, or a condition or subscript reads a
tensor, the count is an upper bound and says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from leir.edit import variables_of
from leir.syntax import Access, Binary, Call, Expr, Integer, Loop, Select, Unary, Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

POINTS = 2**20
Condition = tuple[Expr, bool]  # it holds, or it does not


@dataclass(frozen=True, slots=True)
class Count:
    """A number of iterations or elements: the number itself where `exact`, else at most that."""

    value: int
    exact: bool

    def __mul__(self, other: "Count") -> "Count":
        return Count(self.value * other.value, self.exact and other.exact)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.value + other.value, self.exact and other.exact)


Loops = Mapping[str, Loop]


def iterations(loops: Loops, conditions: Sequence[Condition]) -> Count:
    """How often a statement below `loops` runs, where all conditions hold."""
    total = Count(1, True)
    for names, _, together in _groups(loops, (), conditions):
        total *= _points(loops, names, together)
    return total


def elements(loops: Loops, conditions: Sequence[Condition], access: Access, shape: tuple[int, ...]) -> Count:
    """How many different elements of a tensor an access touches."""
    total = Count(1, True)
    for names, dimensions, together in _groups(loops, access.indices, conditions):
        if not dimensions:
            total *= Count(1, True) if _points(loops, names, together).value else Count(0, True)
            continue
        if not together and all(isinstance(access.indices[d], Variable) for d in dimensions):
            total *= Count(prod(loops[name].extent for name in names), True)
            continue
        offsets = _offsets(loops, names, dimensions, together, access.indices, shape)
        if offsets is None:
            reach = prod(_reach(access.indices[d], shape[d]) for d in dimensions)
            total *= Count(min(reach, prod(loops[name].extent for name in names)), False)
        else:
            total *= Count(len(offsets[0]), offsets[1])
    return total


def touched(
    loops: Loops, conditions: Sequence[Condition], access: Access, shape: tuple[int, ...]
) -> "NDArray[Any] | None":
    """The flat numbers of the elements that an access touches, sorted; None where that is not counted exactly."""
    import numpy as np

    size = elements(loops, conditions, access, shape)
    if not size.exact or size.value > POINTS:
        return None
    if size.value == 0:
        return np.zeros(0, dtype=np.int64)
    flat = np.zeros(1, dtype=np.int64)
    for names, dimensions, together in _groups(loops, access.indices, conditions):
        if dimensions:
            found = _offsets(loops, names, dimensions, together, access.indices, shape)
            assert found is not None
            flat = (flat[:, None] + found[0][None, :]).ravel()
    return np.unique(flat)


def _groups(
    loops: Loops, indices: tuple[Expr, ...], conditions: Sequence[Condition]
) -> list[tuple[tuple[str, ...], tuple[int, ...], tuple[Condition, ...]]]:
    """Loop variables, subscripts (by number) and conditions, grouped by the variables that they share."""
    parts: list[tuple[set[str], list[int], list[Condition]]] = [({name}, [], []) for name in loops]
    parts += [(variables_of(index) & set(loops), [number], []) for number, index in enumerate(indices)]
    parts += [(variables_of(condition) & set(loops), [], [(condition, holds)]) for condition, holds in conditions]
    merged: list[tuple[set[str], list[int], list[Condition]]] = []
    for part in parts:
        names, dimensions, together = set(part[0]), list(part[1]), list(part[2])
        rest: list[tuple[set[str], list[int], list[Condition]]] = []
        for other in merged:
            if other[0] & names:
                names |= other[0]
                dimensions, together = other[1] + dimensions, other[2] + together
            else:
                rest.append(other)
        merged = [*rest, (names, dimensions, together)]
    return [(tuple(n for n in loops if n in names), tuple(d), tuple(c)) for names, d, c in merged]


def _points(loops: Loops, names: tuple[str, ...], conditions: tuple[Condition, ...]) -> Count:
    size = prod(loops[name].extent for name in names)
    if not conditions:
        return Count(size, True)
    mask = _mask(loops, names, conditions)
    return Count(size, False) if mask is None else Count(int(mask[0].sum()), mask[1])


def _grid(loops: Loops, names: tuple[str, ...]) -> "dict[str, NDArray[Any]] | None":
    import numpy as np

    if prod(loops[name].extent for name in names) > POINTS:
        return None
    axes = [np.arange(loops[n].first, loops[n].first + loops[n].extent, dtype=np.int64) for n in names]
    return {n: mesh.ravel() for n, mesh in zip(names, np.meshgrid(*axes, indexing="ij"), strict=True)}


def _mask(
    loops: Loops, names: tuple[str, ...], conditions: tuple[Condition, ...]
) -> "tuple[NDArray[Any], bool] | None":
    """Where all conditions that can be evaluated hold, and whether these are all of them."""
    import numpy as np

    grid = _grid(loops, names)
    if grid is None:
        return None
    size = prod(loops[name].extent for name in names)
    result, exact = np.ones(size, dtype=bool), True
    for condition, holds in conditions:
        value = _evaluate(condition, grid)
        if value is None:
            exact = False
        else:
            result &= (np.broadcast_to(value, size) != 0) == holds
    return result, exact


def _offsets(
    loops: Loops,
    names: tuple[str, ...],
    dimensions: tuple[int, ...],
    conditions: tuple[Condition, ...],
    indices: tuple[Expr, ...],
    shape: tuple[int, ...],
) -> "tuple[NDArray[Any], bool] | None":
    """The different flat offsets of some subscripts of an access, and whether the conditions were all evaluated."""
    import numpy as np

    grid = _grid(loops, names)
    mask = _mask(loops, names, conditions)
    if grid is None or mask is None:
        return None
    flat = np.zeros(len(mask[0]), dtype=np.int64)
    for dimension in dimensions:
        value = _evaluate(indices[dimension], grid)
        if value is None:
            return None
        flat = flat + value * prod(shape[dimension + 1 :])
    return np.unique(flat[mask[0]]), mask[1]


def _reach(index: Expr, size: int) -> int:
    """How many values a subscript can have at most, knowing only its tensor's size."""
    return 1 if isinstance(index, Integer) else size


def _evaluate(expression: Expr, grid: "dict[str, NDArray[Any]]") -> Any:
    """An integer expression at every point, or None where it reads a tensor or computes in floats."""
    import numpy as np

    match expression:
        case Integer(value):
            return np.int64(value)
        case Variable(name):
            return grid.get(name)
        case Unary(op, operand):
            value = _evaluate(operand, grid)
            if value is None:
                return None
            result: Any = value == 0 if op == "!" else -value
            return result
        case Binary(op, left, right):
            a, b = _evaluate(left, grid), _evaluate(right, grid)
            return None if a is None or b is None else _operate(op, a, b)
        case Call("max" | "min" as function, (left, right)):
            a, b = _evaluate(left, grid), _evaluate(right, grid)
            if a is None or b is None:
                return None
            return np.maximum(a, b) if function == "max" else np.minimum(a, b)
        case Select(condition, then, otherwise):
            c, a, b = (_evaluate(part, grid) for part in (condition, then, otherwise))
            if c is None or a is None or b is None:
                return None
            where: Any = np.where  # typed for arrays of one known dtype
            return where(c != 0, a, b)
        case _:
            return None


def _operate(op: str, a: Any, b: Any) -> Any:
    import numpy as np

    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//" | "%":
            safe = np.where(b == 0, 1, b)
            return a // safe if op == "//" else a % safe
        case "<":
            return a < b
        case "<=":
            return a <= b
        case ">":
            return a > b
        case ">=":
            return a >= b
        case "==":
            return a == b
        case "!=":
            return a != b
        case "&&":
            return (a != 0) & (b != 0)
        case "||":
            return (a != 0) | (b != 0)
        case _:
            return None
