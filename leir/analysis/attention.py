"""Sums of values weighted by a softmax: O = sum over j of exp(a_j-D)/E * v_j, with D the maximum and E the sum."""

from dataclasses import dataclass

from leir.analysis.definitions import Definitions, definitions_of, why_written_between
from leir.analysis.weights import Weights
from leir.edit import accesses, sole_equation, statement_at, walk
from leir.syntax import Access, Binary, Call, Equation, Expr, Guard, Loop, Path, Program, operands

Levels = tuple[Loop | Guard, ...]


@dataclass(frozen=True, slots=True)
class Inner:
    """A reduction that a score or a value reads, with loops of its own: `access` is its element where it is read."""

    access: Access
    equation: Equation
    levels: Levels
    value: Expr
    inner: "tuple[Inner, ...]"


@dataclass(frozen=True, slots=True)
class Statistic:
    """The maximum or the sum of a row: its element as the weighted sum sees it, and the path of its equation."""

    access: Access
    path: Path


@dataclass(frozen=True, slots=True)
class Attention:
    """A weighted sum in the variables of its loops.

    `rows`, `keys`, `columns`: the levels of its nest that number the rows, run over the terms, and number the elements
    of a row. `total` is None where nothing sums the weights. `inner`: the reductions of score and value. `opened`: the
    equations that only serve the weighted sum, or maximum and total. `leaves`: what is read of the rest, and where.
    """

    path: Path
    target: Access
    rows: Levels
    keys: Levels
    columns: Levels
    weights: Weights
    maximum: Statistic
    total: Statistic | None
    inner: tuple[Inner, ...]
    opened: tuple[Path, ...]
    leaves: tuple[tuple[str, Path], ...]


def may_be_weighted_sum(program: Program, nest: Path) -> bool:
    """Whether a nest holds one sum whose terms depend on an exponential and a maximum: cheap, and no proof."""
    found = sole_equation(statement_at(program, nest))
    if found is None or found[1].op != "+=":
        return False
    definitions = definitions_of(program)
    names = list(dict.fromkeys(access.tensor for access in accesses(found[1].value)))
    has_maximum = any(definitions.depends_on(name, lambda e: e.op == "max=") for name in names)
    exponential = _has_exp(found[1].value) or any(definitions.depends_on(n, lambda e: _has_exp(e.value)) for n in names)
    return has_maximum and exponential and isinstance(found[1].value, Binary)


def _has_exp(expression: Expr) -> bool:
    here = isinstance(expression, Call) and expression.function == "exp"
    return here or any(_has_exp(operand) for operand in operands(expression))


def read_elsewhere(program: Program, attention: Attention) -> dict[str, tuple[Path, ...]]:
    """The statements that read a tensor of an opened equation, other than those equations and the weighted sum."""
    own = {*attention.opened, attention.path}
    made = {tensor_written(program, path) for path in attention.opened}
    result: dict[str, list[Path]] = {}
    for path, node in walk(program):
        if path in own or not isinstance(node, Equation | Guard):
            continue
        parts = (node.value, *node.target.indices) if isinstance(node, Equation) else (node.condition,)
        for access in (a for part in parts for a in accesses(part)):
            if access.tensor in made and path not in result.setdefault(access.tensor, []):
                result[access.tensor].append(path)
    return {tensor: tuple(paths) for tensor, paths in sorted(result.items())}


def tensor_written(program: Program, path: Path) -> str:
    """The tensor that the equation at a path writes."""
    node = statement_at(program, path)
    assert isinstance(node, Equation)
    return node.target.tensor


def why_changed(definitions: Definitions, attention: Attention) -> str:
    """Why a leaf might have another value where the weighted sum stands than where it is read; empty if none has."""
    reasons = (why_written_between(definitions, tensor, path, attention.path) for tensor, path in attention.leaves)
    return next((reason for reason in reasons if reason), "")
