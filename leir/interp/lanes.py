"""Which loops of a statement the interpreter may run as vectors, and whether that is worth it.

A loop's iterations are independent if every tensor that its body writes, and that outlives an iteration, is touched
at different elements by different iterations: in some subscript, every access has the form c*v + r, with one c for the
loop variable v, and values of r that differ by less than |c|. Such iterations may run in lockstep, as lanes of a
vector: each lane executes its own equations in the order written, so every rounding stays as it was.
"""

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass

from leir.edit import accesses, body_of, expressions, perfect_nest, sole_equation, walk, walk_expression
from leir.interp.tensors import Linear, Ranges, Tensor, linear
from leir.syntax import Access, Alloc, Binary, Equation, Guard, Integer, Loop, Path, Stmt, reads

LANE_LIMIT = 2**18  # lanes of one vector, where loops inside can be vectors too
FOLD_LIMIT = 2**16  # lanes of one fold, where the serial loops would have many lanes at each iteration as well
NARROW_FOLD_LIMIT = 2**21  # and where they would have fewer than `NARROW`
NARROW = 1024
LONG_LIMIT = 2**22  # lanes of one vector at all, and elements of all lanes' copies of a tensor
_DEPTH_LIMIT = 16  # loops and guards nested in one Python function
_SCALAR_COST, _VECTOR_COST, _LANE_COST = 0.15, 2.5, 0.003  # microseconds an operator costs


@dataclass(frozen=True, slots=True)
class Fold:
    """A nest of one accumulation whose serial loops run as lanes too: their terms are computed at once, then added up
    in order. All loops and guards of the nest, from the outside in."""

    loops: tuple[tuple[Path, Loop], ...]
    guards: tuple[Guard, ...]
    equation: Equation
    path: Path


def plan(statement: Stmt, path: Path, tensors: dict[str, Tensor]) -> frozenset[Path] | None:
    """The loops of a top-level statement that run as vectors; None where scalar code is the better choice."""
    below = [(path, statement), *walk(statement, path)]
    if any(len(at) - len(path) > _DEPTH_LIMIT for at, _ in below):
        return None
    if any(tensors[access.tensor].shape is None for access in accesses(statement)):
        return None
    free = _independent(statement, path)
    vectors: set[Path] = set()
    _choose(statement, path, 1, free, vectors)
    scalar, vector = _costs(statement, path, 1, 1, vectors)
    return frozenset(vectors) if vector < scalar else None


def _independent(statement: Stmt, path: Path) -> set[Path]:
    """The loops at or below a statement whose iterations are independent."""
    loops: dict[Path, Loop] = {path: statement} if isinstance(statement, Loop) else {}
    loops.update((at, node) for at, node in walk(statement, path) if isinstance(node, Loop))
    touched = list(_touched(statement, path, {}))
    result: set[Path] = set()
    for at, loop in loops.items():
        inside = [(access, ranges, written) for where, access, ranges, written in touched if where[: len(at)] == at]
        fresh = {s.tensor: math.prod(s.shape) for _, s in walk(loop, at) if isinstance(s, Alloc)}
        names = dict.fromkeys(access.tensor for access, _, written in inside if written)
        if sum(fresh.values()) * loop.extent > LONG_LIMIT:
            continue
        own = {loop.variable, *(node.variable for below, node in loops.items() if below[: len(at)] == at)}
        if all(
            name in fresh or _separated([(a, r) for a, r, _ in inside if a.tensor == name], loop.variable, own)
            for name in names
        ):
            result.add(at)
    return result


def _touched(statement: Stmt, path: Path, ranges: Ranges) -> Iterator[tuple[Path, Access, Ranges, bool]]:
    target = statement.target if isinstance(statement, Equation) else None
    for expression in expressions(statement):
        for access in accesses(expression):
            yield path, access, ranges, access is target
    if isinstance(statement, Loop):
        ranges = {**ranges, statement.variable: (statement.first, statement.first + statement.extent - 1)}
    for number, below in enumerate(body_of(statement)):
        yield from _touched(below, (*path, number), ranges)


def _separated(touches: list[tuple[Access, Ranges]], variable: str, own: set[str]) -> bool:
    """Whether different values of the variable touch different elements; `own` vary within the loop, others do not."""
    first = _coordinates(touches[0][0])
    for key, form in first.items():
        coefficient = form.coefficients.get(variable, 0)
        outer = {name: c for name, c in form.coefficients.items() if name not in own}
        lows: list[int] = []
        highs: list[int] = []
        for access, ranges in touches:
            other = _coordinates(access).get(key)
            if coefficient == 0 or other is None or other.coefficients.get(variable, 0) != coefficient:
                break
            if {name: c for name, c in other.coefficients.items() if name not in own} != outer:
                break
            low = high = other.constant
            for name, c in other.coefficients.items():
                if name in own and name != variable:
                    ends = sorted(c * end for end in ranges[name])
                    low, high = low + ends[0], high + ends[1]
            lows.append(low)
            highs.append(high)
        else:
            if max(highs) - min(lows) < abs(coefficient):
                return True
    return False


def _coordinates(access: Access) -> dict[tuple[int, ...], Linear]:
    """Linear forms that an element determines: its subscripts, and x where two of them are x//n and x%n."""
    result: dict[tuple[int, ...], Linear] = {
        (number,): form for number, index in enumerate(access.indices) if (form := linear(index))
    }
    for number, index in enumerate(access.indices):
        match index:
            case Binary("//", value, Integer(divisor)) if divisor and (form := linear(value)):
                for other, candidate in enumerate(access.indices):
                    if candidate == Binary("%", value, Integer(divisor)):
                        result[(number, other)] = form
            case _:
                pass
    return result


def _choose(statement: Stmt, path: Path, lanes: int, free: set[Path], chosen: set[Path]) -> None:
    """Adds to `chosen` the loops to run as vectors: as far in as the limits on lanes allow, from the inside out."""
    if isinstance(statement, Loop) and path in free and statement.extent > 1:
        below = _potential(statement.body, path, free)
        if lanes * statement.extent * below <= (LANE_LIMIT if below > 1 else LONG_LIMIT):
            chosen.add(path)
            lanes *= statement.extent
    for number, inner in enumerate(body_of(statement)):
        _choose(inner, (*path, number), lanes, free, chosen)


def _potential(body: tuple[Stmt, ...], path: Path, free: set[Path]) -> int:
    """The most lanes that free loops below can have."""
    largest = 1
    for number, statement in enumerate(body):
        at = (*path, number)
        own = statement.extent if isinstance(statement, Loop) and at in free else 1
        largest = max(largest, own * _potential(body_of(statement), at, free))
    return largest


def _costs(statement: Stmt, path: Path, steps: int, lanes: int, vectors: set[Path]) -> tuple[float, float]:
    """Estimated microseconds as scalar code and as vectors, for `steps` executions of `lanes` lanes each."""
    if isinstance(statement, Loop) and path not in vectors:
        fold = fold_of(statement, path, lanes, vectors)
        if fold is not None:
            vectors = {*vectors, *(at for at, _ in fold.loops)}
    if isinstance(statement, Loop):
        if path in vectors:
            lanes *= statement.extent
        else:
            steps *= statement.extent
    size = sum(1 for e in expressions(statement) for _ in walk_expression(e)) if not isinstance(statement, Loop) else 0
    scalar, vector = steps * lanes * size * _SCALAR_COST, steps * size * (_VECTOR_COST + lanes * _LANE_COST)
    for number, below in enumerate(body_of(statement)):
        more = _costs(below, (*path, number), steps, lanes, vectors)
        scalar, vector = scalar + more[0], vector + more[1]
    return scalar, vector


def fold_of(statement: Stmt, path: Path, lanes: int, vectors: Set[Path]) -> Fold | None:
    """How to run a nest as one fold inside `lanes` lanes; None where it is not of that form, or too large."""
    found = sole_equation(statement, path)
    if found is None:
        return None
    at_equation, equation = found
    levels = perfect_nest(statement, path)
    loops = [(at, level) for at, level in levels if isinstance(level, Loop)]
    guards = [level for _, level in levels if isinstance(level, Guard)]
    at_once = lanes * math.prod(loop.extent for at, loop in loops if at in vectors)
    limit = FOLD_LIMIT if at_once >= NARROW else NARROW_FOLD_LIMIT
    if equation.op == "=" or lanes * math.prod(loop.extent for _, loop in loops) > limit:
        return None
    serial = {loop.variable for at, loop in loops if at not in vectors}
    forms = [linear(index) for index in equation.target.indices]
    if any(form is None or serial & form.coefficients.keys() for form in forms):
        return None
    if any(reads(guard.condition, equation.target.tensor) for guard in guards):
        return None
    return Fold(tuple(loops), tuple(guards), equation, at_equation)
