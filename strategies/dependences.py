"""What evidence says of the dependences in a nest: how far apart the iterations are that touch one element."""

from collections.abc import Sequence

from leir.analysis.distance import distances
from leir.analysis.isl import Box
from leir.edit import loops_around, perfect_nest, statement_at, tensors_read, tensors_written, walk
from leir.syntax import Equation, Guard, Loop, Path, Program
from strategies.base import listed
from strategies.blocks import reorderable_accumulations

LONGEST = 4  # loops of a nest whose distances are still told


def between(program: Program, outer: Path, inner: Path) -> tuple[tuple[Box, ...], list[str]] | None:
    """The distances of dependences in the loops from `outer` to `inner` of a perfect nest, and their variables.

    The order of terms that may be added in any order is no dependence here. None where distances are not known.
    """
    found = distances(program, outer, *_numbers(program, outer, inner), reorderable_accumulations(program, outer))
    return None if found is None else (found, _variables(program, outer, inner))


def independent_text(program: Program, outer: Path, inner: Path) -> str:
    """That no dependence is `between` the two, but for sums that go on from one iteration to another."""
    text = f"no iteration of {listed(_variables(program, outer, inner))} depends on another"
    if distances(program, outer, *_numbers(program, outer, inner)) == ():
        return text
    nodes = (statement_at(program, path) for path in reorderable_accumulations(program, outer))
    sums = dict.fromkeys(node.target.tensor for node in nodes if isinstance(node, Equation))
    return f"{text}, but for the terms of {listed(sums)}"


def _numbers(program: Program, outer: Path, inner: Path) -> tuple[int, int]:
    """The numbers of the first loop from `outer` to `inner`, and of the loop after the last."""
    return len(loops_around(program, outer)), len(loops_around(program, (*inner, 0)))


def _variables(program: Program, outer: Path, inner: Path) -> list[str]:
    first, last = _numbers(program, outer, inner)
    return [loop.variable for loop in loops_around(program, (*inner, 0))[first:last]]


def reordered_text(program: Program, sums: Sequence[str]) -> str:
    """What comes of it that the terms of sums are added in another order, which may round them otherwise."""
    names, several = listed(sums), len(sums) > 1
    text = f"{names} {'add' if several else 'adds'} up in another order"
    if not _reach_an_output(program, sums):
        return f"{text}, but no output depends on {names}: the outputs keep every bit"
    return f"{text}, which may change the rounding of {names}: the results agree to rounding, not bit for bit"


def _reach_an_output(program: Program, names: Sequence[str]) -> bool:
    """Whether an output is one of the tensors, or may be computed from them."""
    reached = dict.fromkeys(names)
    statements = [node for _, node in walk(program) if isinstance(node, Guard | Equation)]
    count = 0
    while count < len(reached):
        count = len(reached)
        for node in statements:
            if any(tensor in reached for tensor in tensors_read(node)):
                reached |= dict.fromkeys(tensors_written(node))
    return any(declaration.tensor in reached for declaration in program.outputs)


def in_nest(program: Program, path: Path) -> str:
    """What the distances are of the dependences in the perfect nest that a loop stands in; empty where there are none,
    they are not known, or the nest is long. The terms of an accumulation depend on each other here.
    """
    root = path
    while len(root) > 1 and isinstance(above := statement_at(program, root[:-1]), Loop) and len(above.body) == 1:
        root = root[:-1]
    loops = [node for _, node in perfect_nest(statement_at(program, root)) if isinstance(node, Loop)]
    if not 1 < len(loops) <= LONGEST:
        return ""
    first = len(loops_around(program, root))
    found = distances(program, root, first, first + len(loops))
    return f"every dependence has {distance_text(found, [loop.variable for loop in loops])}" if found else ""


def distance_text(found: Sequence[Box], variables: Sequence[str]) -> str:
    """`distance (0, 1) or (1, 0) in (i, j)`, `a distance within (0, 1 to 7) in (i, j)`."""
    vectors = " or ".join(vector_text(box) for box in found)
    within = "a distance within" if any(low < high for box in found for low, high in box) else "distance"
    loops = variables[0] if len(variables) == 1 else f"({', '.join(variables)})"
    return f"{within} {vectors} in {loops}"


def vector_text(box: Box) -> str:
    """`(0, 1)`, `(1, 0 to 7)`, or `1` for one loop."""
    steps = [str(low) if low == high else f"{low} to {high}" for low, high in box]
    return f"({', '.join(steps)})" if len(steps) > 1 else steps[0]


def is_positive(box: Box) -> bool:
    """Whether the first step that is not zero is positive in every distance of a box; no distance is all zeros."""
    for low, _ in box:
        if low != 0:
            return low > 0
    return True
