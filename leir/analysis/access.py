"""The tensors of a program: role, dtype, scope, shape, and where each is declared."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from leir.analysis.affine import UNBOUNDED, Interval, affine, interval
from leir.analysis.isl import TooHard, largest, question
from leir.analysis.model import Statement, Use, ranges_of, reach, statements_at
from leir.analysis.types import INTEGERS, integer_range
from leir.edit import allocations_in, storage, tensors_in
from leir.remembered import remembered
from leir.syntax import DType, Expr, Path, Program, Scope, Stmt, Variable, operands

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


@remembered
@lru_cache(maxsize=256)
def _tensors(program: Program) -> tuple[Tensor, ...]:
    declared: dict[str, tuple[Role, tuple[int, ...], Path | None]] = {}
    for declaration in program.inputs:
        declared.setdefault(declaration.tensor, ("input", declaration.shape, None))
    for declaration in program.outputs:
        declared.setdefault(declaration.tensor, ("output", declaration.shape, None))
    for number, outermost in enumerate(program.body):
        for path, alloc in allocations_in(outermost):
            declared.setdefault(alloc.tensor, ("temporary", alloc.shape, (number, *path)))
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
    for nest in program.body:
        asked = tuple(name for name in tensors_in(nest) if name in names)
        for tensor, reached in _reached_at(nest, asked):
            known = sizes.setdefault(tensor, [1] * len(reached))
            if len(known) == len(reached):
                sizes[tensor] = [max(pair) for pair in zip(known, reached, strict=True)]
    return {name: tuple(known) for name, known in sizes.items()}


@lru_cache(maxsize=2048)
def _reached_at(nest: Stmt, names: tuple[str, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """For each tensor and each rank, by first appearance, the sizes that accesses of an outermost statement reach."""
    sizes: dict[tuple[str, int], list[int]] = {}
    for statement in statements_at(nest, 0):  # its place in the program says nothing about sizes
        for use in statement.uses:
            if use.access.tensor not in names:
                continue
            indices = use.access.indices
            known = sizes.setdefault((use.access.tensor, len(indices)), [1] * len(indices))
            for place, index in enumerate(indices):
                known[place] = max(known[place], _largest_index(statement, use, index) + 1)
    return tuple((tensor, tuple(known)) for (tensor, _), known in sizes.items())


def _largest_index(statement: Statement, use: Use, index: Expr) -> int:
    _, high = interval(index, ranges_of(statement))
    simple = high < UNBOUNDED[1] and _is_rectangular(statement, use) and _occurs_once_each(index)
    text = None if simple else affine(index, statement.names("x"))
    if text is not None:
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
