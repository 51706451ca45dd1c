"""The tensors of a program: role, dtype, scope, shape, and where each is declared."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from leir.analysis.affine import UNBOUNDED, Interval, affine, interval
from leir.analysis.isl import TooHard, largest, question
from leir.analysis.model import Statement, Use, ranges_of, reach, statements_of
from leir.analysis.types import INTEGERS, integer_range
from leir.edit import storage, walk
from leir.syntax import Alloc, DType, Expr, Path, Program, Scope, Variable, operands

Role = Literal["input", "output", "temporary"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a program. `alloc` is the path of its declaration, None for inputs, outputs and undeclared ones."""

    name: str
    role: Role
    dtype: DType
    scope: Scope
    shape: tuple[int, ...]
    alloc: Path | None


@lru_cache(maxsize=256)
def _tensors(program: Program) -> tuple[Tensor, ...]:
    declared: dict[str, tuple[Role, tuple[int, ...], Path | None]] = {}
    for declaration in program.inputs:
        declared.setdefault(declaration.tensor, ("input", declaration.shape, None))
    for declaration in program.outputs:
        declared.setdefault(declaration.tensor, ("output", declaration.shape, None))
    for path, statement in walk(program):
        if isinstance(statement, Alloc):
            declared.setdefault(statement.tensor, ("temporary", statement.shape, path))
    kinds = storage(program)
    undeclared = [name for name in kinds if name not in declared]
    shapes = _reached(program, undeclared) if undeclared else {}
    result: list[Tensor] = []
    for name, (dtype, scope) in kinds.items():
        role, shape, alloc = declared.get(name, ("temporary", shapes.get(name, ()), None))
        result.append(Tensor(name, role, dtype, scope, shape, alloc))
    return tuple(result)


def tensors(program: Program) -> dict[str, Tensor]:
    """Every tensor by name: the signature's, then allocated ones, then others, each by first appearance.

    An undeclared temporary's size is the largest index that any access reaches, plus one; where a subscript is not
    quasi-affine, the largest that it can be shown to stay below, and 1 where nothing bounds it. At least 1.
    """
    return {tensor.name: tensor for tensor in _tensors(program)}


def _reached(program: Program, names: list[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of undeclared temporaries; an access of another rank than the first does not count."""
    sizes: dict[str, list[int]] = {}
    for statement, use in _uses_of(program, names):
        known = sizes.setdefault(use.access.tensor, [1] * len(use.access.indices))
        if len(known) == len(use.access.indices):
            for number, index in enumerate(use.access.indices):
                known[number] = max(known[number], _largest_index(statement, use, index) + 1)
    return {name: tuple(known) for name, known in sizes.items()}


def _uses_of(program: Program, names: list[str]) -> Iterator[tuple[Statement, Use]]:
    for statement in statements_of(program):
        for use in statement.uses:
            if use.access.tensor in names:
                yield statement, use


def _largest_index(statement: Statement, use: Use, index: Expr) -> int:
    _, high = interval(index, ranges_of(statement))
    text = affine(index, statement.names("x"))
    simple = high < UNBOUNDED[1] and _is_rectangular(statement, use) and _occurs_once_each(index)
    if text is not None and not simple:
        where = [*reach(statement, use, "x"), f"v = {text}"]
        try:
            found = largest(question(["v", *statement.dimensions("x")], where), 0)
        except TooHard:
            found = None
        return 0 if found is None else found
    return int(high) if high < UNBOUNDED[1] else 0


def _is_rectangular(statement: Statement, use: Use) -> bool:
    return not statement.guards and not use.conditions


def _occurs_once_each(index: Expr) -> bool:
    """Whether no variable occurs twice, so that the interval of the expression is exact."""
    seen: list[str] = []

    def visit(expression: Expr) -> None:
        if isinstance(expression, Variable):
            seen.append(expression.name)
        for operand in operands(expression):
            visit(operand)

    visit(index)
    return len(seen) == len(set(seen))


def dtype_interval(dtype: DType) -> Interval:
    """The values of an integer dtype; unbounded for others."""
    return integer_range(dtype) if dtype in INTEGERS else UNBOUNDED
